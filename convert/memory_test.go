package convert

import (
	"testing"

	"nibble/build"
	codec "nibble/gguf/block"
	"nibble/hf"
	"nibble/loader"
	"nibble/quant"
)

// What calibration takes in the heap is that of the layer, or the head, where codes and moments together are most. A group of 32 codes takes
// 32 bytes and, on a grid with integer zero points, 5; a block of Q4_K, of 256 weights, 256 bytes of codes, 8 groups of 8 bytes and its own 144.
func TestSolvedMemory(t *testing.T) {
	spec := &quant.Spec{Bits: 4, Group: 32, Zero: quant.Integer, Method: quant.Search}
	item := func(role hf.Role, layer, n, k int) Item {
		m := loader.Module{Module: quant.Module{N: n, K: k, Spec: spec}, Role: role, Layer: layer}
		m.Head = role == hf.Head
		return Item{Module: m, Tensor: hf.Tensor{Role: role, Layer: layer}}
	}
	layer := []Item{item(hf.Q, 0, 64, 64), item(hf.K, 0, 32, 64), item(hf.Gate, 1, 64, 64), item(hf.Down, 1, 64, 128)}
	head := item(hf.Head, -1, 1000, 64)
	blocks := item(hf.Head, -1, 1000, 256)
	blocks.place = &place{tensor: &GGUFTensor{Type: codec.Q4_K}}
	for _, c := range []struct {
		name  string
		items []Item
		full  string
		want  int64
	}{
		{"layer", layer, quant.Search, (64*64 + 64*128) / 32 * 37},
		{"head", append(layer[:4:4], head), quant.Search, 1000 * 64 / 32 * 37},
		{"blocks", append(layer[:4:4], blocks), quant.Search, 1000 * (256 + 64 + 144)},
		{"moments", append(layer[:4:4], head), quant.GPTQ, (64*64+64*128)/32*37 + 32*128*128},
	} {
		spec.Method = c.full
		p := &Plan{Settings: Settings{Calibration: &Calibration{Independent: true}}, Items: c.items}
		if got := p.solvedMemory(); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
		p.Calibration = nil
		if got := p.solvedMemory(); got != 0 {
			t.Errorf("%s: %d bytes without calibration", c.name, got)
		}
	}
}

// The heap gets what the program and matrices leave: a layer of 4 MB, two where KL is measured, and then a head of 12 MB, twice where it is a candidate.
func TestHeapLimit(t *testing.T) {
	matrix := &linear{Item: Item{Module: loader.Module{Module: quant.Module{N: 1000, K: 2000}}}}
	a := &hf.Architecture{Layers: 1, Hidden: 2000, Vocab: 3000}
	for _, c := range []struct {
		tokens  int
		head    *linear
		outside int64
	}{{0, nil, 4e6}, {512, nil, 12e6}, {512, matrix, 24e6}} {
		p := &SensitivityPlan{Settings: Settings{MaxMemory: 100e6}, Source: &build.Build{Model: &hf.Model{Arch: a}}, Tokens: c.tokens, linears: []*linear{matrix}, head: c.head}
		if got, want := p.HeapLimit(), int64(100e6)-16<<20-c.outside; got != want {
			t.Errorf("%+v: %d bytes, want %d", c, got, want)
		}
	}
}
