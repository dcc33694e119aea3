package convert_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"nibble/build"
	"nibble/convert"
	"nibble/formats"
	"nibble/hf"
	"nibble/internal/stage"
	"nibble/internal/testmodel"
	"nibble/loader"
	"nibble/quant"
	"nibble/safetensors"
)

// open opens a folder as a build.
func open(t testing.TB, dir string, o hf.Options) *build.Build {
	t.Helper()
	f, err := hf.NewFolder(dir, os.DirFS(dir), "")
	if err != nil {
		t.Fatal(err)
	}
	b, err := build.Open(f, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Set.Close() })
	return b
}

// settings are those of a format that holds any shape it can, on two threads.
func settings(t testing.TB, format string, group int) convert.Settings {
	t.Helper()
	f, err := formats.ByName(format)
	if err != nil {
		t.Fatal(err)
	}
	return convert.Settings{Format: f, Target: loader.None, KeepUnfit: true, Threads: 2,
		Spec:    quant.Spec{Bits: 4, Group: group, Zero: f.DefaultZero(), Method: quant.RTN, Scale: safetensors.BF16, Signed: f.DefaultZero() == quant.Symmetric},
		Options: quant.Options{CheckpointFormat: "gptq", Version: "test"}}
}

func quantize(t testing.TB, src *build.Build, s convert.Settings, out string) (*convert.Plan, *convert.Report) {
	t.Helper()
	plan, err := convert.NewPlan(src, s)
	if err != nil {
		t.Fatal(err)
	}
	report, err := (&convert.Run{Plan: plan, Out: out}).Quantize(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return plan, report
}

// digests returns the SHA-256 of every file of a folder; the report's line about the run is taken out.
func digests(t testing.TB, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(e.Name(), "report.json") {
			raw = regexp.MustCompile(`(?m)^  "run": .*$`).ReplaceAll(raw, nil)
		}
		sums[e.Name()] = fmt.Sprintf("%x", sha256.Sum256(raw))
	}
	return sums
}

