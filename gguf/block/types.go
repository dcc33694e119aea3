package block

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"nibble/internal/kernel"
)

// Type is the type of a tensor's elements, by its number in a file.
type Type uint32

// The types that files hold. The numbers between them belonged to types that are no more.
const (
	F32    Type = 0
	F16    Type = 1
	Q4_0   Type = 2
	Q4_1   Type = 3
	Q5_0   Type = 6
	Q5_1   Type = 7
	Q8_0   Type = 8
	Q2_K   Type = 10
	Q3_K   Type = 11
	Q4_K   Type = 12
	Q5_K   Type = 13
	Q6_K   Type = 14
	Q8_K   Type = 15
	IQ4_NL Type = 20
	IQ4_XS Type = 23
	I8     Type = 24
	I16    Type = 25
	I32    Type = 26
	I64    Type = 27
	F64    Type = 28
	BF16   Type = 30
	TQ1_0  Type = 34
	TQ2_0  Type = 35
	MXFP4  Type = 39
	NVFP4  Type = 40
)

// The types whose sizes alone are known.
const (
	IQ2_XXS Type = 16
	IQ2_XS  Type = 17
	IQ3_XXS Type = 18
	IQ1_S   Type = 19
	IQ3_S   Type = 21
	IQ2_S   Type = 22
	IQ1_M   Type = 29
	Q1_0    Type = 41
)

// ErrUnsupported is what an error wraps if a type has no decoder, or no encoder, here.
var ErrUnsupported = errors.New("not supported")

// ErrNotFinite is what an error wraps if a weight is a NaN or an infinity, for which a block has no code.
var ErrNotFinite = errors.New("not finite")

// A field is a run of count numbers of width bytes inside a block.
type field struct{ at, width, count int }

// codec is one line of the table. size is the number of weights of a block, bytes what they take.
type codec struct {
	name        string
	size, bytes int
	decode      func(dst []float32, src []byte)
	encode      func(dst []byte, src, weights []float32)
	fields      []field // the numbers of more than a byte
}

