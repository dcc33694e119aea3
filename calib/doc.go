// Package calib makes the token sequences that calibrated quantization runs through a model, out of texts (Load) or out of
// what the model writes itself (Self).
//
// The same settings give the same sequences on every machine. Sequences come in the order of their lots, so the first ones
// of many are those that fewer samples would give.
//
// # How much
//
// Samples·Length tokens are wanted. Sequences have Length tokens at most; where documents are shorter, there are more
// sequences than Samples, until the tokens are together. No sequence has less than min(Length, max(16, Length/4)) tokens. A
// source with fewer tokens than were wanted gives what it has, with a [*TooLittleError]; [Enough] says whether that is enough
// for a matrix.
//
// # What stands around a text
//
// Every sequence begins with the tokens that the tokenizer puts in front of every text, if it does: most often BOS. The
// first token of a sequence is the one that all others attend to, so it has to be the one of later use. What a tokenizer
// puts behind a text is left out. Special tokens that are spelled out in a text are those tokens, as always.
//
// Documents are kept apart: no sequence has tokens of two. With Pack they stand one behind the other, between them the
// first of Language.Ends and what the tokenizer puts in front, one token if both are the same one.
//
// With Chat a document is a conversation in the form of the model's chat template. Where the last message is a user's, the
// beginning of an answer follows. The template's own BOS counts as the one of the sequence, and without one there is none,
// as in use. A plain text becomes messages of a user, each of 3·Length bytes at most, so that as a rule every sequence is
// a whole one. A template that asks for the date is told 26 July 2024. A conversation that it refuses is left out, which the
// notes say. Conversations that are packed have between them what the template writes.
//
// # Sources
//
// A file, or of a folder all files of the following kinds, by name; subfolders are not searched. Each may be compressed
// once more (.gz, .zst).
//
//	.txt, any other      one document, or several with lines between them that begin with <|endoftext|>
//	.jsonl .ndjson .json JSON objects one behind the other, or one list of them; each is a document. At most 64 MB each
//	.parquet             rows; each is a document
//
// Of a row the text is the field Settings.Field. Without that it is text, and with Chat the first of messages, conversations
// and text that the first row has. Messages are lists of objects with role and content, or from and value, where human is
// the user and gpt the assistant; of JSON, whatever else they have is the template's. Rows without a text and blank documents
// do not count. A Parquet column is of byte strings, or a list of such messages (package internal/parquet says what of the
// format is read).
//
// Text is UTF-8, with or without its byte order mark. One broken character in each megabyte becomes U+FFFD; more of
// them, another byte order mark or a zero byte are errors.
//
// # Which sequences
//
// The text is cut into units: a document, or of one longer than max(64 KiB, 32·Length) bytes a stretch of at most that many,
// cut behind a line in its second half, else before a space, else anywhere; with Pack, documents until they have that many
// bytes. A unit is tokenized from its start and cut into windows side by side, Length tokens each with what stands in front.
// The rest is a window where a document ends (with Pack the whole text, with Chat any message), if it is long enough. Units and the windows in
// them are numbered from 0, and window w of unit u has the lot
//
//	f(f(f(seed) + u) + w)
//
// where f is a step of SplitMix64. Those with the smallest lots are taken, as many as give the tokens. A unit of b bytes
// (with Pack the tokens between documents added, with Chat 4096 for every part) counts with its first b/room + 1 windows at most,
// room being Length without the front. So whether any window of it can still be taken is known before it is tokenized, and of a
// large text little is. Memory holds a unit, a row, and the sequences.
//
// # What the model writes
//
// Sequence n is drawn from the model's probabilities by a generator of its own, seeded with f(f(seed) + n). Its prompt is
// what the tokenizer puts in front of a text. Where that is nothing, it is the first token that ends a text, which is then
// not in the sequence, because in use it would not be there; without one the sequence begins with a token of text, drawn
// evenly.
//
// The first 4 tokens of a document are drawn at temperature 2 among the 50 likeliest, so that documents begin differently
// also where a model has one favourite beginning; all others at temperature 1 among all. Special tokens are never drawn but
// those that end a text, and these only when the document is long enough to be a sequence. At such a token the sequence
// ends, without it; with Pack it goes on behind it, as documents of a file would. With Chat the model writes a user's
// message, at most Length/4 tokens, and the answer.
//
// Up to 32 sequences run together, in caches of bfloat16 with 1 GiB at most. A model's logits do not depend on that, so
// neither do the sequences. They depend on everything else that decides logits: the weights and the activation mode. The
// exponentials of a draw may differ in the last bit between kinds of processors, which a draw notices once in 10¹².
//
// # Files of sequences
//
// Save and Saved keep sequences, so that another run need not make them again. All numbers are little-endian.
//
//	"nibseq1\n"   8 bytes
//	n             4 bytes
//	JSON          n bytes: key, source, documents, used, short, notes, and the lengths of the sequences
//	ids           4 bytes each, the sequences one behind the other
//	SHA-256       32 bytes, of all before
//
// Nothing may follow, and a file is only read under the key that it was written for.
//
// # Files of statistics
//
// What the matrices of the float model receive depends on the model and the text alone, so Recorder keeps it, and Replay shows it in
// place of a Pass. On quantized predecessors every build has statistics of its own, and nothing is kept. All numbers are little-endian.
//
//	"nibmom1\n"   8 bytes
//	header        a JSON object: key, and kind, which is one of diagonals, moments, and moments and those ahead
//	CRC-32C       4 bytes, of all before
//	records       one for each Input, in the order of the pass, the head's last
//	0             4 bytes; nothing follows
//
// A JSON object has its length in 4 bytes before it, at most 4096 for the header and 65536 for a record. A record is
//
//	JSON          layer and expert, -1 for the head and for no expert; tensors, the names of the matrices; tokens; diagonal, see Input;
//	              moments: of each its name (plain, received, ahead, in that order, the last two where there are any), k, tokens,
//	              weight (Σω), and second, whether it is more than a diagonal
//	numbers       float64 of the moments one behind the other: with second the rows of the lower triangle, k·(k+1)/2, else k
//	CRC-32C       4 bytes, of the record
//
// The key is the SHA-256 of the model's checksum, that of the tokens, how products are computed, the kind, and the program's version. A
// file is checked from end to end before anything of it is shown, and every record again when it is. Both sides hold one input in memory.
package calib
