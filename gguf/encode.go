package gguf

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// appendHeader appends all that precedes the data of a file. The offsets of tensors count from the start of the data, and
// the values are those that checkValue allows.
func appendHeader(b []byte, metadata []Entry, tensors []Tensor, alignment int64) []byte {
	b = append(b, "GGUF"...)
	b = binary.LittleEndian.AppendUint32(b, 3)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(tensors)))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(metadata)))
	for _, e := range metadata {
		b = appendString(b, e.Key)
		t, _ := typeOf(e.Value)
		b = binary.LittleEndian.AppendUint32(b, t)
		b = appendValue(b, e.Value)
	}
	for _, t := range tensors {
		b = appendString(b, t.Name)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(t.Shape)))
		for _, d := range slices.Backward(t.Shape) {
			b = binary.LittleEndian.AppendUint64(b, uint64(d))
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(t.Type))
		b = binary.LittleEndian.AppendUint64(b, uint64(t.Offset))
	}
	return append(b, make([]byte, roundUp(int64(len(b)), alignment)-int64(len(b)))...)
}

func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

// typeOf returns the type of a value and, for a slice, that of its elements.
func typeOf(value any) (t, element uint32) {
	switch value.(type) {
	case uint8:
		return typeUint8, 0
	case int8:
		return typeInt8, 0
	case uint16:
		return typeUint16, 0
	case int16:
		return typeInt16, 0
	case uint32:
		return typeUint32, 0
	case int32:
		return typeInt32, 0
	case float32:
		return typeFloat32, 0
	case bool:
		return typeBool, 0
	case string:
		return typeString, 0
	case uint64:
		return typeUint64, 0
	case int64:
		return typeInt64, 0
	case float64:
		return typeFloat64, 0
	case []uint8:
		return typeArray, typeUint8
	case []int8:
		return typeArray, typeInt8
	case []uint16:
		return typeArray, typeUint16
	case []int16:
		return typeArray, typeInt16
	case []uint32:
		return typeArray, typeUint32
	case []int32:
		return typeArray, typeInt32
	case []float32:
		return typeArray, typeFloat32
	case []bool:
		return typeArray, typeBool
	case []string:
		return typeArray, typeString
	case []any:
		return typeArray, typeArray
	case []uint64:
		return typeArray, typeUint64
	case []int64:
		return typeArray, typeInt64
	case []float64:
		return typeArray, typeFloat64
	}
	return numTypes, 0
}

// checkValue reports a value that no file can hold, inside depth arrays.
func checkValue(value any, depth int) error {
	t, element := typeOf(value)
	switch {
	case t == numTypes:
		return fmt.Errorf("a value of type %T cannot be stored", value)
	case t == typeArray && depth == maxDepth:
		return fmt.Errorf("%s: more than %d deep", TooDeep, maxDepth)
	case depth > 0 && t != typeArray:
		return fmt.Errorf("a %T in an array of arrays", value)
	}
	if element == typeArray {
		for _, v := range value.([]any) {
			if err := checkValue(v, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// appendValue appends a value; an array with the type and the number of its elements.
func appendValue(b []byte, value any) []byte {
	t, element := typeOf(value)
	if t != typeArray {
		return appendFixed(b, value)
	}
	b = binary.LittleEndian.AppendUint32(b, element)
	switch v := value.(type) {
	case []string:
		b = binary.LittleEndian.AppendUint64(b, uint64(len(v)))
		for _, s := range v {
			b = appendString(b, s)
		}
		return b
	case []any:
		b = binary.LittleEndian.AppendUint64(b, uint64(len(v)))
		for _, a := range v {
			b = appendValue(b, a)
		}
		return b
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(binary.Size(value))/uint64(valueBytes[element]))
	return appendFixed(b, value)
}

// appendFixed appends a number, a bool, a string, or a slice of numbers or bools.
func appendFixed(b []byte, value any) []byte {
	if s, ok := value.(string); ok {
		return appendString(b, s)
	}
	b, err := binary.Append(b, binary.LittleEndian, value)
	if err != nil {
		panic("gguf: " + err.Error()) // of what typeOf knows, all have a size
	}
	return b
}
