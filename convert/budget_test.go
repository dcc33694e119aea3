package convert_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"nibble/build"
	"nibble/convert"
	"nibble/hf"
	"nibble/internal/testmodel"
	"nibble/loader"
	"nibble/quant"
)

// within makes a plan inside a budget.
func within(src *build.Build, s convert.Settings, x *convert.Sensitivity, b convert.Budget) (*convert.Plan, error) {
	s.Calibration = nil
	return convert.NewPlanWithin(src, s, x, b)
}

// span returns the least and the most bytes of what is planned inside a budget, as the errors of budgets say.
func span(t *testing.T, plan func(convert.Budget) error) (least, most int64) {
	t.Helper()
	for _, b := range []int64{1, 1 << 40} {
		var none *convert.OutOfRange
		if err := plan(convert.Budget{Bytes: b}); !errors.As(err, &none) {
			t.Fatalf("a budget of %d bytes: %v", b, err)
		} else if none.Most {
			most = none.Bound.Bytes
		} else {
			least = none.Bound.Bytes
		}
	}
	return least, most
}

// expected is the cost of a plan by the analysis.
func expected(x *convert.Sensitivity, p *convert.Plan) (sum float64) {
	specs := map[string]*quant.Spec{}
	for i := range p.Items {
		specs[p.Items[i].Name] = p.Items[i].Spec
	}
	for _, l := range x.Linears {
		name := l.Name
		if len(l.Parts) > 0 && specs[l.Parts[0]] != nil {
			name = l.Parts[0]
		}
		s := specs[name]
		if s == nil {
			continue
		}
		for _, c := range l.Candidates {
			if whole := s.Group == l.Shape[1]; c.Bits == s.Bits && (c.Group == s.Group || whole && c.Group < 0) && c.KL != nil {
				sum += float64(*c.KL)
			}
		}
	}
	return sum
}

// The plan is inside the budget to the byte, agrees with the loader, and is expected to cost no more than any uniform build that
// is as small. The least bytes that are named can be had.
func TestBudget(t *testing.T) {
	for _, c := range []struct {
		variant, format string
		target          loader.Target
	}{
		{"llama-llama3", "compressed-tensors", loader.VLLMGPU},
		{"llama-sharded", "cpu_int4", loader.None}, // one group size; a shared table in place
		{"llama-sharded", "awq", loader.VLLMGPU},   // one group size; a tied head
		{"phi3-window", "compressed-tensors", loader.VLLMGPU},
		{"mixtral", "gptq", loader.VLLMGPU},
		{"qwen2-window", "gptq", loader.Transformers}, // one setting, no float
		{"spark2_5", "compressed-tensors", loader.VLLMCPU},
	} {
		name := c.variant + " " + c.format
		src := open(t, testmodel.Golden(t, c.variant).Write(t), hf.Options{})
		s := calibrated(t, src, c.format, quant.Search)
		s.Target, s.KeepUnfit = c.target, true
		x := analyze(t, src, s, 40)
		least, most := span(t, func(b convert.Budget) error { _, err := within(src, s, x, b); return err })
		before, err := convert.NewSensitivity(src, s, 40)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if low, high := span(t, func(b convert.Budget) error { _, err := within(src, s, before.Unmeasured(), b); return err }); low != least || high != most {
			t.Errorf("%s: %d to %d bytes before anything is measured, then %d to %d", name, low, high, least, most)
		}
		for _, limit := range []int64{least, least + (most-least)/5, least + (most-least)/2, most} {
			p, err := within(src, s, x, convert.Budget{Bytes: limit})
			if err != nil {
				t.Fatalf("%s: %d bytes: %v", name, limit, err)
			}
			if p.Bytes() > limit || limit == least && p.Bytes() != limit {
				t.Errorf("%s: %d bytes of %d", name, p.Bytes(), limit)
			}
			if got := expected(x, p); got > p.Allotment.Cost*(1+1e-9) || got < p.Allotment.Cost*(1-1e-9) {
				t.Errorf("%s: the cost is %v, the analysis says %v", name, p.Allotment.Cost, got)
			}
			fused := map[string]string{}
			for i := range p.Items {
				it := &p.Items[i]
				if is := fmt.Sprint(it.Spec); it.Fused != "" && fused[it.Fused] != "" && fused[it.Fused] != is {
					t.Errorf("%s: %s is %s, what it is fused with %s", name, it.Name, is, fused[it.Fused])
				} else if it.Fused != "" {
					fused[it.Fused] = is
				}
			}
			for _, bits := range []int{4, 8} {
				for _, group := range []int{-1, 128, 64, 32} {
					u := s
					u.Calibration, u.Spec.Bits, u.Spec.Group = nil, bits, group
					if src.Arch.Tied && c.format != "cpu_int4" {
						u.Head = convert.Keep
					}
					uniform, err := convert.NewPlan(src, u)
					if err != nil || uniform.Bytes() > limit {
						continue
					}
					if cost := expected(x, uniform); cost < p.Allotment.Cost*(1-1e-9) {
						t.Errorf("%s: %d bytes cost %v, uniform %d bits in groups of %d %v", name, limit, p.Allotment.Cost, bits, group, cost)
					}
				}
			}
		}
	}
}

