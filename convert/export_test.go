package convert

import (
	"nibble/build"
	codec "nibble/gguf/block"
	"nibble/quant"
)

// NewPlanOf returns the plan in which the modules named have their specs and all others stay in float.
func NewPlanOf(src *build.Build, s Settings, specs map[string]*quant.Spec) (*Plan, error) {
	s.Allotment = &Allotment{Budget: Budget{Bytes: 1}, specs: specs}
	return NewPlan(src, s)
}

// Folds describes the places of a plan where inputs are scaled: what is divided, and what reads it.
func (p *Plan) Folds() [][]string {
	var list [][]string
	for i := range p.Items {
		if f := p.Items[i].out; f != nil {
			names := []string{f.from.Name}
			for _, it := range f.to {
				names = append(names, it.Name)
			}
			list = append(list, names)
		}
	}
	return list
}

// Scaled returns the weights of an item as the finished run's scaled model has them, nil for one that is as in the source.
func (r *Run) Scaled(i int) ([]float32, error) {
	it := &r.Items[i]
	if r.scaled[it] == nil {
		return nil, nil
	}
	return r.read(new(worker), it, 0, it.N)
}

// NewGGUFOf plans a file whose tensors have these types, F32 what is not named.
func NewGGUFOf(src *build.Build, s GGUFSettings, out string, types map[string]codec.Type) (*GGUFPlan, error) {
	s.Allotment = &Allotment{Budget: Budget{Bytes: 1}, types: types}
	return NewGGUF(src, s, out)
}

// PlanDigest is what parts of an output have in common.
func (p *Plan) PlanDigest() string { return p.planDigest() }