var codecs = [...]codec{
	F32:    {name: "F32", size: 1, bytes: 4, decode: decodeF32, encode: encodeF32, fields: []field{{0, 4, 1}}},
	F16:    {name: "F16", size: 1, bytes: 2, decode: decodeF16, encode: encodeF16, fields: []field{{0, 2, 1}}},
	BF16:   {name: "BF16", size: 1, bytes: 2, decode: decodeBF16, encode: encodeBF16, fields: []field{{0, 2, 1}}},
	Q8_0:   {name: "Q8_0", size: 32, bytes: 34, decode: decodeQ8_0, encode: encodeQ8_0, fields: []field{{0, 2, 1}}},
	Q4_0:   {name: "Q4_0", size: 32, bytes: 18, decode: decodeQ4_0, encode: encodeQ4_0, fields: []field{{0, 2, 1}}},
	Q4_1:   {name: "Q4_1", size: 32, bytes: 20, decode: decodeQ4_1, encode: encodeQ4_1, fields: []field{{0, 2, 2}}},
	Q5_0:   {name: "Q5_0", size: 32, bytes: 22, decode: decodeQ5_0, encode: encodeQ5_0, fields: []field{{0, 2, 1}, {2, 4, 1}}},
	Q5_1:   {name: "Q5_1", size: 32, bytes: 24, decode: decodeQ5_1, encode: encodeQ5_1, fields: []field{{0, 2, 2}, {4, 4, 1}}},
	IQ4_NL: {name: "IQ4_NL", size: 32, bytes: 18, decode: decodeIQ4_NL, encode: encodeIQ4_NL, fields: []field{{0, 2, 1}}},
	MXFP4:  {name: "MXFP4", size: 32, bytes: 17, decode: decodeMXFP4},
	NVFP4:  {name: "NVFP4", size: 64, bytes: 36, decode: decodeNVFP4},
	Q2_K:   {name: "Q2_K", size: 256, bytes: 84, decode: decodeQ2_K, encode: encodeQ2_K, fields: []field{{80, 2, 2}}},
	Q3_K:   {name: "Q3_K", size: 256, bytes: 110, decode: decodeQ3_K, encode: encodeQ3_K, fields: []field{{108, 2, 1}}},
	Q4_K:   {name: "Q4_K", size: 256, bytes: 144, decode: decodeQ4_K, encode: encodeQ4_K, fields: []field{{0, 2, 2}}},
	Q5_K:   {name: "Q5_K", size: 256, bytes: 176, decode: decodeQ5_K, encode: encodeQ5_K, fields: []field{{0, 2, 2}}},
	Q6_K:   {name: "Q6_K", size: 256, bytes: 210, decode: decodeQ6_K, encode: encodeQ6_K, fields: []field{{208, 2, 1}}},
	IQ4_XS: {name: "IQ4_XS", size: 256, bytes: 136, decode: decodeIQ4_XS, encode: encodeIQ4_XS, fields: []field{{0, 2, 2}}},
	Q8_K:   {name: "Q8_K", size: 256, bytes: 292, decode: decodeQ8_K, encode: encodeQ8_K, fields: []field{{0, 4, 1}, {260, 2, 16}}},
	TQ1_0:  {name: "TQ1_0", size: 256, bytes: 54, decode: decodeTQ1_0, fields: []field{{52, 2, 1}}},
	TQ2_0:  {name: "TQ2_0", size: 256, bytes: 66, decode: decodeTQ2_0, fields: []field{{64, 2, 1}}},

	I8:      {name: "I8", size: 1, bytes: 1},
	I16:     {name: "I16", size: 1, bytes: 2, fields: []field{{0, 2, 1}}},
	I32:     {name: "I32", size: 1, bytes: 4, fields: []field{{0, 4, 1}}},
	I64:     {name: "I64", size: 1, bytes: 8, fields: []field{{0, 8, 1}}},
	F64:     {name: "F64", size: 1, bytes: 8, fields: []field{{0, 8, 1}}},
	IQ1_S:   {name: "IQ1_S", size: 256, bytes: 50},
	IQ1_M:   {name: "IQ1_M", size: 256, bytes: 56},
	IQ2_XXS: {name: "IQ2_XXS", size: 256, bytes: 66},
	IQ2_XS:  {name: "IQ2_XS", size: 256, bytes: 74},
	IQ2_S:   {name: "IQ2_S", size: 256, bytes: 82},
	IQ3_XXS: {name: "IQ3_XXS", size: 256, bytes: 98},
	IQ3_S:   {name: "IQ3_S", size: 256, bytes: 110},
	Q1_0:    {name: "Q1_0", size: 128, bytes: 18},
}

// of returns the line of a type, one without a name if there is no such type.
func (t Type) of() *codec {
	if int64(t) < int64(len(codecs)) {
		return &codecs[t]
	}
	return &codec{}
}

// Known reports whether the sizes of the type are known.
func (t Type) Known() bool { return t.of().size > 0 }

