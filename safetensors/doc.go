// Package safetensors reads and writes tensors in the safetensors format, one file or a sharded checkpoint.
//
// # A file
//
//	bytes        what
//	0 to 7       n, the length of the header: unsigned, 64 bits, little-endian, at most 100,000,000
//	8 to 7+n     the header: a JSON object in UTF-8, which may be padded with white space
//	8+n to end   the data: the tensors back to back, row-major, little-endian
//
// The header maps the name of each tensor to its type, its shape and the half-open range of bytes it occupies. Offsets
// count from the first byte of the data, so they do not depend on the length of the header:
//
//	{"<name>": {"dtype": "F32", "shape": [1,2,3], "data_offsets": [BEGIN, END]}, ...}
//
// The name "__metadata__" is reserved for an object of strings. Unknown fields of a tensor are ignored. A shape of no
// dimensions is a scalar, and a dimension of 0 makes a tensor without bytes. Taken in the order of their offsets, the
// tensors cover the data exactly: the first begins at 0, each begins where the one before it ends, and the last ends
// with the file. Elements of less than a byte are packed, and such a tensor fills whole bytes.
//
// A file of one tensor "attn.0" of type F32 and shape [1,2,3] has 96 bytes:
//
//	 0  40 00 00 00 00 00 00 00                                            n = 64
//	 8  {"attn.0":{"dtype":"F32","shape":[1,2,3],"data_offsets":[0,24]}}   64 bytes
//	72  00 00 00 00 00 00 80 3f ...                                        24 bytes: six floats
//
// A file of no tensors has 16 bytes: 08 00 00 00 00 00 00 00, then {} and six spaces.
//
// # What a reader checks
//
// Opening a file reads its header and nothing else. Every rule above is checked, a breach is a [*FormatError], and no
// allocation exceeds a small multiple of the bytes the file really has. The checks are those of the reference
// implementation, and its names for them are the [Kind] constants, with these differences: a name or a key
// of the metadata that occurs twice is an error here, where the reference keeps the last; sizes are limited to 63 bits,
// where the reference allows 64; and a tensor is described by an object, where the reference would also take an array
// of the three values.
//
// # What a writer writes
//
// The same tensors always give the same bytes, those that the reference writer gives. Tensors are sorted by type in the
// order of the [DType] constants, then by name. Wide types come first, and the header is padded with spaces to a
// multiple of 8 bytes, so every element is aligned in a mapped file. The header lists the tensors in that order after
// __metadata__, without white space, with the fields in the order dtype, shape, data_offsets. In strings only the
// quote, the backslash and control characters are escaped. The keys of __metadata__ are sorted; the reference leaves
// them in the order of a hash table.
//
// # Shards
//
// A checkpoint too large for one file is split into shards model-00001-of-0000N.safetensors, each a complete file, and
// an index model.safetensors.index.json:
//
//	{"metadata": {"total_size": <bytes of all tensors>}, "weight_map": {"<tensor>": "<file>", ...}}
//
// A reader holds the weight map against the shards: each tensor is in the shard named for it, and in no other, and no
// shard has a tensor that the map leaves out. total_size is not checked: programs disagree on what it sums up.
package safetensors
