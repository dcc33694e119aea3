// Package formattest holds what the tests of all formats share: a checkpoint in memory, and round trips through it.
package formattest

import (
	"fmt"
	"slices"

	"nibble/quant"
	"nibble/safetensors"
)

// Checkpoint is a set of tensors in memory. It is a quant.Source.
type Checkpoint map[string]*Tensor

// Tensor is one tensor with its bytes.
type Tensor struct {
	DType safetensors.DType
	Shape []int
	Data  []byte
}

// Lookup returns the tensor called name.
func (c Checkpoint) Lookup(name string) (safetensors.Tensor, bool) {
	t, ok := c[name]
	if !ok {
		return safetensors.Tensor{}, false
	}
	return safetensors.Tensor{Name: name, DType: t.DType, Shape: t.Shape, End: int64(len(t.Data))}, true
}

// ReadAt fills p from byte off of the tensor called name.
func (c Checkpoint) ReadAt(name string, p []byte, off int64) error {
	t, ok := c[name]
	if !ok || off < 0 || off > int64(len(t.Data)) || len(p) > len(t.Data[off:]) {
		return fmt.Errorf("%s: %d bytes from byte %d are outside the tensor", name, len(p), off)
	}
	copy(p, t.Data[off:])
	return nil
}

// Add allocates a tensor.
func (c Checkpoint) Add(name string, d safetensors.DType, shape ...int) *Tensor {
	n := d.Bits() / 8
	for _, dim := range shape {
		n *= dim
	}
	t := &Tensor{d, shape, make([]byte, n)}
	c[name] = t
	return t
}

// TB is what testing.TB and *rapid.T have in common, as far as it is used here.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Module is the name of the linear that Write and Read use.
const Module = "model.layers.0.mlp.down_proj"

// Write packs m as Module in strips of the given number of rows. Every byte of every tensor must be stored, and once.
func Write(t TB, f quant.Format, s quant.Spec, o quant.Options, m *quant.Matrix, strip int) Checkpoint {
	t.Helper()
	c := Checkpoint{}
	var tensors []*Tensor
	var stored [][]bool
	for _, spec := range f.Tensors(s, m.N, m.K) {
		tensor := c.Add(Module+spec.Suffix, spec.DType, spec.Shape...)
		tensors = append(tensors, tensor)
		stored = append(stored, make([]bool, len(tensor.Data)))
	}
	put := func(tensor int, off int64, p []byte) error {
		copy(tensors[tensor].Data[off:], p)
		for i := range p {
			if stored[tensor][off+int64(i)] {
				return fmt.Errorf("byte %d of tensor %d is stored twice", off+int64(i), tensor)
			}
			stored[tensor][off+int64(i)] = true
		}
		return nil
	}
	for row0 := 0; row0 < m.N; row0 += strip {
		if err := f.Pack(s, o, Rows(m, row0, min(strip, m.N-row0)), row0, m.N, put); err != nil {
			t.Fatal(err)
		}
	}
	for i, bytes := range stored {
		if at := slices.Index(bytes, false); at >= 0 {
			t.Fatalf("byte %d of tensor %d is not stored", at, i)
		}
	}
	return c
}

// Rows returns a strip of m that shares its slices.
func Rows(m *quant.Matrix, row0, rows int) *quant.Matrix {
	s, g := *m, m.Groups()
	s.N = rows
	s.Codes = m.Codes[row0*m.K : (row0+rows)*m.K]
	s.Scales = m.Scales[row0*g : (row0+rows)*g]
	if m.Zeros != nil {
		s.Zeros = m.Zeros[row0*g : (row0+rows)*g]
	}
	if m.Bias != nil {
		s.Bias = m.Bias[row0*g : (row0+rows)*g]
	}
	return &s
}

// Read reads a linear in strips of the given number of rows.
func Read(t TB, l quant.Linear, strip int) *quant.Matrix {
	t.Helper()
	n, k := l.Shape()
	var all *quant.Matrix
	for row0 := 0; row0 < n; row0 += strip {
		m, err := l.Rows(row0, min(strip, n-row0))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Check(); err != nil {
			t.Fatal(err)
		}
		if all == nil {
			all = m
			continue
		}
		all.N += m.N
		all.Codes = append(all.Codes, m.Codes...)
		all.Scales = append(all.Scales, m.Scales...)
		all.Zeros = append(all.Zeros, m.Zeros...)
		all.Bias = append(all.Bias, m.Bias...)
	}
	if all.N != n || all.K != k {
		t.Fatalf("read [%d %d], want [%d %d]", all.N, all.K, n, k)
	}
	return all
}
