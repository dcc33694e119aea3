// Command ggufsample writes GGUF files that other software is to judge.
//
//	ggufsample DIR            a model in DIR: metadata of all types, tensors of all types that can be decoded or encoded
//	ggufsample FILE DIR       what FILE (or its parts) holds, as DIR/copy.gguf, little-endian
//
// The model has, for every type that can be decoded, a tensor TYPE.blocks of random bytes and TYPE.values, what they
// decode to; for every type that can be encoded, a tensor TYPE.encoded, of the weights in the tensor "weights".
package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nibble/gguf"
	"nibble/gguf/block"
	"nibble/internal/half"
)

func main() {
	var err error
	switch len(os.Args) {
	case 2:
		err = sample(os.Args[1])
	case 3:
		err = copyFile(os.Args[1], os.Args[2])
	default:
		fmt.Fprintln(os.Stderr, "usage: ggufsample DIR | ggufsample FILE DIR")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ggufsample:", err)
		os.Exit(1)
	}
}

var metadata = []gguf.Entry{
	{Key: "general.architecture", Value: "test"}, {Key: "general.alignment", Value: uint32(64)}, {Key: "k.uint8", Value: uint8(200)},
	{Key: "k.int8", Value: int8(-100)}, {Key: "k.uint16", Value: uint16(60000)}, {Key: "k.int16", Value: int16(-30000)},
	{Key: "k.uint32", Value: uint32(4000000000)}, {Key: "k.int32", Value: int32(-2000000000)}, {Key: "k.uint64", Value: uint64(1<<63 + 1)},
	{Key: "k.int64", Value: int64(-1 << 62)}, {Key: "k.float32", Value: float32(0.15625)}, {Key: "k.float64", Value: -1e300},
	{Key: "k.bool", Value: true}, {Key: "k.string", Value: "héllo"}, {Key: "a.uint16", Value: []uint16{1, 65535}},
	{Key: "a.string", Value: []string{"a", "", "世"}}, {Key: "a.bool", Value: []bool{true, false}},
	{Key: "a.float32", Value: []float32{0.5, -2}},
}

const rows, cols = 16, 768

// tensor is a tensor with its contents.
type tensor struct {
	gguf.Spec
	data []byte
}

// sample writes the model into two parts or more.
func sample(dir string) error {
	r := rand.New(rand.NewPCG(3, 4))
	weights := make([]float32, rows*cols)
	for i := range weights {
		weights[i] = float32(r.NormFloat64() * math.Exp(float64(i/cols-8)))
	}
	tensors := []tensor{floats("weights", weights)}
	for t := range block.Type(64) {
		n := rows * cols
		if t.Known() {
			n = n / t.Size() * t.Bytes()
		}
		shape := []int{rows, cols}
		if t.CanDecode() {
			b := make([]byte, n)
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			values := make([]float32, rows*cols)
			if err := t.Decode(values, b); err != nil {
				return err
			}
			tensors = append(tensors, tensor{gguf.Spec{Name: t.String() + ".blocks", Type: t, Shape: shape}, b},
				floats(t.String()+".values", values))
		}
		if t.CanEncode() {
			b := make([]byte, n)
			if err := t.Encode(b, weights, nil); err != nil {
				return err
			}
			tensors = append(tensors, tensor{gguf.Spec{Name: t.String() + ".encoded", Type: t, Shape: shape}, b})
		}
	}
	return write(dir, "sample", metadata, tensors, 1<<20)
}

func floats(name string, values []float32) tensor {
	b := make([]byte, 4*len(values))
	half.EncodeF32(b, values)
	return tensor{gguf.Spec{Name: name, Type: block.F32, Shape: []int{rows, cols}}, b}
}

// copyFile reads a model and writes it again.
func copyFile(path, dir string) error {
	s, err := gguf.OpenSet(os.DirFS(filepath.Dir(path)), filepath.Base(path))
	if err != nil {
		return err
	}
	defer s.Close()
	var tensors []tensor
	for _, t := range s.Tensors() {
		b := make([]byte, t.Bytes)
		if err := s.ReadAt(t.Name, b, 0); err != nil {
			return err
		}
		if s.BigEndian() {
			if err := t.Type.Swap(b); err != nil {
				return err
			}
		}
		tensors = append(tensors, tensor{gguf.Spec{Name: t.Name, Type: t.Type, Shape: t.Shape}, b})
	}
	entries := slices.DeleteFunc(slices.Clone(s.Metadata()), func(e gguf.Entry) bool { return strings.HasPrefix(e.Key, "split.") })
	return write(dir, "copy", entries, tensors, 0)
}

func write(dir, name string, metadata []gguf.Entry, tensors []tensor, maxPart int64) error {
	var specs []gguf.Spec
	for _, t := range tensors {
		specs = append(specs, t.Spec)
	}
	p, err := gguf.NewPlan(name, metadata, specs, maxPart)
	if err != nil {
		return err
	}
	w, err := gguf.Create(dir, p)
	if err != nil {
		return err
	}
	defer w.Close()
	for _, t := range tensors {
		if err := w.WriteAt(t.Name, t.data, 0); err != nil {
			return err
		}
	}
	return w.Close()
}
