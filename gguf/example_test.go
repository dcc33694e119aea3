package gguf_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"nibble/gguf"
	"nibble/gguf/block"
)

// A file is planned with its metadata, written in any order, and read tensor by tensor. A row of Q8_0 is blocks of 32 weights.
func Example() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	plan, err := gguf.NewPlan("tiny.gguf", []gguf.Entry{
		{Key: "general.architecture", Value: "llama"},
		{Key: "llama.block_count", Value: uint32(1)},
	}, []gguf.Spec{{Name: "blk.0.ffn_down.weight", Type: block.Q8_0, Shape: []int{2, 32}}}, 1<<30)
	if err != nil {
		fmt.Println(err)
		return
	}
	w, err := gguf.Create(dir, plan)
	if err != nil {
		fmt.Println(err)
		return
	}
	weights := make([]float32, 32)
	for i := range weights {
		weights[i] = float32(i) / 31
	}
	raw := make([]byte, block.Q8_0.Bytes())
	err = block.Q8_0.Encode(raw, weights, nil)                                                                    // nil: all errors count alike
	if err := errors.Join(err, w.WriteAt("blk.0.ffn_down.weight", raw, int64(len(raw))), w.Close()); err != nil { // the second row
		fmt.Println(err)
		return
	}

	f, err := gguf.Open(filepath.Join(dir, plan.Files[0].Name))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	layers, _ := f.Value("llama.block_count")
	t := f.Tensors()[0]
	fmt.Println(layers, t.Name, t.Type, t.Shape, t.Bytes)
	if err := errors.Join(f.ReadAt(t, raw, int64(len(raw))), block.Q8_0.Decode(weights, raw)); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.3f %.3f\n", weights[0], weights[31])
	// Output:
	// 1 blk.0.ffn_down.weight Q8_0 [2 32] 68
	// 0.000 1.000
}