// weightsSum returns the beginning of the SHA-256 of the digests of a folder's weights.
func weightsSum(t testing.TB, dir string) string {
	sums, h := digests(t, dir), sha256.New()
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		if strings.HasSuffix(name, ".safetensors") {
			io.WriteString(h, sums[name])
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

func equal(t testing.TB, got, want map[string]string) {
	t.Helper()
	for name, sum := range want {
		if got[name] != sum {
			t.Errorf("%s differs", name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d files, want %d", len(got), len(want))
	}
}

// The bytes of every architecture in every format are those of testdata/sums.txt, from amd64 with avx512bf16: on every machine, with all kernels
// and by every compiler.
func TestSums(t *testing.T) {
	sums, err := os.ReadFile("testdata/sums.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, variant := range testmodel.Variants(t) {
		dir := testmodel.Golden(t, variant).Write(t)
		for _, f := range formats.All {
			out := filepath.Join(t.TempDir(), "out")
			quantize(t, open(t, dir, hf.Options{}), settings(t, f.Name(), 16), out)
			if line := fmt.Sprintf("%s %s %s\n", variant, f.Name(), weightsSum(t, out)); !strings.Contains(string(sums), line) {
				t.Errorf("not in testdata/sums.txt: %s", line)
			}
		}
	}
}

// Every architecture goes through every format and back: the plan's sizes are the files', the report's SQNR is what the
// expansion measures, and the expansion has the tensors of the original, in its names and shapes.
func TestEveryArchitectureEveryFormat(t *testing.T) {
	for _, variant := range testmodel.Variants(t) {
		dir := testmodel.Golden(t, variant).Write(t)
		for _, f := range formats.All {
			t.Run(variant+"/"+f.Name(), func(t *testing.T) {
				src := open(t, dir, hf.Options{})
				out := filepath.Join(t.TempDir(), "out")
				plan, report := quantize(t, src, settings(t, f.Name(), 16), out)
				for _, file := range plan.Files {
					info, err := os.Stat(filepath.Join(out, file.Name))
					if err != nil {
						t.Fatal(err)
					}
					if info.Size() != file.Size {
						t.Errorf("%s has %d bytes, planned %d", file.Name, info.Size(), file.Size)
					}
				}
				b := open(t, out, hf.Options{})
				findings, err := loader.Scan(context.Background(), b)
				if err != nil {
					t.Fatal(err)
				}
				for _, x := range findings {
					if x.Wrong {
						t.Errorf("%+v", x)
					}
				}
				roundTrip(t, src, b, report)
			})
		}
	}
}

// roundTrip expands a build in float32 and holds it against the original and the report.
func roundTrip(t *testing.T, src, b *build.Build, report *convert.Report) {
	x, err := convert.NewExpansion(b, safetensors.F32, 0)
	if err != nil {
		t.Fatal(err)
	}
	x.Against, x.Threads = src, 2
	plain := filepath.Join(t.TempDir(), "plain")
	losses, err := x.Run(context.Background(), plain, stage.Fresh, nil)
	if err != nil {
		t.Fatal(err)
	}
	quantized := 0
	for _, r := range report.Tensors {
		if r.SQNR != nil {
			quantized++
		}
	}
	if len(losses) != quantized || quantized == 0 {
		t.Errorf("%d losses, %d tensors in the report", len(losses), quantized)
	}
	for _, l := range losses {
		// The report has four decimals.
		if l.Stated == nil || math.Abs(float64(l.SQNR-*l.Stated)) > 5e-5 {
			t.Errorf("%s: SQNR %v, the report says %v", l.Name, l.SQNR, *l.Stated)
		}
		if l.SQNR < 18 { // 4 bits of normal weights in groups of 16: 21 dB or more
			t.Errorf("%s: SQNR %v", l.Name, l.SQNR)
		}
	}
	p := open(t, plain, hf.Options{Tie: map[bool]string{true: "no"}[hasHead(b)]})
	for _, want := range src.Set.Tensors() {
		got, ok := p.Set.Lookup(want.Name)
		if !ok && !(src.Arch.Tied && want.Name == "lm_head.weight") {
			t.Errorf("%s is lost", want.Name)
		} else if ok && !slices.Equal(got.Shape, want.Shape) {
			t.Errorf("%s has shape %v, was %v", want.Name, got.Shape, want.Shape)
		}
	}
	for _, got := range p.Set.Tensors() {
		if _, ok := src.Set.Lookup(got.Name); !ok && !strings.HasSuffix(got.Name, "lm_head.weight") {
			t.Errorf("%s was not there", got.Name)
		}
	}
}

// hasHead reports whether a build has a head of its own.
func hasHead(b *build.Build) bool { return b.Row(hf.Head) != nil }

// The same bytes come out of any number of threads and any size of strip.
func TestDeterminism(t *testing.T) {
	dir := testmodel.Golden(t, "qwen3moe").Write(t)
	src := open(t, dir, hf.Options{})
	for _, f := range formats.All {
		s := settings(t, f.Name(), 16)
		s.Spec.Method, s.Threads = quant.Search, 1
		out := filepath.Join(t.TempDir(), "one")
		quantize(t, src, s, out)
		want := digests(t, out)
		s.Threads, s.MaxMemory = 7, 64<<20
		out = filepath.Join(t.TempDir(), "seven")
		quantize(t, src, s, out)
		equal(t, digests(t, out), want)
	}
}

// A run that is stopped after any number of steps, and then taken up, ends with the bytes of an undisturbed one, whatever
// happened to the unfinished files in between.
func TestResume(t *testing.T) {
	dir := testmodel.Golden(t, "llama-llama3").Write(t)
	src := open(t, dir, hf.Options{})
	s := settings(t, "awq", 16)
	whole := filepath.Join(t.TempDir(), "whole")
	quantize(t, src, s, whole)
	want := digests(t, whole)
	for stop := 1; stop < 40; stop += 3 {
		for _, damage := range []string{"", "weights", "journal", "tail"} {
			out := filepath.Join(t.TempDir(), "out")
			if !interrupt(t, src, s, out, stop) {
				continue // it was done before
			}
			if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
				t.Fatalf("stopped after %d steps: %s is there: %v", stop, out, err)
			}
			spoil(t, out+stage.Suffix, damage)
			plan, err := convert.NewPlan(src, s)
			if err != nil {
				t.Fatal(err)
			}
			r := &convert.Run{Plan: plan, Out: out, Mode: stage.Resume}
			if _, err := r.Quantize(context.Background(), nil); err != nil {
				t.Fatalf("stopped after %d steps, damaged %q: %v", stop, damage, err)
			}
			if damage == "" && stop > 2 && r.Resumed == 0 {
				t.Errorf("stopped after %d steps: nothing was taken over", stop)
			}
			equal(t, digests(t, out), want)
		}
	}
}

// interrupt runs a plan until the given number of steps is done, and reports whether that stopped it.
func interrupt(t *testing.T, src *build.Build, s convert.Settings, out string, steps int) bool {
	t.Helper()
	plan, err := convert.NewPlan(src, s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n := 0
	_, err = (&convert.Run{Plan: plan, Out: out, Progress: func(string, int64) {
		if n++; n == steps {
			cancel()
		}
	}}).Quantize(ctx, nil)
	if err != nil && !errors.Is(err, convert.ErrInterrupted) {
		t.Fatal(err)
	}
	return err != nil
}

// spoil damages an unfinished folder as a crash could.
func spoil(t *testing.T, dir, damage string) {
	t.Helper()
	change := func(name string, f func([]byte) []byte) {
		path := filepath.Join(dir, name)
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f(raw), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	switch damage {
	case "weights": // pages that never reached the disk
		change("model.safetensors", func(b []byte) []byte {
			n := bytes.IndexByte(b, '}') // inside the header: not to be touched
			for i := len(b) - 1; i > len(b)-4096 && i > n+1<<15; i-- {
				b[i] = 0
			}
			return b
		})
	case "journal": // a line that was cut
		change(".nibble-journal", func(b []byte) []byte { return b[:len(b)-3] })
	case "tail": // a block of zeros behind the last line
		change(".nibble-journal", func(b []byte) []byte { return append(b, make([]byte, 100)...) })
	}
}

func TestResumeRefusesOtherSettings(t *testing.T) {
	dir := testmodel.Golden(t, "llama-plain").Write(t)
	src := open(t, dir, hf.Options{})
	out := filepath.Join(t.TempDir(), "out")
	if !interrupt(t, src, settings(t, "awq", 16), out, 5) {
		t.Fatal("not interrupted")
	}
	group, method, signed := settings(t, "awq", 32), settings(t, "awq", 16), settings(t, "awq", 16)
	method.Spec.Method, signed.Spec.Signed = quant.Search, true // change no shape and no config
	for want, s := range map[string]convert.Settings{"other settings: --group 16, now it is 32; ": group, "other settings: --method rtn, now it is search; ": method,
		"the same flags and another plan": signed} {
		plan, err := convert.NewPlan(src, s)
		if err != nil {
			t.Fatal(err)
		}
		_, err = (&convert.Run{Plan: plan, Out: out, Mode: stage.Resume}).Quantize(context.Background(), nil)
		if err == nil || !strings.Contains(err.Error(), "--overwrite starts again") || !strings.Contains(err.Error(), "it was started with "+want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	// A source that was touched is named with its times.
	if err := os.Chtimes(filepath.Join(dir, "model.safetensors"), time.Time{}, time.Unix(1e9, 5)); err != nil {
		t.Fatal(err)
	}
	plan, err := convert.NewPlan(src, settings(t, "awq", 16))
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&convert.Run{Plan: plan, Out: out, Mode: stage.Resume}).Quantize(context.Background(), nil)
	if err == nil || !strings.Contains(err.Error(), "source model.safetensors ") || !strings.Contains(err.Error(), "of 2001-09-09 01:46:40.000000005; ") {
		t.Error(err)
	}
}

// A weight that is not finite is named with its place, leaves nothing behind, or keeps its matrix and the ones it is
// fused with as they are.
func TestNonFinite(t *testing.T) {
	g := testmodel.Golden(t, "llama-plain")
	const name = "model.layers.1.self_attn.k_proj.weight"
	g.Fill = func(s safetensors.Spec) []float32 {
		if s.Name != name {
			return nil
		}
		v := testmodel.Values(s)
		v[64*3+5] = float32(math.NaN())
		return v
	}
	dir := g.Write(t)
	src := open(t, dir, hf.Options{})
	s := settings(t, "gptq", 16)
	out := filepath.Join(t.TempDir(), "out")
	plan, err := convert.NewPlan(src, s)
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&convert.Run{Plan: plan, Out: out}).Quantize(context.Background(), nil)
	if !errors.Is(err, quant.ErrNonFinite) || !strings.Contains(err.Error(), name+": row 3, column 5 is NaN") {
		t.Errorf("error %v", err)
	}
	for _, p := range []string{out, out + stage.Suffix} {
		if _, err := os.Stat(p); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", p, err)
		}
	}
	s.AllowNonFinite = true
	_, report := quantize(t, src, s, out)
	var kept []string
	for _, r := range report.Tensors {
		if strings.Contains(r.Kept, "NaN") {
			kept = append(kept, r.Name)
		}
	}
	want := []string{"model.layers.1.self_attn.q_proj", "model.layers.1.self_attn.k_proj", "model.layers.1.self_attn.v_proj"}
	if !slices.Equal(kept, want) {
		t.Errorf("kept %v, want %v", kept, want)
	}
}

// What is copied is looked at, too.
func TestNonFiniteNorm(t *testing.T) {
	g := testmodel.Golden(t, "llama-plain")
	const name = "model.norm.weight"
	g.Fill = func(s safetensors.Spec) []float32 {
		if s.Name != name {
			return nil
		}
		v := testmodel.Values(s)
		v[7] = float32(math.Inf(-1))
		return v
	}
	src := open(t, g.Write(t), hf.Options{})
	s := settings(t, "awq", 16)
	plan, err := convert.NewPlan(src, s)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	_, err = (&convert.Run{Plan: plan, Out: out}).Quantize(context.Background(), nil)
	if !errors.Is(err, quant.ErrNonFinite) || !strings.Contains(err.Error(), name+": element 7") {
		t.Errorf("error %v", err)
	}
	s.AllowNonFinite = true
	quantize(t, src, s, out)
}

// Padding adds rows and columns that dequantize to exact zeros and changes nothing else.
func TestPadMLP(t *testing.T) {
	for _, variant := range []string{"llama-linear-bias", "phi3-window", "gpt2"} {
		for _, format := range []string{"gptq", "awq", "cpu_int4"} {
			t.Run(variant+"/"+format, func(t *testing.T) {
				dir := testmodel.Golden(t, variant).Write(t)
				src := open(t, dir, hf.Options{})
				s := settings(t, format, 16)
				s.PadMLP = -1
				s.TensorParallel = 5
				out := filepath.Join(t.TempDir(), "out")
				plan, _ := quantize(t, src, s, out)
				if plan.PadMLP%160 != 0 || plan.PadMLP <= src.Arch.Intermediate {
					t.Fatalf("width %d for %d", plan.PadMLP, src.Arch.Intermediate)
				}
				b := open(t, out, hf.Options{})
				if b.Arch.Intermediate != plan.PadMLP {
					t.Fatalf("config says %d, padded to %d", b.Arch.Intermediate, plan.PadMLP)
				}
				for i := range b.Tensors {
					checkPadded(t, b, src, &b.Tensors[i])
				}
			})
		}
	}
}

func checkPadded(t *testing.T, b, src *build.Build, x *hf.Tensor) {
	l := b.Linears[x.Module()]
	if l == nil {
		return
	}
	n, k := l.Shape()
	m, err := l.Rows(0, n)
	if err != nil {
		t.Fatal(err)
	}
	w := m.Dequantize()
	width, padded := src.Arch.Intermediate, b.Arch.Intermediate
	for i, v := range w {
		row, col := i/k, i%k
		pad := false
		switch x.Role {
		case hf.Gate, hf.Up, hf.GateUp:
			pad = row%padded >= width
		case hf.Down:
			pad = col >= width
			if b.Reader.Expect(x.Module()).Zero == quant.Float {
				pad = false // a float zero needs none: its inputs are exact zeros
			}
		}
		if pad && v != 0 {
			t.Fatalf("%s: padding at row %d, column %d is %v", x.Name, row, col, v)
		}
	}
}

// What the target cannot hold is refused with module, rule and flag, and kept in float with that flag.
func TestUnfit(t *testing.T) {
	dir := testmodel.Golden(t, "llama-plain").Write(t) // hidden 64, MLP 112
	src := open(t, dir, hf.Options{})
	s := settings(t, "gptq", 32)
	s.KeepUnfit = false
	_, err := convert.NewPlan(src, s)
	var unfit *convert.Unfit
	if !errors.As(err, &unfit) || !strings.Contains(err.Error(), "model.layers.0.mlp.down_proj") || !strings.Contains(err.Error(), "--unfit keep") {
		t.Fatalf("error %v", err)
	}
	s.KeepUnfit = true
	plan, err := convert.NewPlan(src, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range plan.Items {
		if down := it.Role == hf.Down; it.Role.Linear() && down != (it.Spec == nil) {
			t.Errorf("%s: quantized: %v", it.Name, it.Spec != nil)
		}
	}
}

func TestRecipe(t *testing.T) {
	dir := testmodel.Golden(t, "llama-plain").Write(t)
	src := open(t, dir, hf.Options{})
	s := settings(t, "gptq", 16)
	eight, group := 8, 32
	s.Recipe = &quant.Recipe{Rules: []quant.Rule{
		{Match: `layers\.0\.self_attn\.[qkv]_proj$`, Bits: &eight, Group: &group},
		{Match: `lm_head`, Keep: true},
	}}
	if err := s.Recipe.Compile(); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	quantize(t, src, s, out)
	b := open(t, out, hf.Options{})
	for module, want := range map[string]string{
		"model.layers.0.self_attn.q_proj": "8-bit g32 symmetric",
		"model.layers.0.self_attn.o_proj": "4-bit g16 symmetric",
		"model.layers.1.self_attn.q_proj": "4-bit g16 symmetric",
	} {
		// The tensors and the config's dynamic rules must agree.
		if got := b.Linears[module].Spec().String(); got != want {
			t.Errorf("%s is %s, want %s", module, got, want)
		}
		if got := b.Reader.Expect(module).String(); got != want {
			t.Errorf("config: %s is %s, want %s", module, got, want)
		}
	}
	if b.Linears["lm_head"] != nil || b.Row(hf.Head).Source != "lm_head.weight" {
		t.Error("the head was not kept")
	}
	s.Recipe = &quant.Recipe{Rules: []quant.Rule{{Match: `q_porj`, Keep: true}}}
	if err := s.Recipe.Compile(); err != nil {
		t.Fatal(err)
	}
	if _, err := convert.NewPlan(src, s); err == nil || !strings.Contains(err.Error(), "q_porj") {
		t.Errorf("a rule that matches nothing passed: %v", err)
	}
}

// A source that changes between the moment in which its folder is opened and the run is of two states: sequences that the model writes
// itself, for one, are made before the run begins.
func TestChangedBeforeRun(t *testing.T) {
	dir := testmodel.Golden(t, "llama-plain").Write(t)
	src := open(t, dir, hf.Options{})
	plan, err := convert.NewPlan(src, settings(t, "gptq", 32))
	if err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "model.safetensors"), later, later); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	if _, err := (&convert.Run{Plan: plan, Out: out}).Quantize(t.Context(), nil); !errors.Is(err, convert.ErrChanged) {
		t.Errorf("%v, want %v", err, convert.ErrChanged)
	}
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an output is there: %v", err)
	}
}
