package convert_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"nibble/build"
	"nibble/convert"
	"nibble/gguf/block"
	"nibble/gguf/mix"
	"nibble/gguf/names"
	"nibble/hf"
	"nibble/internal/stage"
	"nibble/internal/testmodel"
)

// ofFile are settings of files, with a text that every architecture here can run.
func ofFile(src *build.Build) convert.GGUFSettings {
	return convert.GGUFSettings{Calibration: random(src, 16, 24), Threads: 2}
}

// fileWithin plans a file inside a budget.
func fileWithin(src *build.Build, x *convert.Sensitivity, b convert.Budget) (*convert.GGUFPlan, error) {
	return convert.NewGGUFWithin(src, convert.GGUFSettings{Threads: 2}, "m.gguf", x, b)
}

// costOf is what the analysis says of a tensor as a type; float costs nothing. The second result is false where it says nothing.
func costOf(x *convert.Sensitivity, t *names.Tensor, kind block.Type) (sum float64, known bool) {
	if kind.Size() == 1 {
		return 0, true
	}
	for _, s := range t.Sources {
		name := s.Module()
		if t.Name == "output.weight" {
			name = "lm_head"
		}
		i := slices.IndexFunc(x.Linears, func(l convert.LinearCost) bool { return l.Name == name })
		if i < 0 {
			return 0, false
		}
		j := slices.IndexFunc(x.Linears[i].Candidates, func(c convert.CandidateCost) bool { return c.Type == kind.String() })
		if j < 0 {
			return 0, false
		}
		c := x.Linears[i].Candidates[j]
		if x.Measured != nil && c.KL != nil {
			sum += float64(*c.KL)
		} else if x.Measured == nil && c.Loss != nil {
			sum += float64(*c.Loss)
		}
	}
	return sum, true
}

// Files of every architecture are inside the budget to the byte, whatever it counts; the least that is named can be had, and every matrix whose
// rows are whole blocks is then quantized. The cost is the sum over the file's tensors, of which a stack has the sum of its experts', and no
// mixture that is as small costs less. The number of the file is that of the type that most weights have.
func TestGGUFBudget(t *testing.T) {
	for i, variant := range testmodel.Variants(t) {
		if i%every != 0 {
			continue
		}
		src := open(t, testmodel.Golden(t, variant).Write(t), hf.Options{})
		s := ofFile(src)
		if _, err := convert.NewGGUF(src, convert.GGUFSettings{Mix: mixture(t, "q8_0")}, "m.gguf"); err != nil {
			continue // not in GGUF
		}
		x := analyze(t, src, s.Analysis(), 24)
		least, most := span(t, func(b convert.Budget) error { _, err := fileWithin(src, x, b); return err })
		for _, limit := range []int64{least, least + (most-least)/4, most} {
			p, err := fileWithin(src, x, convert.Budget{Bytes: limit})
			if err != nil {
				t.Fatalf("%s: %d bytes: %v", variant, limit, err)
			}
			if p.Bytes() > limit || limit == least && p.Bytes() != limit {
				t.Errorf("%s: %d bytes of %d", variant, p.Bytes(), limit)
			}
			cost, weights := 0.0, map[block.Type]int{}
			for j := range p.Tensors {
				y := &p.Tensors[j]
				if y.F32 || !mix.Quantizes(y.Name, y.Shape) {
					if y.Type != block.F32 {
						t.Errorf("%s: %s is %s", variant, y.Name, y.Type)
					}
					continue
				}
				one, known := costOf(x, &y.Tensor, y.Type)
				gate := strings.HasSuffix(y.Name, "attn_gate.weight") // small, and not in the analysis
				if k := y.Shape[len(y.Shape)-1]; !known || limit == least && (y.Type.Size() == 1) != (k%32 != 0 || gate) {
					t.Errorf("%s: %s of %d columns is %s", variant, y.Name, k, y.Type)
				}
				cost += one
				n := 1
				for _, d := range y.Shape {
					n *= d
				}
				weights[y.Type] += n
			}
			if got := p.Allotment.Cost; math.Abs(got-cost) > 1e-9*cost {
				t.Errorf("%s: the cost is %v, the analysis says %v", variant, got, cost)
			}
			for k, n := range weights {
				if m := slices.MaxFunc(slices.Collect(maps.Values(weights)), func(a, b int) int { return a - b }); n == m {
					if !slices.ContainsFunc(slices.Collect(maps.Keys(weights)), func(o block.Type) bool { return o != k && weights[o] == m }) && p.FileType() != mix.FileType(k) {
						t.Errorf("%s: general.file_type %d, most weights are %s", variant, p.FileType(), k)
					}
				}
			}
			for _, m := range mix.All {
				u, err := convert.NewGGUF(src, convert.GGUFSettings{Mix: &m, Threads: 2}, "m.gguf")
				if err != nil || u.Bytes() > limit {
					continue
				}
				cost, all := 0.0, true
				for j := range u.Tensors {
					one, known := costOf(x, &u.Tensors[j].Tensor, u.Tensors[j].Type)
					cost, all = cost+one, all && known
				}
				if all && cost < p.Allotment.Cost*(1-1e-9) {
					t.Errorf("%s: %d bytes cost %v, %s %v", variant, limit, p.Allotment.Cost, m.Name, cost)
				}
			}
		}
		bits := convert.Budget{BitsPerWeight: 9}
		if p, err := fileWithin(src, x, bits); err != nil || p.BitsPerWeight() > 9 {
			t.Errorf("%s: %v", variant, err)
		}
	}
}

