package safetensors

// DType is the element type of a tensor. The constants are in the order in which the reference writer sorts the
// tensors of a file (widest first), so that every tensor starts at an address its type is aligned for.
type DType uint8

// The element types of the format.
const (
	U64 DType = iota
	I64
	F64
	C64
	F32
	U32
	I32
	BF16
	F16
	U16
	I16
	F8E5M2FNUZ
	F8E4M3FNUZ
	F8E8M0
	F8E4M3
	F8E5M2
	I8
	U8
	F6E3M2
	F6E2M3
	F4
	Bool
	numDTypes
)

var dtypes = [numDTypes]struct {
	name string
	bits int
}{
	U64: {"U64", 64}, I64: {"I64", 64}, F64: {"F64", 64}, C64: {"C64", 64},
	F32: {"F32", 32}, U32: {"U32", 32}, I32: {"I32", 32},
	BF16: {"BF16", 16}, F16: {"F16", 16}, U16: {"U16", 16}, I16: {"I16", 16},
	F8E5M2FNUZ: {"F8_E5M2FNUZ", 8}, F8E4M3FNUZ: {"F8_E4M3FNUZ", 8}, F8E8M0: {"F8_E8M0", 8},
	F8E4M3: {"F8_E4M3", 8}, F8E5M2: {"F8_E5M2", 8}, I8: {"I8", 8}, U8: {"U8", 8},
	F6E3M2: {"F6_E3M2", 6}, F6E2M3: {"F6_E2M3", 6}, F4: {"F4", 4}, Bool: {"BOOL", 8},
}

// ParseDType returns the type with the given name, as it is spelt in a header ("BF16", "F8_E4M3").
func ParseDType(name string) (DType, bool) {
	for d := range dtypes {
		if dtypes[d].name == name {
			return DType(d), true
		}
	}
	return 0, false
}

// String returns the name of the type as a header spells it.
func (d DType) String() string {
	if d >= numDTypes {
		return "invalid dtype"
	}
	return dtypes[d].name
}

// Bits returns the size of one element in bits: 4 to 64.
func (d DType) Bits() int { return dtypes[d].bits }

// IsFloat reports whether a model's weights can have this type: F64, F32, BF16 or F16.
func (d DType) IsFloat() bool { return d == F64 || d == F32 || d == BF16 || d == F16 }
