package convert

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	codec "nibble/gguf/block"
	"nibble/quant"
)

// Budget is the most that a build may take. One of the two is set.
type Budget struct {
	Bytes         int64   // of all files of the output
	BitsPerWeight float64 // all bytes of all tensors over all weights of the source, tied ones once
}

// String states it in its unit.
func (b Budget) String() string {
	if b.Bytes > 0 {
		return fmt.Sprintf("%d bytes", b.Bytes)
	}
	return fmt.Sprintf("%.4f bits per weight", b.BitsPerWeight)
}

// Limit is the budget in bytes for the model of a plan.
func (b Budget) Limit(p *Plan) int64 {
	if b.Bytes > 0 {
		return b.Bytes
	}
	return int64(b.BitsPerWeight * float64(p.Params) / 8)
}

// Taken is how much of the limit a plan takes.
func (b Budget) Taken(p *Plan) int64 {
	if b.Bytes > 0 {
		return p.Bytes()
	}
	return p.tensorBytes()
}

// OutOfRange is the error of a budget that no choice meets.
type OutOfRange struct {
	Budget, Bound Budget // what was asked for, and the least or the most that a build takes
	Most          bool
}

// Error names the bound.
func (o *OutOfRange) Error() string {
	what := "the least that a build takes is"
	if o.Most {
		what = "more than any build takes, which is at most"
	}
	return fmt.Sprintf("a budget of %v: %s %v", o.Budget, what, o.Bound)
}

// outOfRange states what a plan takes, in the unit of the budget; the last digit errs on the side that fits.
func (b Budget) outOfRange(p *Plan, most bool) error {
	bound := Budget{Bytes: p.Bytes()}
	if b.Bytes == 0 {
		round := math.Ceil
		if most {
			round = math.Floor
		}
		bound = Budget{BitsPerWeight: round(p.BitsPerWeight()*1e4) / 1e4}
	}
	return &OutOfRange{b, bound, most}
}

// Allotment is what a budget gives to every matrix.
type Allotment struct {
	Budget      Budget
	Sensitivity string  // SHA-256 of the analysis
	Measured    bool    // Cost is a KL divergence; else it is a sum of losses, which does no more than order choices
	Cost        float64 // of all matrices, added up

	specs map[string]*quant.Spec // by module; those that are not here stay in float
	types map[string]codec.Type  // by tensor of a GGUF file
}

// flags adds what the report says of it.
func (x *Allotment) flags(f map[string]any) {
	f["sensitivity"] = x.Sensitivity
	if x.Budget.Bytes > 0 {
		f["target_size"] = x.Budget.Bytes
	} else {
		f["target_bpw"] = x.Budget.BitsPerWeight
	}
}

// widest puts the longest size into a report, so that its length does not depend on a budget's.
func (x *Allotment) widest(r *Report) {
	if x != nil && x.Budget.Bytes > 0 {
		r.Flags["target_size"] = int64(math.MaxInt64)
	}
}

// spec returns what a module gets, or why it stays in float.
func (x *Allotment) spec(module string) (*quant.Spec, string) {
	s, ok := x.specs[module]
	if !ok {
		return nil, "the budget has room for it in float, or the target holds it in no other way"
	}
	own := *s
	return &own, ""
}

// Allotted counts the matrices of a plan by role and by what they get, as in "4-bit g32" or "Q4_K", in the order of the plan and of size.
func (p *Plan) Allotted() (roles, choices []string, counts map[[2]string]int) {
	counts = map[[2]string]int{}
	bits := map[string]float64{} // of a weight, by choice
	for i := range p.Items {
		it := &p.Items[i]
		if it.N == 0 {
			continue
		}
		role, choice, size := it.Role.String(), "float", math.Inf(1)
		if it.place != nil {
			t, chosen := p.Allotment.types[it.place.tensor.Name]
			if !chosen {
				continue
			}
			choice, size = t.String(), float64(8*t.Bytes())/float64(t.Size())
		} else if s := it.Spec; s != nil {
			choice, size = fmt.Sprintf("%d-bit g%d", s.Bits, s.Group), float64(s.Bits)+1/float64(s.Group)
			if s.Group < 0 {
				choice, size = fmt.Sprintf("%d-bit rows", s.Bits), float64(s.Bits)
			}
		}
		if !slices.Contains(roles, role) {
			roles = append(roles, role)
		}
		bits[choice] = size
		counts[[2]string{role, choice}]++
	}
	choices = slices.SortedFunc(maps.Keys(bits), func(a, b string) int { return cmp.Or(cmp.Compare(bits[a], bits[b]), cmp.Compare(a, b)) })
	return roles, choices, counts
}