// oneLayer is a model of one layer, so that there are few choices.
func oneLayer(t *testing.T) *build.Build {
	t.Helper()
	m := wideModel(t)
	m.Config = strings.Replace(m.Config, `"num_hidden_layers": 2`, `"num_hidden_layers": 1`, 1)
	specs := m.Shards[0][:0]
	for _, s := range m.Shards[0] {
		if !strings.Contains(s.Name, "layers.1.") {
			specs = append(specs, s)
		}
	}
	m.Shards[0] = specs
	return open(t, m.Write(t), hf.Options{})
}

// A plan is the best of all that there are, each planned to the byte: two types and float for each of the matrices of a model of one layer, with
// embedding and head as Q8_0.
func TestGGUFBudgetIsBest(t *testing.T) {
	src := oneLayer(t)
	x := analyze(t, src, ofFile(src).Analysis(), 24)
	q8 := block.Q8_0
	kinds := []block.Type{block.Q3_K, block.Q6_K, block.BF16}
	for i := range x.Linears {
		l := &x.Linears[i]
		l.Candidates = slices.DeleteFunc(l.Candidates, func(c convert.CandidateCost) bool {
			return !slices.ContainsFunc(append(kinds, q8), func(k block.Type) bool { return c.Type == k.String() && (k == q8) == (l.Layer < 0) })
		})
	}
	s := convert.GGUFSettings{Options: mix.Options{Embedding: &q8, Output: &q8}, Threads: 2}
	within := func(b convert.Budget) *convert.GGUFPlan {
		p, err := convert.NewGGUFWithin(src, s, "m.gguf", x, b)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := within(convert.Budget{BitsPerWeight: 10})
	types, ends, choices := map[string]block.Type{}, 0.0, 1
	var tensors []*convert.GGUFTensor
	for i := range first.Tensors {
		if y := &first.Tensors[i]; strings.HasPrefix(y.Name, "blk.") && len(y.Shape) > 1 {
			tensors = append(tensors, y)
			choices *= len(kinds)
		} else if len(y.Shape) > 1 {
			one, _ := costOf(x, &y.Tensor, q8)
			types[y.Name], ends = q8, ends+one
		}
	}
	type plan struct {
		size, bits int64
		cost       float64
	}
	var all []plan
	for n := range choices {
		cost := ends
		for _, y := range tensors {
			k := kinds[n%len(kinds)]
			n /= len(kinds)
			one, known := costOf(x, &y.Tensor, k)
			if !known {
				t.Fatalf("%s: no cost of %s", y.Name, k)
			}
			types[y.Name], cost = k, cost+one
		}
		p, err := convert.NewGGUFOf(src, s, "m.gguf", types)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, plan{p.Bytes(), p.File.Bytes, cost})
	}
	least, most := all[0].size, all[len(all)-1].size
	for share := range 20 {
		limit := least + 1000 + (most-least)*int64(share)/20
		for _, b := range []convert.Budget{{Bytes: limit}, {BitsPerWeight: 8 * float64(limit) / float64(first.Params)}} {
			best, limit := math.Inf(1), b.Limit(first.Work())
			for _, p := range all {
				if b.Bytes > 0 && p.size <= limit || b.Bytes == 0 && p.bits <= limit {
					best = min(best, p.cost)
				}
			}
			if p := within(b); b.Taken(p.Work()) > limit || p.Allotment.Cost > best*(1+1e-9) || p.Allotment.Cost < best*(1-1e-9) {
				t.Errorf("%v: %d of %d bytes cost %v, the best of %d plans %v", b, b.Taken(p.Work()), limit, p.Allotment.Cost, len(all), best)
			}
		}
	}
}

