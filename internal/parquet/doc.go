// Package parquet reads columns of byte strings from Parquet files: what datasets keep texts in.
//
// It reads what the common writers make of such columns and refuses the rest by name. Files are hostile until read: every
// length is held against the bytes that are there, a footer has 64 MB at most and a page 256 MB unpacked.
//
// # A file
//
//	"PAR1"            4 bytes
//	column chunks     where the footer says
//	footer            FileMetaData, in Thrift's compact protocol
//	n                 4 bytes, little-endian: length of the footer
//	"PAR1"            4 bytes
//
// The footer lists the schema, a tree written in preorder, and row groups. A group has one chunk for every leaf of the
// tree: pages one behind the other, of which a dictionary may be the first.
//
// # Levels
//
// A leaf is as deep as the optional and repeated nodes on its path. Every entry of a chunk has a definition level, the
// number of those nodes that are there, and a repetition level, the number of the repeated node on the path at which the
// entry goes on, 0 at the start of a row. There is a value where the definition level is the highest one. A leaf without
// optional and repeated nodes has neither.
//
// # Pages
//
// Each has a PageHeader in Thrift's compact protocol, then the data, as a whole compressed with the codec of the chunk
// (none, Snappy, gzip, Zstandard), and where the header has a checksum it is the CRC-32 of the compressed data.
//
//	data page, version 1   repetition levels, definition levels (each with its length in 4 bytes, none where the highest is 0),
//	                       values
//	data page, version 2   the same with lengths in the header; levels are never compressed, values only where the header
//	                       says so
//	dictionary page        values, plain
//
// Values are plain, each a length in 4 bytes, little-endian, and the bytes, or numbers of entries in the dictionary: a byte
// with the width in bits, then a hybrid of runs. Levels are such a hybrid without that byte, with the width of the highest
// level. A hybrid is a sequence of runs, each with a header h in LEB128:
//
//	h even   h/2 times the same value, which follows in as few whole bytes as the width needs, little-endian
//	h odd    (h−1)/2 groups of eight values, bit by bit from the lowest bit of the first byte on
//
// Not read: encryption, other codecs, delta encodings and the bit-packed levels of the first versions of the format.
package parquet
