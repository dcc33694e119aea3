// Package tokenizer turns text into token ids and back, for the tokenizers that models carry with them.
//
// Two files are read: tokenizer.json of Hugging Face's tokenizers, and SentencePiece's tokenizer.model. Whatever a file
// asks for and this package does not have is an error with its name: a tokenizer that is nearly right is wrong.
//
// # tokenizer.json
//
// Text becomes ids in five stages:
//
//	added tokens  cut out of the text, longest first at each place; those marked normalized in a second pass after the
//	              normalizer; lstrip and rstrip take the white space beside them, single_word wants no word there
//	normalizer    Sequence NFC NFD NFKC NFKD Lowercase Prepend Replace Strip StripAccents Precompiled
//	pre-tokenizer Sequence Split ByteLevel Metaspace Digits Whitespace WhitespaceSplit Punctuation
//	model         BPE, Unigram
//	post-process  ByteLevel Sequence TemplateProcessing BertProcessing RobertaProcessing: tokens around the text
//
// and ids become text by the decoder: Sequence ByteLevel ByteFallback Fuse Strip Replace Metaspace. Without one, tokens
// are joined by spaces. The sections truncation and padding concern batches and are ignored.
//
// An added token that the model's vocabulary knows must have the id of the vocabulary. Any other has the id that the file
// states, also where Hugging Face would close a gap in the numbering.
//
// BPE starts from the characters of a word, each looked up in the vocabulary, and joins the neighbours of the lowest
// merge rank, leftmost first, until no pair has a rank. With ignore_merges a word of the vocabulary is one token. An
// unknown character is its bytes <0xNN> (byte_fallback), or unk_token (a run of them once, by fuse_unk), or nothing.
// Unigram takes the segmentation with the highest sum of scores. A character that no token covers costs ten less than the
// lowest score.
//
// ByteLevel writes each byte of the text as a character of its own: the printable ones of Latin-1 as themselves, the
// 68 others as U+0100 and on.
//
// # tokenizer.model
//
// A protobuf message: pieces with a score and a type (normal, unknown, control, user-defined, unused, byte), a trainer
// spec and a normalizer spec with an optional character map. Spaces become U+2581, one is put in front, runs of them
// are one where remove_extra_whitespaces says so. User-defined pieces are never cut or merged. BPE joins the neighbours
// whose piece has the highest score.
//
// Unlike in SentencePiece, control pieces in the text are recognised, as every runtime of such models does, and each
// stretch of text behind one gets its own space in front, unless tokenizer_config.json says legacy: false.
//
// # Limits
//
// Files are hostile until read: 64 MB, ids below 2^21, regular expressions 2 seconds a match and 10 a text, nested
// components 16 deep and 256 in a sequence. Regular expressions are Oniguruma's, matched by regexp2; what the two
// understand differently is refused. Character classes are those of Go's version of Unicode.
//
// A chat template has 128 KB at most. It is bounded in the rounds of its loops, its recursion, its time and the size of
// its variables, but not in what one expression makes of them. It cannot multiply.
package tokenizer
