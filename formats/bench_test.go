package formats

import (
	"fmt"
	"testing"

	"nibble/formats/formattest"
	"nibble/quant"
	"nibble/safetensors"
)

// benchMatrix is a strip of a projection of a 1B model.
const benchRows, benchCols, benchGroup = 32, 2048, 128

func benchWeights() []float32 {
	p := newProblem()
	var w []float32
	for len(w) < benchRows*benchCols {
		w = append(w, p.w...)
	}
	return w
}

// Rates are in weights: 1 MB/s is a million weights a second.
func BenchmarkSolvers(b *testing.B) {
	w := benchWeights()
	for _, c := range specs {
		if c.spec.Int8 {
			continue
		}
		for _, method := range methods(c.spec.Zero) {
			s := c.spec
			s.Group, s.Scale, s.Method, s.Signed = benchGroup, safetensors.BF16, method, true
			f, _ := ByName(c.format)
			solve, err := f.Solver(s)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s/%s/%s", c.format, s, method), func(b *testing.B) {
				m := quant.NewMatrix(benchRows, benchCols, s.Bits, benchGroup, s.Zero)
				b.SetBytes(benchRows * benchCols)
				for b.Loop() {
					solve(m, w, nil)
				}
			})
		}
	}
}

func BenchmarkLayouts(b *testing.B) {
	for _, c := range specs {
		s := c.spec
		s.Group, s.Scale = benchGroup, safetensors.BF16
		if s.Int8 {
			s.Group = -1
		}
		f, _ := ByName(c.format)
		m := quant.NewMatrix(benchRows, benchCols, s.Bits, s.GroupSize(benchCols), s.Zero)
		src := formattest.Write(b, f, s, quant.Options{}, m, benchRows)
		config, err := f.Config([]quant.Module{{Name: formattest.Module, Class: "Linear", Spec: &s}}, quant.Options{})
		if err != nil {
			b.Fatal(err)
		}
		r, err := Open(config)
		if err != nil {
			b.Fatal(err)
		}
		l, err := r.Open(formattest.Module, src)
		if err != nil {
			b.Fatal(err)
		}
		name := fmt.Sprintf("%s/%s", c.format, s)
		b.Run("pack/"+name, func(b *testing.B) {
			b.SetBytes(benchRows * benchCols)
			discard := func(int, int64, []byte) error { return nil }
			for b.Loop() {
				if err := f.Pack(s, quant.Options{}, m, 0, benchRows, discard); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("unpack/"+name, func(b *testing.B) {
			b.SetBytes(benchRows * benchCols)
			for b.Loop() {
				if _, err := l.Rows(0, benchRows); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
