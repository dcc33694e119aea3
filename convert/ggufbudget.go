package convert

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"nibble/build"
	"nibble/gguf"
	codec "nibble/gguf/block"
	"nibble/gguf/mix"
	"nibble/gguf/names"
	"nibble/hf"
	"nibble/safetensors"
)

// fileAllotter chooses the types of the tensors of a GGUF file. A choice is the number of a type.
type fileAllotter struct {
	allotter
	file    *GGUFPlan // without types
	modules map[string]*LinearCost
}

// NewGGUFWithin plans the file that costs least by the analysis among those inside a budget. The budget stands in place of the mixture; what
// the options say of the embedding and of the head holds. There is one choice for every tensor that mixtures quantize: a type of the analysis,
// whose cost for a stack of experts is the sum of theirs, or a float of two bytes. A tensor that the analysis does not have is in float.
func NewGGUFWithin(src *build.Build, s GGUFSettings, out string, costs *Sensitivity, b Budget) (*GGUFPlan, error) {
	file, err := prepareGGUF(src, s, out)
	if err != nil {
		return nil, err
	}
	a := &fileAllotter{file: file, modules: costs.byModule()}
	a.plan = a.make
	if err := a.init(costs, b); err != nil {
		return nil, err
	}
	for i := range file.list {
		t := &file.list[i]
		if t.F32 || !mix.Quantizes(t.Name, t.Shape) {
			continue
		}
		u := unit{tensor: t}
		if u.options, err = a.options(t); err != nil {
			return nil, err
		}
		a.units = append(a.units, u)
	}
	menu := a.menu(func(int) bool { return true })
	if menu == nil {
		return nil, errors.New("convert: no tensor of the file has a type that the analysis has")
	}
	p, err := a.best([][]unit{menu})
	if err != nil {
		return nil, err
	}
	return p.gguf, nil
}

// options lists the types that a tensor can have.
func (a *fileAllotter) options(t *names.Tensor) (list []option, err error) {
	whole := a.option(t, a.float(t), 0)
	for _, kind := range mix.Choices(t.Shape[len(t.Shape)-1]) {
		if cost, known := a.cost(t, kind); known {
			list = append(list, a.option(t, kind, cost))
		}
	}
	list = append(list, whole)
	fixed := a.fixed(t)
	if fixed == nil {
		return list, nil
	}
	if fixed.Size() == 1 {
		return []option{a.option(t, *fixed, 0)}, nil
	}
	list = slices.DeleteFunc(list, func(o option) bool { return o.choice != int(*fixed) })
	if len(list) == 0 {
		return nil, fmt.Errorf("convert: %s as %s: the analysis has no cost of that", t.Name, *fixed)
	}
	return list, nil
}

// option is a type with its bytes: of a file's size they are those up to the next tensor.
func (a *fileAllotter) option(t *names.Tensor, kind codec.Type, cost float64) option {
	o := option{int(kind), blockBytes(kind, t.Shape), cost}
	if a.Budget.Bytes > 0 {
		o.bytes = (o.bytes + gguf.Alignment - 1) / gguf.Alignment * gguf.Alignment
	}
	if kind.Size() == 1 {
		o.choice = float
	}
	return o
}

// float is the type of a tensor that stays in float: as in the source, or F16 for a source of float32.
func (a *fileAllotter) float(t *names.Tensor) codec.Type {
	for _, s := range t.Sources {
		if x, _ := a.file.Source.Set.Lookup(s.Source); x.DType != safetensors.BF16 {
			return codec.F16
		}
	}
	return codec.BF16
}

// fixed is the type that the options demand, nil for none.
func (a *fileAllotter) fixed(t *names.Tensor) *codec.Type {
	o := &a.file.Options
	switch {
	case t.Name == ggufEmbedding && o.Embedding != nil:
		return o.Embedding
	case t.Name == ggufHead, t.Name == ggufEmbedding && tiedGGUF(a.file.list):
		return o.Output
	}
	return nil
}

// cost is what the analysis says of all matrices of a tensor.
func (a *fileAllotter) cost(t *names.Tensor, kind codec.Type) (sum float64, known bool) {
	for _, s := range t.Sources {
		module := s.Module()
		if t.Name == ggufHead && s.Role == hf.Embedding {
			module = strings.TrimSuffix(headName(a.file.Source), ".weight")
		}
		l := a.modules[module]
		if l == nil {
			return 0, false
		}
		i := slices.IndexFunc(l.Candidates, func(c CandidateCost) bool { return c.Type == kind.String() })
		if i < 0 {
			return 0, false
		}
		sum += a.costs.price(&l.Candidates[i])
	}
	return sum, true
}

// make makes the plan of what is chosen.
func (a *fileAllotter) make(units []unit) (*Plan, error) {
	p, x := *a.file, a.Allotment
	x.types = map[string]codec.Type{}
	for i := range units {
		u := &units[i]
		o := u.now()
		x.Cost += o.cost
		kind := codec.Type(o.choice)
		if o.choice == float {
			kind = a.float(u.tensor)
			if f := a.fixed(u.tensor); f != nil {
				kind = *f
			}
		}
		x.types[u.tensor.Name] = kind
	}
	p.Allotment = &x
	if err := p.layOut(); err != nil {
		return nil, err
	}
	return p.plan, nil
}
