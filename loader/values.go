package loader

import (
	"fmt"
	"slices"
	"strings"

	"nibble/build"
	"nibble/hf"
	"nibble/quant"
	"nibble/safetensors"
)

// chunk is how many bytes of a tensor are read at once.
const chunk = 1 << 20

// eachFloat calls f for the values of a tensor of floats, in chunks of which the first value is the at-th.
func eachFloat(set *safetensors.Set, t safetensors.Tensor, f func(at int64, values []float32)) error {
	size := t.DType.Bits() / 8
	p, values := make([]byte, min(chunk, t.Bytes())), make([]float32, chunk/size)
	for off := int64(0); off < t.Bytes(); off += chunk {
		n := int(min(chunk, t.Bytes()-off))
		if err := set.ReadAt(t.Name, p[:n], off); err != nil {
			return err
		}
		quant.DecodeFloats(values[:n/size], p[:n], t.DType)
		f(off/int64(size), values[:n/size])
	}
	return nil
}

// scales looks for values that a scale, or a float zero, cannot have.
func (s *scan) scales(module string, t safetensors.Tensor) (*Finding, error) {
	var bad string
	var most float32
	err := eachFloat(s.Set, t, func(at int64, values []float32) {
		if i := quant.NonFinite(values); i >= 0 && bad == "" {
			bad = fmt.Sprintf("element %d is %v", at+int64(i), values[i])
		}
		for _, x := range values {
			most = max(most, x, -x)
		}
	})
	const limit = 65504
	switch {
	case err != nil:
		return nil, err
	case bad != "":
		f := newFinding(NonFinite, module, t.Name, bad)
		return &f, nil
	case most <= limit || strings.HasSuffix(t.Name, ".weight_zero"):
		return nil, nil
	}
	f := newFinding(ScaleRange, module, t.Name, fmt.Sprintf("the largest is %g, float16 ends at %d", most, limit))
	return &f, nil
}

// extraBiases looks for biases that hold something in modules that have none by their architecture.
func extraBiases(b *build.Build) ([]Finding, error) {
	if generic(b.Arch) {
		return nil, nil // whose modules have what the file has
	}
	var list []Finding
	for i := range b.Tensors {
		t := &b.Tensors[i]
		module, ok := strings.CutSuffix(t.Name, ".bias")
		if t.Role != hf.Other || !ok || b.Linears[module] == nil {
			continue
		}
		x, _ := b.Set.Lookup(t.Name)
		if !x.DType.IsFloat() || x.DType == safetensors.F64 {
			continue
		}
		held := false
		err := eachFloat(b.Set, x, func(_ int64, values []float32) {
			held = held || slices.ContainsFunc(values, func(v float32) bool { return v != 0 })
		})
		if err != nil {
			return nil, err
		}
		if held {
			list = append(list, newFinding(ExtraBias, module, t.Name, fmt.Sprintf("%s has no bias there", b.Arch.Name)))
		}
	}
	return list, nil
}