// String returns the name of the type, "type 99" if it is not known.
func (t Type) String() string {
	if c := t.of(); c.name != "" {
		return c.name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// Size returns the number of weights of a block, 0 for a type that is not known.
func (t Type) Size() int { return t.of().size }

// Bytes returns the number of bytes of a block, 0 for a type that is not known.
func (t Type) Bytes() int { return t.of().bytes }

// Parse returns the type of a name as it is spelt in the package comment.
func Parse(name string) (Type, bool) {
	for t := range codecs {
		if name != "" && codecs[t].name == name {
			return Type(t), true
		}
	}
	return 0, false
}

// CanDecode reports whether Decode knows the type.
func (t Type) CanDecode() bool { return t.of().decode != nil }

// CanEncode reports whether Encode knows the type.
func (t Type) CanEncode() bool { return t.of().encode != nil }

// Decode sets dst to the weights of src. Their number is a multiple of the block's, and src is as long as they take.
func (t Type) Decode(dst []float32, src []byte) error {
	c := t.of()
	if c.decode == nil {
		return fmt.Errorf("block: %w", t.refusal("decoded"))
	}
	if err := c.fits(len(dst), len(src)); err != nil {
		return fmt.Errorf("block: decoding %s: %w", t, err)
	}
	c.decode(dst, src)
	return nil
}

// Encode sets dst to the blocks of src. The number of weights is a multiple of the block's, and dst is as long as they
// take. weights says how much the squared error of each of them counts: as many as src, or those of one row of whole blocks, which are
// the same for all rows of src; finite and not negative. Blocks or sub-blocks that nothing counts in, or less than 2^-60 of
// what the others' weights count, are encoded as if all counted alike.
//
// weights may be nil. Then Q8_0, Q4_0, Q4_1, Q5_0 and Q5_1 are rounded plainly, as other programs do it, and all weights
// of the other types count alike. F32, F16, BF16 and Q8_K are always rounded plainly.
//
// A block of integers cannot hold a NaN or an infinity: that is an error, which wraps ErrNotFinite.
func (t Type) Encode(dst []byte, src, weights []float32) error {
	c := t.of()
	if c.encode == nil {
		return fmt.Errorf("block: %w", t.refusal("encoded"))
	}
	if err := c.fits(len(src), len(dst)); err != nil {
		return fmt.Errorf("block: encoding %s: %w", t, err)
	}
	if n := len(weights); weights != nil && n != len(src) && (n == 0 || n%c.size != 0 || len(src)%n != 0) {
		return fmt.Errorf("block: encoding %s: %d importances for %d weights", t, len(weights), len(src))
	}
	if c.size > 1 {
		if !kernel.Finite(src) {
			i := slices.IndexFunc(src, func(x float32) bool { return x-x != 0 })
			return fmt.Errorf("block: encoding %s: weight %d is %v: %w", t, i, src[i], ErrNotFinite)
		}
		if i := firstBad(weights); i >= 0 {
			return fmt.Errorf("block: encoding %s: importance %d is %v, not a number from 0 on", t, i, weights[i])
		}
	}
	c.encode(dst, src, weights)
	return nil
}

// firstBad returns the number of the first that is not a finite number from 0 on, or −1.
func firstBad(weights []float32) int {
	if len(weights) > 0 && kernel.Finite(weights) {
		if least, _ := kernel.Extremes(weights); least >= 0 {
			return -1
		}
	}
	return slices.IndexFunc(weights, func(x float32) bool { return !(x >= 0 && x <= math.MaxFloat32) })
}

// fits holds n weights against size bytes.
func (c *codec) fits(n, size int) error {
	if n%c.size != 0 {
		return fmt.Errorf("%d weights are not a multiple of %d", n, c.size)
	}
	if want := n / c.size * c.bytes; size != want {
		return fmt.Errorf("%d weights take %d bytes, not %d", n, want, size)
	}
	return nil
}

// refusal says why a type cannot be decoded or encoded.
func (t Type) refusal(what string) error {
	switch t {
	case IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S:
		return fmt.Errorf("%s: codebook types are %w", t, ErrUnsupported)
	}
	return fmt.Errorf("%s: being %s is %w", t, what, ErrUnsupported)
}

// Swap reverses the bytes of every number in p, whole blocks, and so turns the blocks of a big-endian file into those that
// Decode reads, or back.
func (t Type) Swap(p []byte) error {
	c := t.of()
	if c.decode == nil && c.size != 1 {
		return fmt.Errorf("block: %w", t.refusal("swapped"))
	}
	if len(p)%c.bytes != 0 {
		return fmt.Errorf("block: swapping %s: %d bytes are not a multiple of %d", t, len(p), c.bytes)
	}
	for ; len(p) > 0; p = p[c.bytes:] {
		for _, f := range c.fields {
			for i := range f.count {
				slices.Reverse(p[f.at+i*f.width:][:f.width])
			}
		}
	}
	return nil
}
