// Command benchmodel writes a synthetic checkpoint of a real model's shape, to measure time and memory on.
//
// The weights are pseudo-random, roughly normal with the spread of trained ones, and the same on every machine. With
// -sparse they are holes in the file instead: a model of any size that takes no space.
package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"nibble/internal/half"
	"nibble/internal/parallel"
	"nibble/internal/synthetic"
	"nibble/safetensors"
)

func main() {
	out := flag.String("o", "", "folder to write")
	name := flag.String("shape", "tinyllama-1.1b", strings.Join(synthetic.Shapes(), ", "))
	file := flag.String("config", "", "config.json of the model, instead of a shape")
	sparse := flag.Bool("sparse", false, "holes instead of weights")
	flag.Parse()
	config, err := synthetic.Shape(*name)
	if *file != "" {
		config, err = os.ReadFile(*file)
	}
	if err != nil || *out == "" {
		flag.Usage()
		os.Exit(2)
	}
	if err := write(*out, config, *sparse); err != nil {
		fmt.Fprintln(os.Stderr, "benchmodel:", err)
		os.Exit(1)
	}
}

func write(dir string, config []byte, sparse bool) error {
	model, err := synthetic.New(config, synthetic.Settings{})
	if err != nil {
		return err
	}
	plan := model.Weights
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), model.Config, 0o666); err != nil {
		return err
	}
	if sparse {
		f := plan.Files[0]
		path := filepath.Join(dir, f.Name)
		if err := os.WriteFile(path, f.Header, 0o666); err != nil {
			return err
		}
		return os.Truncate(path, f.Size)
	}
	w, err := safetensors.Create(dir, plan)
	if err != nil {
		return err
	}
	defer w.Close()
	tensors := plan.Files[0].Tensors
	err = parallel.Each(context.Background(), len(tensors), 2, func(i int) error { return fill(w, tensors[i], uint64(i)) })
	return cmp.Or(err, w.Close())
}

// fill writes one tensor: the sum of four uniform variates, scaled; norms are about 1.
func fill(w *safetensors.Writer, t safetensors.Tensor, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 1))
	buf := make([]byte, 1<<20)
	for off := int64(0); off < t.Bytes(); off += int64(len(buf)) {
		p := buf[:min(int64(len(buf)), t.Bytes()-off)]
		for i := 0; i < len(p); i += 2 {
			x := r.Uint64()
			sum := int(x&0xffff) + int(x>>16&0xffff) + int(x>>32&0xffff) + int(x>>48) - 2*0xffff
			f := float32(float32(sum) / 0xffff * 0.035)
			if len(t.Shape) == 1 {
				f++
			}
			binary.LittleEndian.PutUint16(p[i:], half.BF16(f))
		}
		if err := w.WriteAt(t.Name, p, off); err != nil {
			return err
		}
	}
	return nil
}
