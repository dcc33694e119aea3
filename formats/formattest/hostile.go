package formattest

import (
	"errors"
	"strings"

	"nibble/quant"
	"nibble/safetensors"
)

var hostileTypes = []safetensors.DType{
	safetensors.I32, safetensors.F16, safetensors.BF16, safetensors.F32, safetensors.I64, safetensors.I8, safetensors.U8, safetensors.U32,
}

// Hostile turns p into a checkpoint of one module: for each suffix a type (or none), a shape and bytes, whatever p says.
// A tensor has at most 64 KiB. Like every checkpoint, it has as many bytes as its shape demands.
func Hostile(p []byte, suffixes ...string) Checkpoint {
	c := Checkpoint{}
	next := func() int {
		if len(p) == 0 {
			return 0
		}
		b := p[0]
		p = p[1:]
		return int(b)
	}
	for _, suffix := range suffixes {
		kind := next()
		if kind >= 16*len(hostileTypes) {
			continue
		}
		var shape []int
		for range next() % 4 {
			shape = append(shape, next()%65)
		}
		size := 1
		for _, d := range shape {
			size *= d
		}
		if size > 1<<13 {
			continue
		}
		t := c.Add(Module+suffix, hostileTypes[kind%len(hostileTypes)], shape...)
		n := min(next(), len(p), len(t.Data))
		copy(t.Data, p[:n])
		p = p[n:]
	}
	return c
}

// TryOpen asks a reader everything about a checkpoint of one module. It must answer or give a defect; what it reads must
// be a valid matrix.
func TryOpen(t TB, r quant.Reader, c Checkpoint) {
	t.Helper()
	for name := range c {
		if m := r.Module(name, c); m != "" && !strings.HasPrefix(name, m+".") {
			t.Errorf("%s belongs to module %q", name, m)
		}
	}
	l, err := r.Open(Module, c)
	var defect *quant.Defect
	if err != nil {
		if !errors.As(err, &defect) || defect.Module != Module || defect.Kind == "" {
			t.Errorf("error %v is no defect of the module", err)
		}
		return
	}
	for _, name := range l.Tensors() {
		if _, ok := c[name]; !ok {
			t.Errorf("the linear has a tensor %q that does not exist", name)
		}
	}
	n, k := l.Shape()
	for row0 := 0; row0 < n; row0 += 32 {
		m, err := l.Rows(row0, min(32, n-row0))
		if err != nil {
			if !errors.As(err, &defect) {
				t.Errorf("error %v is no defect", err)
			}
			return
		}
		if err := m.Check(); err != nil || m.K != k {
			t.Errorf("a matrix of %d columns: %v", m.K, err)
		}
		m.Dequantize()
	}
}
