package convert_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nibble/build"
	"nibble/convert"
	"nibble/hf"
	"nibble/internal/testmodel"
)

// The figures of every report can be derived from its build; a figure that was changed is found, and named.
func TestVerifySizes(t *testing.T) {
	for _, c := range [][2]string{{"llama-llama3", "gptq"}, {"llama-sharded", "cpu_int4"}, {"phi3-window", "awq"}, {"mixtral", "compressed-tensors"}, {"spark2_5", "awq"}} {
		src := open(t, testmodel.Golden(t, c[0]).Write(t), hf.Options{})
		out := filepath.Join(t.TempDir(), "out")
		_, r := quantize(t, src, settings(t, c[1], 16), out)
		f, err := hf.NewFolder(out, os.DirFS(out), "")
		if err != nil {
			t.Fatal(err)
		}
		b, err := build.Open(f, hf.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Set.Close()
		if found := convert.VerifySizes(b, r); len(found) > 0 {
			t.Errorf("%v: %v", c, found)
		}
		if found, err := convert.VerifyFiles(t.Context(), os.DirFS(out), r.Outputs, 2); err != nil || len(found) > 0 || len(r.Outputs) < 3 {
			t.Errorf("%v: %v, %v", c, found, err)
		}
		for what, change := range map[string]func(){
			"bytes of tensors":                func() { r.Totals.TensorBytes += 8 },
			"weights of quantized matrices":   func() { r.Totals.Quantized++ },
			"bits per weight":                 func() { r.Totals.BitsPerWeight += 0.001 },
			"takes":                           func() { quantizedIn(r).Bytes++ },
			"groups of 32":                    func() { quantizedIn(r).Group = 32 },
			"is quantized in the file, not":   func() { quantizedIn(r).Bits = 0 },
			"is quantized in the report, not": func() { quantizedIn(r).Name += "x" },
		} {
			was := *r
			was.Tensors = append([]convert.ReportTensor{}, r.Tensors...)
			change()
			found := convert.VerifySizes(b, r)
			if len(found) == 0 || !strings.Contains(found[0].String(), what) {
				t.Errorf("%v: %s: %v", c, what, found)
			}
			*r = was
		}
	}
}

func quantizedIn(r *convert.Report) *convert.ReportTensor {
	for i := range r.Tensors {
		if r.Tensors[i].Bits > 0 {
			return &r.Tensors[i]
		}
	}
	return nil
}

// Names out of a report do not lead out of the folder, and what they say does not reach a terminal.
func TestVerifyHostile(t *testing.T) {
	dir := t.TempDir()
	inside := filepath.Join(dir, "inside")
	if err := os.MkdirAll(filepath.Join(inside, "folder"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"../secret": "invalid", "/etc/passwd": "invalid", "": "invalid", "folder": "is no file", "a\x1b[2J": "a?[2J: is not there", "gone": "is not there"} {
		found, err := convert.VerifyFiles(t.Context(), os.DirFS(inside), []convert.SourceFile{{Name: name, Size: 1, SHA256: "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"}}, 1)
		if err != nil || len(found) != 1 || !strings.Contains(found[0].String(), want) {
			t.Errorf("%q: %v, %v", name, found, err)
		}
	}
}
