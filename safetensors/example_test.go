package safetensors_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"nibble/safetensors"
)

// A checkpoint is planned before a byte of data is known, written in any order, and read tensor by tensor.
func Example() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	plan, err := safetensors.NewPlan([]safetensors.Spec{
		{Name: "norm.weight", DType: safetensors.BF16, Shape: []int{4}},
		{Name: "linear.weight", DType: safetensors.F32, Shape: []int{2, 3}}, // [out, in]
	}, map[string]string{"format": "pt"}, 1<<30)
	if err != nil {
		fmt.Println(err)
		return
	}
	w, err := safetensors.Create(dir, plan)
	if err != nil {
		fmt.Println(err)
		return
	}
	row := make([]byte, 3*4) // a row of three float32
	binary.LittleEndian.PutUint32(row, 0x3f800000)
	if err := errors.Join(w.WriteAt("linear.weight", row, 12), w.Close()); err != nil { // the second row
		fmt.Println(err)
		return
	}

	f, err := safetensors.Open(filepath.Join(dir, plan.Files[0].Name))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	for _, t := range f.Tensors() {
		fmt.Println(t.Name, t.DType, t.Shape, t.Bytes())
	}
	t, _ := f.Lookup("linear.weight")
	first := make([]byte, 4)
	if err := f.ReadAt(t, first, 12); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("% x\n", first)
	// Output:
	// linear.weight F32 [2 3] 24
	// norm.weight BF16 [4] 8
	// 00 00 80 3f
}

// What is wrong with a file is a value: where, which tensor, which rule.
func ExampleFormatError() {
	const header = `{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,9]}}`
	file := string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header + "123456789"
	_, err := safetensors.New(strings.NewReader(file), int64(len(file)))
	var bad *safetensors.FormatError
	fmt.Println(errors.Is(err, safetensors.ErrCorrupt), errors.As(err, &bad))
	fmt.Println(bad.Kind, bad.Tensor)
	// Output:
	// true true
	// offsets do not fit the shape a
}
