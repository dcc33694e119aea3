package gguf

import "math"

// Entry is a key of the metadata with its value, which has the Go type of its type in the file: uint8, int8, uint16,
// int16, uint32, int32, uint64, int64, float32, float64, bool, string, or a slice of one of them. An array of arrays is
// an []any of slices.
type Entry struct {
	Key   string
	Value any
}

// The types of values, by their numbers in a file.
const (
	typeUint8 = iota
	typeInt8
	typeUint16
	typeInt16
	typeUint32
	typeInt32
	typeFloat32
	typeBool
	typeString
	typeArray
	typeUint64
	typeInt64
	typeFloat64
	numTypes
)

// valueBytes is how many bytes a value of each type takes at least.
var valueBytes = [numTypes]int64{1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8}

// maxDepth is how deep arrays may be nested.
const maxDepth = 4

// alignmentKey is the entry that sets the alignment, a uint32.
const alignmentKey = "general.alignment"

// Alignment is that of files that have no such entry: every tensor begins at a multiple of it, in bytes.
const Alignment = 32

// integer returns the value of an entry as an int64, if it is an integer that fits.
func integer(value any) (int64, bool) {
	switch v := value.(type) {
	case uint8:
		return int64(v), true
	case int8:
		return int64(v), true
	case uint16:
		return int64(v), true
	case int16:
		return int64(v), true
	case uint32:
		return int64(v), true
	case int32:
		return int64(v), true
	case uint64:
		return int64(v), v <= math.MaxInt64
	case int64:
		return v, true
	}
	return 0, false
}
