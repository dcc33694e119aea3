// Package gguf reads and writes GGUF, the file format of llama.cpp: metadata and tensors, in one file or in parts.
//
// # A file
//
//	bytes    what
//	4        "GGUF"
//	4        version: 2 or 3
//	8        number of tensors
//	8        number of metadata entries
//	...      the entries: key (a string), type of the value (4 bytes), value
//	...      the tensors: name (a string), number of dimensions (4 bytes), each dimension (8 bytes), type (4 bytes),
//	         offset (8 bytes)
//	...      zeros, to a multiple of the alignment
//	...      the data: offsets count from here, and are multiples of the alignment
//
// A string is its length (8 bytes) and as many bytes, without a terminator. The alignment is the entry
// general.alignment, a uint32 and a power of two, or 32. All numbers are little-endian or, if the version reads as 2 or 3
// that way, big-endian, those in the data included. Versions 2 and 3 do not differ otherwise; version 1, with shorter
// numbers, is not read.
//
// The types of a value are 0 uint8, 1 int8, 2 uint16, 3 int16, 4 uint32, 5 int32, 6 float32, 7 bool (a byte, 0 or 1),
// 8 string, 9 array, 10 uint64, 11 int64, 12 float64. An array is the type of its elements (4 bytes), their number (8
// bytes) and the elements; elements that are arrays carry a type and a number each.
//
// The first dimension in the file is that of a row, along which the elements of a tensor, and its blocks, lie side by
// side. Shapes in this package are in the opposite order, that of PyTorch and safetensors: a matrix [out, in] has rows of
// in elements. The types of elements are those of package nibble/gguf/block.
//
// A file of one entry and one tensor:
//
//	  0  47 47 55 46  03 00 00 00                          GGUF, version 3
//	  8  01 00 00 00 00 00 00 00  01 00 00 00 00 00 00 00  one tensor, one entry
//	 24  01 00 00 00 00 00 00 00  6b                       key "k"
//	 33  00 00 00 00  07                                   uint8 7
//	 38  01 00 00 00 00 00 00 00  61                       name "a"
//	 47  01 00 00 00  02 00 00 00 00 00 00 00              one dimension: 2
//	 59  00 00 00 00  00 00 00 00 00 00 00 00              F32, offset 0
//	 71  25 zeros
//	 96  00 00 80 3f 00 00 00 40                           1, 2
//	104  24 zeros
//
// # What a reader checks
//
// Opening a file reads what precedes the data and nothing else. Every rule above is checked, a breach is a [*FormatError],
// and no allocation exceeds a small multiple of the bytes the file really has. Further rules: keys and names are UTF-8,
// are not empty, occur once, and have at most 65,535 and 64 bytes; a tensor has at most 4 dimensions, and its rows are
// whole blocks; tensors lie in the file and do not overlap; arrays are nested 4 deep at most; all that precedes the data
// has at most 256 MiB. Tensors may leave gaps, and bytes may follow the last one.
//
// # What a writer writes
//
// Version 3, little-endian, entries and tensors in the order given, the data without gaps: each tensor is padded with
// zeros to a multiple of the alignment, the last one too. Names have at most 63 bytes, since llama.cpp reads no longer
// ones.
//
// # Parts
//
// A model too large for one file is split into NAME-00001-of-0000N.gguf and so on, each a complete file. Part 1 carries
// the metadata. Each part has three more entries, integers: split.no, counted from 0; split.count, N; and
// split.tensors.count, the number of tensors of all parts. [OpenSet] opens all parts, given the name of any.
package gguf
