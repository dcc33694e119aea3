// Package onnx writes and reads the protobuf messages of ONNX models, as far as graphs of tensors need them.
//
// A file is one ModelProto. Its fields, and those of the messages inside, by number:
//
//	Model      1 ir_version, 2 producer_name, 3 producer_version, 7 graph, 8 opset_import*, 14 metadata_props*
//	Opset      1 domain, 2 version
//	Graph      1 node*, 2 name, 5 initializer*, 11 input*, 12 output*, 13 value_info*
//	Node       1 input*, 2 output*, 3 name, 4 op_type, 5 attribute*, 7 domain
//	Attribute  1 name, 2 f, 3 i, 4 s, 7 floats*, 8 ints*, 20 type (1 float, 2 int, 3 string, 6 floats, 7 ints)
//	Tensor     1 dims*, 2 data_type, 4 float_data*, 5 int32_data*, 7 int64_data*, 8 name, 9 raw_data,
//	           13 external_data* (keys location, offset, length), 14 data_location (1: external)
//	ValueInfo  1 name, 2 type (1 tensor_type (1 elem_type, 2 shape (1 dim* (1 dim_value, 2 dim_param))))
//	Entry      1 key, 2 value
//
// Raw and external data are little-endian, row-major; 4-bit elements are two to a byte, the first one in the low half.
// External data lie in a file beside the model; offsets are multiples of the size of a page, so that the file can be mapped.
//
// The reader knows these fields, passes over others, and refuses what breaks the encoding. It never allocates more than a
// fixed multiple of the bytes it was given.
package onnx

import "fmt"

// Type is the element type of a tensor.
type Type int32

// The types that graphs have.
const (
	Float    Type = 1
	Uint8    Type = 2
	Int8     Type = 3
	Uint16   Type = 4
	Int16    Type = 5
	Int32    Type = 6
	Int64    Type = 7
	Bool     Type = 9
	Float16  Type = 10
	BFloat16 Type = 16
	Uint4    Type = 21
	Int4     Type = 22
)

var typeNames = map[Type]string{Float: "float", Uint8: "uint8", Int8: "int8", Uint16: "uint16", Int16: "int16", Int32: "int32", Int64: "int64",
	Bool: "bool", Float16: "float16", BFloat16: "bfloat16", Uint4: "uint4", Int4: "int4"}

// String names the type.
func (t Type) String() string {
	if s, ok := typeNames[t]; ok {
		return s
	}
	return fmt.Sprintf("type %d", int32(t))
}

// Bits is the size of an element, 0 for types that graphs here do not have.
func (t Type) Bits() int {
	switch t {
	case Uint4, Int4:
		return 4
	case Uint8, Int8, Bool:
		return 8
	case Uint16, Int16, Float16, BFloat16:
		return 16
	case Float, Int32:
		return 32
	case Int64:
		return 64
	}
	return 0
}

// Model is a file.
type Model struct {
	IR              int64
	Producer        string
	ProducerVersion string
	Opsets          []Opset
	Graph           Graph
	Metadata        []Entry
}

// Opset is a set of operators that a model uses; the domain of the standard is "".
type Opset struct {
	Domain  string
	Version int64
}

// Entry is a key with a value.
type Entry struct{ Key, Value string }

// Graph is nodes in an order in which they can run, and what they need.
type Graph struct {
	Name                   string
	Nodes                  []Node
	Initializers           []Tensor
	Inputs, Outputs, Infos []ValueInfo
}

// Node is an operation.
type Node struct {
	Name, Op, Domain string
	In, Out          []string
	Attributes       []Attribute
}

// Attribute is a setting of a node. Kind says which field holds it.
type Attribute struct {
	Name   string
	Kind   Kind
	I      int64
	F      float32
	S      string
	Ints   []int64
	Floats []float32
}

// Kind is the type of an attribute.
type Kind int32

// The kinds of attributes.
const (
	FloatKind  Kind = 1
	IntKind    Kind = 2
	StringKind Kind = 3
	FloatsKind Kind = 6
	IntsKind   Kind = 7
)

// Ints returns a list attribute.
func Ints(name string, list ...int64) Attribute {
	return Attribute{Name: name, Kind: IntsKind, Ints: list}
}

// Int returns a number attribute.
func Int(name string, i int64) Attribute { return Attribute{Name: name, Kind: IntKind, I: i} }

// Real returns a float attribute.
func Real(name string, f float32) Attribute { return Attribute{Name: name, Kind: FloatKind, F: f} }

// Text returns a string attribute.
func Text(name, s string) Attribute { return Attribute{Name: name, Kind: StringKind, S: s} }

// Attribute returns an attribute by its name, or nil.
func (n *Node) Attribute(name string) *Attribute {
	for i := range n.Attributes {
		if n.Attributes[i].Name == name {
			return &n.Attributes[i]
		}
	}
	return nil
}

// Tensor is a constant. Its data are Raw, or in External, or in the lists that other writers use.
type Tensor struct {
	Name     string
	Type     Type
	Dims     []int64
	Raw      []byte
	External *External
	Floats   []float32
	Int32s   []int32
	Int64s   []int64
}

// External is where data lie in a file beside the model.
type External struct {
	Location       string
	Offset, Length int64
}

// ValueInfo is name, type and shape of a tensor. A dimension that is not fixed is -1.
type ValueInfo struct {
	Name  string
	Type  Type
	Shape []int64
	Rank  bool // the shape is there
}