// Where a format has one setting for all its matrices, the plan is the best of all that there are: every group with every choice of
// what stays in float, each planned to the byte. Nine tenths of the budget and more are filled, which is what the few matrices of
// these models allow. That the settings keep in float what does not fit must not make a mixture of groups look like a plan.
func TestBudgetOfOneSetting(t *testing.T) {
	for _, c := range []struct {
		variant, format string
		target          loader.Target
	}{
		{"llama-sharded", "awq", loader.VLLMGPU},
		{"llama-sharded", "cpu_int4", loader.None},
	} {
		src := open(t, testmodel.Golden(t, c.variant).Write(t), hf.Options{})
		s := calibrated(t, src, c.format, quant.Search)
		s.Target, s.KeepUnfit = c.target, true
		x := analyze(t, src, s, 40)
		s.Calibration = nil
		if src.Arch.Tied && c.format == "awq" {
			s.Head = convert.Keep
		}
		var all []*convert.Plan
		for _, group := range []int{-1, 128, 64, 32} {
			u := s
			u.Spec.Group = group
			whole, err := convert.NewPlan(src, u)
			if err != nil {
				continue
			}
			var units [][]string
			index := map[string]int{}
			for i := range whole.Items {
				it := &whole.Items[i]
				if it.Spec == nil {
					continue
				}
				name := cmp.Or(it.Fused, it.Tensor.PartOf, it.Name)
				at, known := index[name]
				if !known {
					at = len(units)
					index[name], units = at, append(units, nil)
				}
				units[at] = append(units[at], it.Name)
			}
			for chosen := 1; chosen < 1<<len(units); chosen++ {
				specs := map[string]*quant.Spec{}
				for i, names := range units {
					for _, name := range names {
						if chosen>>i&1 == 1 {
							specs[name] = &u.Spec
						}
					}
				}
				p, err := convert.NewPlanOf(src, s, specs)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, p)
			}
		}
		least, most := span(t, func(b convert.Budget) error { _, err := within(src, s, x, b); return err })
		for share := range 11 {
			limit := least + (most-least)*int64(share)/10
			best := math.Inf(1)
			for _, p := range all {
				if p.Bytes() <= limit {
					best = min(best, expected(x, p))
				}
			}
			p, err := within(src, s, x, convert.Budget{Bytes: limit})
			if err != nil {
				t.Fatal(err)
			}
			if got := expected(x, p); p.Bytes() > limit || got > best*(1+1e-9) {
				t.Errorf("%s %s: %d bytes of %d cost %v, the best of %d plans %v", c.variant, c.format, p.Bytes(), limit, got, len(all), best)
			}
			if filled := float64(p.Bytes()) / float64(limit); filled < 0.9 {
				t.Errorf("%s %s: %.3f of %d bytes are filled", c.variant, c.format, filled, limit)
			}
		}
	}
}

