package convert_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"nibble/build"
	"nibble/calib"
	"nibble/convert"
	"nibble/hf"
	"nibble/internal/testmodel"
	"nibble/quant"
	"nibble/runtime"
)

// analyze takes the sensitivity of a model.
func analyze(t *testing.T, src *build.Build, s convert.Settings, tokens int) *convert.Sensitivity {
	t.Helper()
	plan, err := convert.NewSensitivity(src, s, tokens)
	if err != nil {
		t.Fatal(err)
	}
	r := &convert.SensitivityRun{SensitivityPlan: plan, Dir: t.TempDir()}
	x, err := r.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// inputs returns the moments that matrices of the float model receive, by name, and those weighed by received attention.
func inputs(t *testing.T, src *build.Build, ids [][]int32) (plain, received map[string]*calib.Moment) {
	t.Helper()
	p, err := calib.NewPass(src, ids, calib.PassConfig{Dir: t.TempDir(), Mode: runtime.A16, Threads: 1, Full: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Begin(); err != nil {
		t.Fatal(err)
	}
	plain, received = map[string]*calib.Moment{}, map[string]*calib.Moment{}
	for i := range src.Arch.Layers {
		err := p.Layer(t.Context(), i, func(in *calib.Input) (map[string]quant.Linear, error) {
			for _, x := range in.Tensors {
				plain[x.Name], received[x.Name] = in.Plain, in.Received
			}
			return nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	err = p.Head(t.Context(), []hf.Tensor{headRow(src)}, func(in *calib.Input) (map[string]quant.Linear, error) {
		plain[headRow(src).Name] = in.Plain
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return plain, received
}

// headRow is the row of the head; of a tied model as a build has it that unties it.
func headRow(src *build.Build) hf.Tensor {
	if head := src.Row(hf.Head); head != nil {
		return *head
	}
	head := *src.Row(hf.Embedding)
	head.Name, head.Role = "lm_head.weight", hf.Head
	return head
}

// mean is KL(a‖b) of next-token distributions, in float64 by the definition.
func mean(a, b []float32, vocab int) (sum float64) {
	logs := func(x []float32) (p []float64) {
		var z float64
		for _, v := range x {
			z += math.Exp(float64(v))
		}
		for _, v := range x {
			p = append(p, float64(v)-math.Log(z))
		}
		return p
	}
	for at := 0; at < len(a); at += vocab {
		p, q := logs(a[at:at+vocab]), logs(b[at:at+vocab])
		for i := range p {
			sum += math.Exp(p[i]) * (p[i] - q[i])
		}
	}
	return sum / float64(len(a)/vocab)
}

// forward runs sequences through a model whose inputs of products are bfloat16.
func forward(t *testing.T, b *build.Build, text [][]int32) (all []float32) {
	t.Helper()
	m, err := runtime.Load(b, runtime.Config{Mode: runtime.A16, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, ids := range text {
		s, err := m.NewSession(len(ids), runtime.KVF32)
		if err != nil {
			t.Fatal(err)
		}
		err = m.Forward([]runtime.Input{{Session: s, Tokens: ids, All: true}}, func(_, _ int, l []float32) { all = append(all, l...) })
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// Losses are what the definition gives on all rows of these small matrices, and the measured KL of a matrix what forward passes of
// whole models give, one of them with this matrix alone quantized.
func TestSensitivity(t *testing.T) {
	for _, variant := range []string{"llama-llama3", "phi3-window", "mixtral"} {
		src := open(t, testmodel.Golden(t, variant).Write(t), hf.Options{})
		s := calibrated(t, src, "awq", quant.Search)
		x := analyze(t, src, s, 40)
		q, _ := s.Calibration.Load(t.Context())
		text := [][]int32{q.IDs[0], q.IDs[1][:16]}
		if digest := (&calib.Sequences{IDs: text}).Digest(); x.Measured.Tokens != 40 || x.Measured.SHA256 != digest {
			t.Errorf("measured on %+v", *x.Measured)
		}
		plain, received := inputs(t, src, q.IDs)
		want := forward(t, src, text)
		at := 0
		head := headRow(src)
		table := slices.DeleteFunc(slices.Clone(src.Tensors), func(x hf.Tensor) bool { return x.Role == hf.Head })
		table = append(table, head)
		for i := range table {
			row := &table[i]
			if !row.Role.Linear() && row.Role != hf.Head {
				continue
			}
			l := x.Linears[at]
			at++
			if l.Name != row.Module() || !slices.Equal(l.Shape, []int{row.Out(), row.In()}) {
				t.Fatalf("%s %v, want %s", l.Name, l.Shape, row.Name)
			}
			if row.Role == hf.QKV || row.Layer != 1 && row.Role != hf.Head || row.Expert > 1 {
				continue
			}
			m := plain[row.Name]
			if row.Role == hf.K || row.Role == hf.V {
				m = received[row.Name]
			}
			for j, c := range l.Candidates {
				spec := s.Spec
				spec.Bits, spec.Group = c.Bits, c.Group
				a, loss := oneLinear(t, s, src, row, m, spec)
				if math.Abs(float64(*c.Loss)-loss) > 2e-3*loss {
					t.Errorf("%s: %s: loss %v, want %v", variant, l.Name, *c.Loss, loss)
				}
				if c.Measured != (j == 0) {
					t.Errorf("%s: candidate %d: measured: %t", l.Name, j, c.Measured)
				}
				if j > 0 {
					scaled := float64(*l.Candidates[0].KL * *c.Loss / *l.Candidates[0].Loss)
					if math.Abs(float64(*c.KL)-scaled) > 1e-4*scaled {
						t.Errorf("%s: KL %v, want %v", l.Name, *c.KL, scaled)
					}
					continue
				}
				one, model := *src, *src.Model
				one.Linears = map[string]quant.Linear{row.Module(): quant.InMemory(a)}
				one.Model = &model
				arch := *src.Arch
				arch.Tied, model.Arch = arch.Tied && row.Role != hf.Head, &arch
				one.Tensors = slices.Clone(table)
				one.Tensors[i].Source = ""
				if kl := mean(want, forward(t, &one, text), src.Arch.Vocab); math.Abs(float64(*c.KL)-kl) > 1e-4*kl+1e-12 {
					t.Errorf("%s: %s: KL %v, want %v", variant, l.Name, *c.KL, kl)
				}
			}
		}
		if at != len(x.Linears) {
			t.Errorf("%d matrices, want %d", len(x.Linears), at)
		}
	}
}

// oneLinear quantizes a matrix with errors weighed by the variance of their column, and returns Σ e H eᵀ / Σ w H wᵀ.
func oneLinear(t *testing.T, s convert.Settings, src *build.Build, row *hf.Tensor, h *calib.Moment, spec quant.Spec) (*quant.Matrix, float64) {
	t.Helper()
	n, k := row.Out(), row.In()
	stored, _ := src.Set.Lookup(row.Source)
	raw := make([]byte, n*k*stored.DType.Bits()/8)
	if err := src.Set.ReadAt(row.Source, raw, row.Offset*int64(stored.DType.Bits()/8)); err != nil {
		t.Fatal(err)
	}
	w, d, e := make([]float32, n*k), make([]float32, k), make([]float32, n*k)
	quant.DecodeFloats(w, raw, stored.DType)
	for i, v := range h.Diag {
		d[i] = float32(max(v, 1e-6*slices.Max(h.Diag)))
	}
	solve, err := s.Format.Solver(spec)
	if err != nil {
		t.Fatal(err)
	}
	m := quant.NewMatrix(n, k, spec.Bits, spec.GroupSize(k), spec.Zero)
	solve(m, w, d)
	var lost, all float64
	for r := range n {
		m.DequantizeRow(e[r*k:(r+1)*k], r)
		for i := range k {
			for j := range k {
				v := 0.0
				switch {
				case h.Second != nil:
					v = h.Second[max(i, j)*k+min(i, j)]
				case i == j:
					v = h.Diag[i]
				}
				lost += v * float64(e[r*k+i]-w[r*k+i]) * float64(e[r*k+j]-w[r*k+j])
				all += v * float64(w[r*k+i]) * float64(w[r*k+j])
			}
		}
	}
	return m, lost / all
}

// The same bytes on one thread and on several. A wider code costs less, and the candidates come by their size.
func TestSensitivityDeterminism(t *testing.T) {
	for i, variant := range testmodel.Variants(t) {
		if i%(3*every) != 0 {
			continue
		}
		src := open(t, testmodel.Golden(t, variant).Write(t), hf.Options{})
		s := calibrated(t, src, []string{"gptq", "awq", "compressed-tensors", "cpu_int4"}[i%4], quant.Search)
		var want []byte
		for _, threads := range []int{1, 5} {
			s.Threads = threads
			x := analyze(t, src, s, -40)
			raw, err := x.Encode()
			if err != nil || !json.Valid(raw) {
				t.Fatalf("%s: %s, %v", variant, raw, err)
			}
			if threads == 1 {
				want = raw
			} else if string(raw) != string(want) {
				t.Errorf("%s: %d threads give\n%s\nwant\n%s", variant, threads, raw, want)
			}
			for _, l := range x.Linears {
				for j := range l.Candidates {
					c := &l.Candidates[j]
					if c.Loss == nil || c.KL == nil || *c.Loss < 0 || c.Bits > l.Candidates[0].Bits && *c.Loss > *l.Candidates[0].Loss {
						t.Errorf("%s: %s: %d bits, group %d, loss %v: the coarsest %v", variant, l.Name, c.Bits, c.Group, *c.Loss, *l.Candidates[0].Loss)
					}
					if j > 0 && c.BitsPerWeight < l.Candidates[j-1].BitsPerWeight {
						t.Errorf("%s: %s: candidate %d is smaller than the one before", variant, l.Name, j)
					}
				}
			}
		}
	}
}

func TestSensitivityRefused(t *testing.T) {
	src := open(t, testmodel.Golden(t, "llama-plain").Write(t), hf.Options{})
	s := calibrated(t, src, "awq", quant.Search)
	refused := func(s convert.Settings, tokens int, want string) {
		t.Helper()
		if _, err := convert.NewSensitivity(src, s, tokens); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	small := s
	small.MaxMemory = 50 << 20
	refused(small, 1<<20, "--sensitivity-tokens")
	refused(s, 1<<21, "at most 1048576")
	none := s
	none.Calibration = nil
	refused(none, 0, "needs a calibration text")
	float := s
	float.Spec.Zero = quant.Float
	refused(float, 0, "no linear layer has a candidate that awq can hold: awq: ")
	// Without being asked nothing is measured that takes too long.
	if p, err := convert.NewSensitivity(src, s, -1<<20); err != nil || p.Tokens != 1<<20 || p.Work() > 1e14 {
		t.Errorf("%+v, %v", p, err)
	}
}
