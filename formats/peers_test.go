package formats

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nibble/awq"
	"nibble/formats/formattest"
	"nibble/gptq"
	"nibble/internal/half"
	"nibble/quant"
	"nibble/safetensors"
)

// openPeer opens a folder of testdata/peers.
func openPeer(t *testing.T, folder string) (quant.Reader, *safetensors.Set) {
	t.Helper()
	dir := filepath.Join("testdata", "peers", folder)
	var config struct {
		Quantization json.RawMessage `json:"quantization_config"`
	}
	readJSON(t, filepath.Join(dir, "config.json"), &config)
	r, err := Open(config.Quantization)
	if err != nil {
		t.Fatal(err)
	}
	set, err := safetensors.OpenSet(os.DirFS(dir), "model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	return r, set
}

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	p, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(p, v); err != nil {
		t.Fatal(err)
	}
}

// Every weight of every peer's file is what the peer itself makes of it, in all 32 bits, and its config says of every
// module what the tensors say.
func TestPeers(t *testing.T) {
	folders, err := filepath.Glob("testdata/peers/*/config.json")
	if err != nil || len(folders) == 0 {
		t.Fatalf("no folders: %v", err)
	}
	for _, f := range folders {
		folder := filepath.Base(filepath.Dir(f))
		t.Run(folder, func(t *testing.T) { checkPeer(t, folder) })
	}
}

func checkPeer(t *testing.T, folder string) {
	r, set := openPeer(t, folder)
	var ref struct {
		Layers map[string]struct {
			Sum string `json:"f32_sha256"`
		}
	}
	readJSON(t, filepath.Join("testdata", "peers", folder, "ref.json"), &ref)
	for _, tensor := range set.Tensors() {
		module := r.Module(tensor.Name, set)
		if module == "" {
			module = strings.TrimSuffix(tensor.Name, ".weight")
			if s := r.Expect(module); s != nil {
				t.Errorf("%s is float, and the config says %s", module, s)
			}
			continue
		}
		if _, ok := ref.Layers[module]; !ok {
			t.Errorf("%s is taken for a tensor of the quantized module %s", tensor.Name, module)
		}
	}
	for module, want := range ref.Layers {
		l, err := r.Open(module, set)
		if err != nil {
			t.Error(err)
			continue
		}
		e, s := r.Expect(module), l.Spec()
		_, k := l.Shape()
		if e == nil || e.Bits != s.Bits || e.GroupSize(k) != s.GroupSize(k) || e.Zero != s.Zero || e.Int8 != s.Int8 {
			t.Errorf("%s: tensors say %s, config says %s", module, s, e)
		}
		w := formattest.Read(t, l, 32).Dequantize()
		p := make([]byte, 4*len(w))
		half.EncodeF32(p, w)
		if sum := sha256.Sum256(p); hex.EncodeToString(sum[:]) != want.Sum {
			t.Errorf("%s: SHA-256 of the weights is %x, want %s", module, sum, want.Sum)
		}
	}
}

func TestWarnings(t *testing.T) {
	for _, folder := range []string{"autoround-autogptq-asym-g32", "autoround-autogptq-sym-g32"} {
		r, _ := openPeer(t, folder)
		warnings := r.(interface{ Warnings() []string }).Warnings()
		if damaged := len(warnings) == 1 && strings.Contains(warnings[0], "auto-round"); damaged != strings.Contains(folder, "asym") {
			t.Errorf("%s: %q", folder, warnings)
		}
	}
}

// Round to nearest gives llm-compressor's codes, scales and zeros from the same source, byte for byte. Its GPTQ with
// static groups fixes scales and zeros the same way but not the codes.
func TestRoundToNearestOfLLMCompressor(t *testing.T) {
	const o, head = "model.layers.0.self_attn.o_proj", "lm_head"
	for _, c := range []struct {
		folder, module string
		source         string
		codes          bool
	}{
		{"llmcompressor-w4a16-channel-sym", o, "llmcompressor-w4a16-lmhead-regex-sharded", true},
		{"llmcompressor-w8a16-g128-preset", o, "llmcompressor-w4a16-lmhead-regex-sharded", true},
		{"llmcompressor-w3a16-sym-g32", o, "llmcompressor-w4a16-lmhead-regex-sharded", true},
		{"llmcompressor-w4a16-lmhead-regex-sharded", head, "gptqmodel-gptq-sym-g32", true},
		{"llmcompressor-w4a16-asym-g32", o, "llmcompressor-w4a16-lmhead-regex-sharded", false},
		{"llmcompressor-w8a8-int8-preset", o, "llmcompressor-w4a16-lmhead-regex-sharded", false},
	} {
		t.Run(c.folder, func(t *testing.T) {
			r, set := openPeer(t, c.folder)
			l, err := r.Open(c.module, set)
			if err != nil {
				t.Fatal(err)
			}
			want := formattest.Read(t, l, 32)
			_, source := openPeer(t, c.source)
			p := make([]byte, 2*want.N*want.K)
			if err := source.ReadAt(c.module+".weight", p, 0); err != nil {
				t.Fatal(err)
			}
			w := make([]float32, want.N*want.K)
			half.DecodeBF16(w, p)

			s := l.Spec()
			s.Method = quant.RTN
			solve, err := solver(s)
			if err != nil {
				t.Fatal(err)
			}
			got := quant.NewMatrix(want.N, want.K, s.Bits, want.Group, s.Zero)
			solve(got, w, nil)
			if !c.codes {
				got.Codes = want.Codes
			}
			equal(t, got, want)
		})
	}
}

func solver(s quant.Spec) (quant.Solver, error) {
	if s.Zero == quant.Integer {
		return awq.NewSolver(s)
	}
	return gptq.NewSolver(s)
}