// Budgets of bits for a weight count the bytes of tensors; bounds are named in the unit that was asked for.
func TestBudgetBits(t *testing.T) {
	src := open(t, testmodel.Golden(t, "llama-llama3").Write(t), hf.Options{})
	s := calibrated(t, src, "compressed-tensors", quant.Search)
	x := analyze(t, src, s, 40)
	_, err := within(src, s, x, convert.Budget{BitsPerWeight: 2})
	var none *convert.OutOfRange
	if !errors.As(err, &none) || none.Most {
		t.Fatal(err)
	}
	for _, more := range []float64{0, 1, 3.5} {
		b := convert.Budget{BitsPerWeight: none.Bound.BitsPerWeight + more}
		p, err := within(src, s, x, b)
		if err != nil {
			t.Fatal(err)
		}
		if p.BitsPerWeight() > b.BitsPerWeight || p.BitsPerWeight() < b.BitsPerWeight-0.3 {
			t.Errorf("%v bits per weight of %v", p.BitsPerWeight(), b.BitsPerWeight)
		}
	}
	if _, err = within(src, s, x, convert.Budget{BitsPerWeight: 16}); !errors.As(err, &none) || !none.Most || none.Bound.BitsPerWeight >= 16 {
		t.Errorf("%v", err)
	}
}

// An analysis is read as it was written, and refused for another model, another grid, or if it says what cannot be.
func TestSensitivityFile(t *testing.T) {
	src := open(t, testmodel.Golden(t, "llama-llama3").Write(t), hf.Options{})
	s := calibrated(t, src, "awq", quant.Search)
	x := analyze(t, src, s, 40)
	raw, err := x.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := convert.ParseSensitivity(raw)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := again.Encode(); err != nil || string(back) != string(raw) {
		t.Errorf("%s, %v; want\n%s", back, err, raw)
	}
	if err := again.Fits(src, s); err != nil {
		t.Error(err)
	}
	other := open(t, testmodel.Golden(t, "phi3-window").Write(t), hf.Options{})
	if err := again.Fits(other, s); err == nil || !strings.Contains(err.Error(), "another model") {
		t.Error(err)
	}
	if err := again.Fits(src, settings(t, "gptq", 16)); err == nil || !strings.Contains(err.Error(), "--format awq, the build has gptq") {
		t.Error(err)
	}
	for _, c := range [][3]string{
		{`"version": 1`, `"version": 2`, "version 2"},
		{`"version": 1`, `"versions": 1`, "unknown field"},
		{`"loss":`, `"loss":-`, "a cost of -"},
		{`"shape":[`, `"shape":[1,`, "shape"},
		{`layers.1.self_attn.q_proj`, `layers.0.self_attn.q_proj`, "twice"},
		{"\n}\n", "\n}\n{}", "something follows"},
	} {
		bad := strings.Replace(string(raw), c[0], c[1], 1)
		if _, err := convert.ParseSensitivity([]byte(bad)); err == nil || !strings.Contains(err.Error(), c[2]) || bad == string(raw) {
			t.Errorf("%s: %v", c[1], err)
		}
	}
	if !slices.ContainsFunc(x.Linears, func(l convert.LinearCost) bool { return l.Role == "head" }) {
		t.Error("no head")
	}
}

// FuzzSensitivity: what is accepted is written and read again to the same bytes.
func FuzzSensitivity(f *testing.F) {
	f.Add([]byte(`{"version":1,"linears":[{"name":"a","shape":[2,2],"candidates":[{"bits":4,"group":-1,"loss":1e-3,"kl":null}]}]}`))
	f.Add([]byte(`{"version":1,"format":"gguf","linears":[{"name":"a","shape":[2,256],"candidates":[{"type":"Q4_K","bits_per_weight":4.5,"loss":1e-3,"kl":-1}]}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		x, err := convert.ParseSensitivity(raw)
		if err != nil {
			return
		}
		once, err := x.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := convert.ParseSensitivity(once)
		if err != nil {
			t.Fatalf("%v\n%s", err, once)
		}
		if twice, err := again.Encode(); err != nil || string(twice) != string(once) {
			t.Errorf("%s\n%s\n%v", once, twice, err)
		}
	})
}