// The KL divergence of a candidate that is measured is that of a file in which this tensor alone has the type. The embedding is one of them,
// also where it is no head, and so is the head that is a matrix of its own. The number of threads changes nothing.
func TestGGUFSensitivity(t *testing.T) {
	for name, src := range map[string]*build.Build{"wide": wide(t), "tied": open(t, testmodel.Golden(t, "llama-sharded").Write(t), hf.Options{}), "llama-llama3": open(t, testmodel.Golden(t, "llama-llama3").Write(t), hf.Options{}),
		"mixtral": open(t, testmodel.Golden(t, "mixtral").Write(t), hf.Options{})} {
		s := ofFile(src)
		x := analyze(t, src, s.Analysis(), 40)
		s.Threads = 5
		if again := analyze(t, src, s.Analysis(), 40); !reflect.DeepEqual(again, x) {
			t.Errorf("%s: five threads give another analysis", name)
		}
		q, _ := s.Calibration.Load(t.Context())
		text := [][]int32{q.IDs[0], q.IDs[1][:16]}
		plain, _ := inputs(t, src, q.IDs)
		want := forward(t, src, text)
		p, err := fileWithin(src, x, convert.Budget{BitsPerWeight: 9})
		if err != nil {
			t.Fatal(err)
		}
		ends := 0
		for i := range p.Tensors {
			y := &p.Tensors[i]
			layer := strings.HasPrefix(y.Name, "blk.1.")
			if len(y.Sources) != 1 || len(y.Shape) != 2 || y.F32 || layer && y.Sources[0].Role != hf.O && y.Sources[0].Role != hf.Q || !layer && y.Sources[0].Layer >= 0 {
				continue
			}
			module := y.Sources[0].Module()
			at := slices.IndexFunc(x.Linears, func(l convert.LinearCost) bool { return l.Name == module })
			l := x.Linears[at]
			j := slices.IndexFunc(l.Candidates, func(c convert.CandidateCost) bool { return c.Measured })
			if j < 0 || l.Measured() != &l.Candidates[j] || l.Candidates[j].BitsPerWeight < 4 || j > 0 && l.Candidates[j-1].BitsPerWeight >= 4 {
				t.Fatalf("%s: candidate %d of %v is measured", l.Name, j, l.Candidates)
			}
			kind, _ := block.Parse(l.Candidates[j].Type)
			s := convert.GGUFSettings{Threads: 2}
			if m := plain[y.Sources[0].Name]; layer {
				w := make([]float32, len(m.Diag))
				for k, v := range m.Diag {
					w[k] = float32(max(v, 1e-6*slices.Max(m.Diag)))
				}
				s.Weights = map[string][]float32{y.Name: w}
			} else {
				ends++
			}
			out := filepath.Join(t.TempDir(), "one.gguf")
			one, err := convert.NewGGUFOf(src, s, out, map[string]block.Type{y.Name: kind})
			if err != nil {
				t.Fatal(err)
			}
			for k := range one.Tensors {
				if z := &one.Tensors[k]; z.Name != y.Name && z.Type != block.F32 {
					t.Fatalf("%s is %s", z.Name, z.Type)
				}
			}
			if _, err := (&convert.GGUFRun{GGUFPlan: one}).Quantize(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got, kl := float64(*l.Candidates[j].KL), mean(want, forward(t, fromGGUF(t, out, false), text), src.Arch.Vocab); math.Abs(got-kl) > 1e-3*kl+1e-9 {
				t.Errorf("%s: %s as %s: KL %v, a file's is %v", name, y.Name, kind, got, kl)
			}
		}
		if want := map[bool]int{true: 1, false: 2}[src.Arch.Tied]; ends != want {
			t.Errorf("%s: %d tensors outside layers, want %d", name, ends, want)
		}
	}
}

// What the options say of embedding and head holds; what the analysis does not know is refused.
func TestGGUFBudgetFixed(t *testing.T) {
	src := wide(t)
	x := analyze(t, src, ofFile(src).Analysis(), 0)
	if x.Measured != nil {
		t.Fatalf("measured on %+v", x.Measured)
	}
	q8, f32, q4 := block.Q8_0, block.F32, block.Q4_0
	for _, o := range []mix.Options{{Embedding: &q8}, {Output: &f32}} {
		p, err := convert.NewGGUFWithin(src, convert.GGUFSettings{Options: o, Threads: 2}, "m.gguf", x, convert.Budget{BitsPerWeight: 8})
		if err != nil {
			t.Fatal(err)
		}
		name, want := "token_embd.weight", q8
		if o.Output != nil {
			name, want = "output.weight", f32
		}
		if i := slices.IndexFunc(p.Tensors, func(y convert.GGUFTensor) bool { return y.Name == name }); p.Tensors[i].Type != want {
			t.Errorf("%s is %s, want %s", name, p.Tensors[i].Type, want)
		}
	}
	_, err := convert.NewGGUFWithin(src, convert.GGUFSettings{Options: mix.Options{Output: &q4}, Threads: 2}, "m.gguf", x, convert.Budget{BitsPerWeight: 8})
	if err == nil || !strings.Contains(err.Error(), "output.weight as Q4_0: the analysis has no cost of that") {
		t.Error(err)
	}
	none := *x
	none.Linears = nil
	if _, err := fileWithin(src, &none, convert.Budget{BitsPerWeight: 8}); err == nil || !strings.Contains(err.Error(), "no tensor of the file has a type") {
		t.Error(err)
	}
}

// An interrupted build goes on with the plan of the same budget, made anew on another number of threads, to the same bytes; not with that of
// another budget.
func TestGGUFBudgetResume(t *testing.T) {
	src := wide(t)
	x := analyze(t, src, ofFile(src).Analysis(), 24)
	dir := t.TempDir()
	plan := func(name string, bits float64, threads int) *convert.GGUFPlan {
		p, err := convert.NewGGUFWithin(src, convert.GGUFSettings{Threads: threads}, filepath.Join(dir, name), x, convert.Budget{BitsPerWeight: bits})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if _, err := (&convert.GGUFRun{GGUFPlan: plan("whole.gguf", 5, 2)}).Quantize(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	steps := 0
	_, err := (&convert.GGUFRun{GGUFPlan: plan("m.gguf", 5, 1), Progress: func(string, int64) {
		if steps++; steps == 6 {
			cancel()
		}
	}}).Quantize(ctx)
	if !errors.Is(err, convert.ErrInterrupted) {
		t.Fatal(err)
	}
	_, err = (&convert.GGUFRun{GGUFPlan: plan("m.gguf", 5.1, 1), Mode: stage.Resume}).Quantize(t.Context())
	if err == nil || !strings.Contains(err.Error(), "--target-bpw 5, now it is 5.1") {
		t.Errorf("another budget: %v", err)
	}
	taken := 0
	r := &convert.GGUFRun{GGUFPlan: plan("m.gguf", 5, 3), Mode: stage.Resume, Started: func(finished, _ int) { taken = finished }}
	if _, err = r.Quantize(t.Context()); err != nil || taken == 0 {
		t.Fatalf("%d items were taken over, %v", taken, err)
	}
	a, err := os.ReadFile(filepath.Join(dir, "m.gguf"))
	b, other := os.ReadFile(filepath.Join(dir, "whole.gguf"))
	if err != nil || other != nil || !bytes.Equal(a, b) {
		t.Errorf("%d bytes, uninterrupted %d others: %v, %v", len(a), len(b), err, other)
	}
}
