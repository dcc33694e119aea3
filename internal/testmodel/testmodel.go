// Package testmodel writes small checkpoints of every architecture for tests.
package testmodel

import (
	"embed"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"nibble/internal/half"
	"nibble/safetensors"
)

//go:embed golden/*.json
var golden embed.FS

// Model is a checkpoint to be written.
type Model struct {
	Config string
	Shards [][]safetensors.Spec
	// Fill overrides the values of a tensor, nil leaves it to the default.
	Fill func(s safetensors.Spec) []float32
}

// Variants lists the names that Golden knows.
func Variants(t testing.TB) []string {
	entries, err := golden.ReadDir("golden")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".json"))
	}
	return names
}

// Golden returns the shape of a variant.
func Golden(t testing.TB, variant string) *Model {
	t.Helper()
	raw, err := golden.ReadFile(path.Join("golden", variant+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Config string
		Shards [][][3]any
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	m := &Model{Config: file.Config}
	if variant == "llama-tied-head" { // the head is there all the same, with the embedding's values
		m.Fill = func(s safetensors.Spec) []float32 {
			if s.Name == "lm_head.weight" {
				s.Name = "model.embed_tokens.weight"
			}
			return Values(s)
		}
	}
	for _, shard := range file.Shards {
		var specs []safetensors.Spec
		for _, x := range shard {
			d, ok := safetensors.ParseDType(x[1].(string))
			if !ok {
				t.Fatalf("%s: dtype %v", variant, x[1])
			}
			var shape []int
			for _, n := range x[2].([]any) {
				shape = append(shape, int(n.(float64)))
			}
			specs = append(specs, safetensors.Spec{Name: x[0].(string), DType: d, Shape: shape})
		}
		m.Shards = append(m.Shards, specs)
	}
	return m
}

// Values returns the default contents of a tensor: pseudo-random, roughly normal with deviation 0.05, decided by its name
// alone; vectors are about 1.
func Values(s safetensors.Spec) []float32 {
	h := fnv.New64a()
	h.Write([]byte(s.Name))
	r := rand.New(rand.NewPCG(h.Sum64(), 1))
	n := 1
	for _, d := range s.Shape {
		n *= d
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(float32(r.NormFloat64()) * 0.05)
		if len(s.Shape) == 1 {
			v[i]++
		}
		switch s.DType {
		case safetensors.BF16:
			v[i] = half.RoundBF16(v[i])
		case safetensors.F16:
			v[i] = half.RoundF16(v[i])
		}
	}
	return v
}

// Write writes the checkpoint to a new folder and returns its path.
func (m *Model) Write(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	m.WriteTo(t, dir)
	return dir
}

// WriteTo writes the checkpoint to a folder.
func (m *Model) WriteTo(t testing.TB, dir string) {
	t.Helper()
	index := map[string]string{}
	for i, specs := range m.Shards {
		name := "model.safetensors"
		if len(m.Shards) > 1 {
			name = fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(m.Shards))
		}
		plan, err := safetensors.NewPlan(specs, map[string]string{"format": "pt"}, 0)
		if err != nil {
			t.Fatal(err)
		}
		plan.Files[0].Name = name
		w, err := safetensors.Create(dir, plan)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range specs {
			index[s.Name] = name
			var v []float32
			if m.Fill != nil {
				v = m.Fill(s)
			}
			if v == nil {
				v = Values(s)
			}
			if err := w.WriteAt(s.Name, Encode(s.DType, v), 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name string, v []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), v, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("config.json", []byte(m.Config))
	if len(m.Shards) > 1 {
		raw, err := json.Marshal(map[string]any{"metadata": map[string]int{"total_size": 1}, "weight_map": index})
		if err != nil {
			t.Fatal(err)
		}
		write("model.safetensors.index.json", raw)
	}
}

// Encode stores values in a float type; other types get zeros.
func Encode(d safetensors.DType, v []float32) []byte {
	raw := make([]byte, len(v)*d.Bits()/8)
	switch d {
	case safetensors.BF16:
		half.EncodeBF16(raw, v)
	case safetensors.F16:
		half.EncodeF16(raw, v)
	case safetensors.F32:
		half.EncodeF32(raw, v)
	}
	return raw
}
