package view_test

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nibble/build"
	"nibble/convert"
	"nibble/demo"
	"nibble/gguf"
	"nibble/gguf/block"
	"nibble/gguf/mix"
	"nibble/gguf/view"
	"nibble/hf"
	"nibble/internal/testmodel"
	"nibble/tokenizer"
)

// write writes a model as a GGUF file and returns its path.
func write(t *testing.T, f *hf.Folder, name string) string {
	t.Helper()
	b, err := build.Open(f, hf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Set.Close()
	m, err := mix.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "m.gguf")
	p, err := convert.NewGGUF(b, convert.GGUFSettings{Mix: m, Name: "test", Threads: 1}, out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (&convert.GGUFRun{GGUFPlan: p}).Quantize(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out
}

func tiny(t *testing.T, variant string) *hf.Folder {
	t.Helper()
	dir := testmodel.Golden(t, variant).Write(t)
	f, err := hf.NewFolder(dir, os.DirFS(dir), "")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The demo's tokenizer comes back from a file: the same ids for a text. So does what ends a text.
func TestDemoTokenizer(t *testing.T) {
	f, err := hf.NewFolder("", demo.FS(), "")
	if err != nil {
		t.Fatal(err)
	}
	g, err := view.Folder(write(t, f, "q4_0"), false)
	if err != nil {
		t.Fatal(err)
	}
	a, err := tokenizer.Load(f.FS)
	if err != nil {
		t.Fatal(err)
	}
	b, err := tokenizer.Load(g.FS)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "One day, a girl named Lily found 12 needles.\n\n It's<|end|> fine", "naïve 日本語  \t x"} {
		want, err := a.Encode(text, true)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := b.Encode(text, true); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	if !bytes.Contains(g.Config, []byte(`"eos_token_id": 0`)) {
		t.Errorf("no end token in %s", g.Config)
	}
}

// Reads of any offset and length agree with one read of the whole file, as hostile readers would make them.
func TestReads(t *testing.T) {
	for _, variant := range []string{"llama-plain", "gpt2", "mixtral"} {
		for _, kind := range []string{"f16", "q8_0"} {
			f, err := view.Folder(write(t, tiny(t, variant), kind), false)
			if err != nil {
				t.Fatal(err)
			}
			file, err := f.FS.Open(f.Weights)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			whole, err := io.ReadAll(file)
			if err != nil {
				t.Fatal(err)
			}
			if info, _ := file.Stat(); info.Size() != int64(len(whole)) {
				t.Fatalf("%d bytes, stated are %d", len(whole), info.Size())
			}
			for off := 0; off < len(whole); off += 997 {
				n := min(1+off%1501, len(whole)-off)
				p := make([]byte, n)
				if _, err := file.(io.ReaderAt).ReadAt(p, int64(off)); err != nil && err != io.EOF || !bytes.Equal(p, whole[off:off+n]) {
					t.Fatalf("%s %s: %d bytes at %d differ (%v)", variant, kind, n, off, err)
				}
			}
		}
	}
}

// edit writes a file anew, with other entries and tensors, all of zeros.
func edit(t *testing.T, path string, change func(entries []gguf.Entry, specs []gguf.Spec) ([]gguf.Entry, []gguf.Spec)) string {
	t.Helper()
	s, err := gguf.OpenSet(os.DirFS(filepath.Dir(path)), filepath.Base(path))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var specs []gguf.Spec
	for _, x := range s.Tensors() {
		specs = append(specs, gguf.Spec{Name: x.Name, Type: x.Type, Shape: slices.Clone(x.Shape)})
	}
	entries, specs := change(slices.Clone(s.Metadata()), specs)
	p, err := gguf.NewPlan("e", entries, specs, 0)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	w, err := gguf.Create(dir, p)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "e.gguf")
}

// TestRefusals checks what is said of files that are no model.
func TestRefusals(t *testing.T) {
	path := write(t, tiny(t, "llama-plain"), "f32")
	key := func(name string, value any) func([]gguf.Entry, []gguf.Spec) ([]gguf.Entry, []gguf.Spec) {
		return func(e []gguf.Entry, s []gguf.Spec) ([]gguf.Entry, []gguf.Spec) {
			e = slices.DeleteFunc(e, func(x gguf.Entry) bool { return x.Key == name })
			if value != nil {
				e = append(e, gguf.Entry{Key: name, Value: value})
			}
			return e, s
		}
	}
	tensor := func(name string, change func(s *gguf.Spec)) func([]gguf.Entry, []gguf.Spec) ([]gguf.Entry, []gguf.Spec) {
		return func(e []gguf.Entry, s []gguf.Spec) ([]gguf.Entry, []gguf.Spec) {
			for i := range s {
				if s[i].Name == name {
					change(&s[i])
				}
			}
			return e, s
		}
	}
	for _, test := range []struct {
		change func([]gguf.Entry, []gguf.Spec) ([]gguf.Entry, []gguf.Spec)
		want   string
	}{
		{key("general.architecture", "falcon"), `general.architecture "falcon" is not known`},
		{key("general.architecture", nil), `general.architecture "" is not known`},
		{key("llama.block_count", nil), "llama.block_count is missing"},
		{key("llama.block_count", "3"), "llama.block_count is missing, or no number"},
		{key("llama.block_count", uint32(1)), "has no place in LlamaForCausalLM"},
		{key("llama.block_count", uint32(4)), "neither blk.3.ffn_down.weight nor"},
		{key("llama.block_count", uint32(1<<31)), "llama.block_count is 2.147"},
		{key("llama.block_count", uint32(1<<20)), "neither blk.1048575.ffn_down.weight nor"},
		{key("llama.expert_count", uint32(1<<20)), "llama.expert_count is 1048576, and"},
		{key("llama.attention.head_count", uint32(0)), "cannot be"},
		{key("llama.embedding_length", uint32(65)), "the metadata demands"},
		{key("llama.attention.key_length", uint32(15)), "the metadata demands"},
		{tensor("token_embd.weight", func(s *gguf.Spec) { s.Name = "other.weight" }), "token_embd.weight is missing"},
		{tensor("token_embd.weight", func(s *gguf.Spec) { s.Shape = s.Shape[:1] }), "token_embd.weight is missing, or no matrix"},
		{tensor("blk.0.attn_q.weight", func(s *gguf.Spec) { s.Name = "blk.0.attn_x.weight" }), "has no place in"},
		{tensor("blk.0.attn_q.weight", func(s *gguf.Spec) { s.Type = block.I32 }), "I32, which is not read"},
		{tensor("blk.0.attn_norm.weight", func(s *gguf.Spec) { s.Type = block.Q8_0 }), "vectors are floats"},
	} {
		f, err := view.Folder(edit(t, path, test.change), false)
		if err == nil {
			_, err = build.Open(f, hf.Options{})
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, want %q", err, test.want)
		}
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.gguf")
	if err := os.WriteFile(cut, raw[:len(raw)-40], 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := view.Folder(cut, false); err == nil || !strings.Contains(err.Error(), "cut.gguf") {
		t.Errorf("a truncated file: %v", err)
	}
}

// A file that has another layout when the weights are opened than when it was looked at is refused.
func TestChanged(t *testing.T) {
	path := write(t, tiny(t, "llama-plain"), "f32")
	f, err := view.Folder(path, false)
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(write(t, tiny(t, "llama-plain"), "q8_0"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, other, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := fs.ReadFile(f.FS, f.Weights); err == nil || !strings.Contains(err.Error(), "has changed") {
		t.Errorf("error %v", err)
	}
}

// FuzzFolder opens arbitrary files: an error, or a model whose weights can be read.
func FuzzFolder(f *testing.F) {
	entries := []gguf.Entry{{Key: "general.architecture", Value: "llama"}, {Key: "llama.block_count", Value: uint32(1)},
		{Key: "llama.context_length", Value: uint32(8)}, {Key: "llama.embedding_length", Value: uint32(32)},
		{Key: "llama.feed_forward_length", Value: uint32(32)}, {Key: "llama.attention.head_count", Value: uint32(2)},
		{Key: "llama.attention.layer_norm_rms_epsilon", Value: float32(1e-5)}}
	var specs []gguf.Spec
	for _, name := range []string{"token_embd", "blk.0.attn_q", "blk.0.attn_k", "blk.0.attn_v", "blk.0.attn_output", "blk.0.ffn_gate",
		"blk.0.ffn_up", "blk.0.ffn_down"} {
		specs = append(specs, gguf.Spec{Name: name + ".weight", Type: block.Q4_0, Shape: []int{32, 32}})
	}
	for _, name := range []string{"output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"} {
		specs = append(specs, gguf.Spec{Name: name + ".weight", Type: block.F32, Shape: []int{32}})
	}
	p, err := gguf.NewPlan("seed", entries, specs, 0)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(p.Files[0].Header, make([]byte, p.Files[0].Size-int64(len(p.Files[0].Header)))...))
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := os.WriteFile(path, raw, 0o666); err != nil {
			t.Fatal(err)
		}
		folder, err := view.Folder(path, false)
		if err != nil {
			return
		}
		b, err := build.Open(folder, hf.Options{})
		if err != nil {
			return
		}
		defer b.Set.Close()
		for _, x := range b.Set.Tensors() {
			if err := b.Set.ReadAt(x.Name, make([]byte, min(x.Bytes(), 1<<16)), 0); err != nil {
				t.Fatal(err)
			}
		}
		for _, l := range b.Linears {
			n, _ := l.Shape()
			_, _ = l.Rows(0, min(n, 32)) // scales may be no numbers
		}
	})
}

// Any part of a split file is the model; without one of the parts there is none.
func TestParts(t *testing.T) {
	path := write(t, tiny(t, "llama-plain"), "f32")
	s, err := gguf.OpenSet(os.DirFS(filepath.Dir(path)), filepath.Base(path))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var specs []gguf.Spec
	for _, x := range s.Tensors() {
		specs = append(specs, gguf.Spec{Name: x.Name, Type: x.Type, Shape: x.Shape})
	}
	p, err := gguf.NewPlan("p", s.Metadata(), specs, 100000)
	if err != nil || len(p.Files) < 2 {
		t.Fatalf("%v, %d parts", err, len(p.Files))
	}
	dir := t.TempDir()
	w, err := gguf.Create(dir, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range s.Tensors() {
		raw := make([]byte, x.Bytes)
		if err := s.ReadAt(x.Name, raw, 0); err != nil {
			t.Fatal(err)
		}
		if err := w.WriteAt(x.Name, raw, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	read := func(path string) []byte {
		f, err := view.Folder(path, false)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := fs.ReadFile(f.FS, f.Weights)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	want := read(path)
	for _, f := range p.Files {
		if !bytes.Equal(read(filepath.Join(dir, f.Name)), want) {
			t.Errorf("%s has other weights than the whole file", f.Name)
		}
	}
	if err := os.Remove(filepath.Join(dir, p.Files[1].Name)); err != nil {
		t.Fatal(err)
	}
	if _, err := view.Folder(filepath.Join(dir, p.Files[0].Name), false); err == nil || !strings.Contains(err.Error(), "part is missing") {
		t.Errorf("without a part: %v", err)
	}
}
