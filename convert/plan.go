package convert

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"nibble/build"
	"nibble/hf"
	"nibble/loader"
	"nibble/quant"
	"nibble/safetensors"
)

// Settings are everything that decides a build, apart from the source.
type Settings struct {
	Format  quant.Format  // nil: that of a GGUF file
	Spec    quant.Spec    // of modules that no rule of the recipe matches
	Options quant.Options // passed on to the format
	Recipe  *quant.Recipe // nil: none

	Allotment *Allotment // nil: bits and groups are as above

	Head, Embedding Choice
	Target          loader.Target
	TensorParallel  int
	PadMLP          int  // width of the MLP in the output; 0: as in the source, -1: the least that fits
	KeepUnfit       bool // leave in float what the target cannot hold, instead of refusing
	AllowNonFinite  bool // likewise what has a NaN or an infinity

	Calibration *Calibration // nil: from the weights alone

	Command   string // that makes the same build again wherever the source is, for the report; "" if nobody knows
	Measured  bool   // the report will say how the build did on a text
	MaxShard  int64  // bytes of tensors in a shard
	MaxMemory int64  // 0: no limit
	MemoryOf  string // who sets it, for errors; "": --max-memory
	Threads   int
}

// Choice is whether an optional matrix is quantized.
type Choice uint8

// The choices. Default depends on format and target.
const (
	Default Choice = iota
	Keep
	Quantize
)

// Plan is everything about a build that is known before weights are read.
type Plan struct {
	Settings
	Source  *build.Build
	Items   []Item // in the order in which shards are filled
	Weights *safetensors.Plan
	Files   []File // of the output, weights first, the report last
	Params  int64  // weights of the source, tied ones once
	Notes   []string

	gguf  *GGUFPlan // the file that is written; nil: a folder
	texts []text    // config.json and what else is known by now
	strip int64     // weights in a strip
}

// Item is a tensor of the source, or a part of one, on its way to the output.
type Item struct {
	loader.Module
	Tensor  hf.Tensor          // where it comes from
	Outputs []safetensors.Spec // tensors it becomes, or parts of them
	place   *place             // of the one output in a GGUF file; nil: in a folder
	Reason  string             // why a matrix is not quantized; "" for what never is
	solve   quant.Solver
	rows    *rows
	in, out *fold // where its columns are multiplied, and where its rows are divided, or its weights if it is a norm; nil: nowhere
}

// ErrQuantized is the cause where a build is no source.
var ErrQuantized = errors.New("already quantized")

// NewPlan decides what happens to every tensor and checks that the target can hold it.
func NewPlan(src *build.Build, s Settings) (*Plan, error) {
	if src.Reader != nil {
		return nil, fmt.Errorf("convert: %s is %w (%s); dequantize it first, or start from the original", src.In("config.json"), ErrQuantized, src.Reader.Format())
	}
	p := &Plan{Settings: s, Source: src, Notes: slices.Clone(src.Notes)}
	if names := loader.Unknown(src.Model); len(names) > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d tensors that %s does not have are carried over, %s for one; vLLM refuses such tensors", len(names), src.Arch.Name, names[0]))
	}
	if err := p.decide(); err != nil {
		return nil, err
	}
	if err := s.Recipe.Unused(); err != nil {
		return nil, err
	}
	err := p.fit()
	var unfit *Unfit
	if errors.As(err, &unfit) {
		unfit.Fits = fitting(src, s)
	}
	if err != nil {
		return nil, err
	}
	p.fold()
	return p, p.layOut()
}

// decide makes the items.
func (p *Plan) decide() error {
	tied := p.Source.Arch.Tied || p.Source.Row(hf.Head) == nil
	head, embed := p.headChoices(tied)
	for _, t := range p.Source.Tensors {
		var err error
		switch {
		case t.Role == hf.Embedding && embed:
			err = p.matrix(t, true)
		case t.Role == hf.Head:
			err = p.matrix(t, head)
		case t.Role.Linear():
			err = p.linear(t)
		default:
			err = p.matrix(t, false)
		}
		if err != nil {
			return err
		}
	}
	if e := p.Source.Row(hf.Embedding); tied && e != nil && head != embed {
		h := *e // the head becomes a tensor of its own
		h.Name, h.Role, h.Input = headName(p.Source), hf.Head, ""
		return p.matrix(h, head)
	}
	return nil
}

// headChoices resolves the choices for head and embedding. Where both come out alike, a tied model stays tied.
func (p *Plan) headChoices(tied bool) (head, embed bool) {
	inPlace := p.Format.RowsSplit() // the one kind of layout whose loader reads a quantized embedding
	embed = p.Embedding == Quantize || p.Embedding == Default && inPlace
	switch p.Head {
	case Quantize:
		head = true
	case Default:
		head = loader.QuantizesHead(p.Target, p.Format.Name())
		if inPlace && tied {
			head = embed
		}
	}
	return head, embed
}

// headName is the name of a head that the source does not have as a tensor.
func headName(b *build.Build) string {
	if head := b.Arch.Row(hf.Head); head != nil {
		return head.Name
	}
	return "lm_head.weight"
}

// linear adds a matrix of attention or MLP, apart if the format's loaders want its parts apart.
func (p *Plan) linear(t hf.Tensor) error {
	if t.Parts == nil || p.Format.RowsSplit() {
		return p.matrix(t, true)
	}
	first := 0
	for _, part := range t.Parts {
		x := t
		x.Name, x.Role, x.Parts, x.PartOf = part.Module+".weight", part.Role, nil, t.Name
		x.Shape = []int{part.Rows, t.In()}
		x.Offset += int64(first) * int64(t.In())
		first += part.Rows
		if err := p.matrix(x, true); err != nil {
			return err
		}
	}
	return nil
}

// matrix adds an item; quantize is what is wanted unless the recipe keeps it.
func (p *Plan) matrix(t hf.Tensor, quantize bool) error {
	it := Item{Tensor: t, Module: loader.Module{Role: t.Role, Layer: t.Layer, Expert: t.Expert}}
	it.Name = t.Name
	if t.Role.Matrix() {
		it.Module = loader.NewModule(&t)
		spec, keep := p.Recipe.Apply(it.Name, p.Spec)
		switch {
		case !quantize:
			it.Reason = p.unasked(it.Role)
		case it.N == 0 || it.K == 0:
			it.Reason = "empty"
		case keep:
			it.Reason = "kept by the recipe"
		case p.Allotment != nil:
			it.Spec, it.Reason = p.Allotment.spec(it.Name)
		default:
			it.Spec = &spec
		}
	}
	p.Items = append(p.Items, it)
	return nil
}

// unasked says why a head or embedding is not quantized.
func (p *Plan) unasked(r hf.Role) string {
	choice, flag := p.Head, "--lm-head keep"
	if r == hf.Embedding {
		choice, flag = p.Embedding, "--embedding keep"
	}
	if choice == Keep {
		return flag
	}
	return fmt.Sprintf("loaders of %s read the %s in float", p.Format.Name(), r)
}

// fit checks every module against the layout and the target.
func (p *Plan) fit() error {
	if err := p.padMLP(); err != nil {
		return err
	}
	if p.AllowNonFinite {
		if err := p.keepNonFinite(); err != nil {
			return err
		}
	}
	unfit := p.problems()
	for len(unfit) > 0 && p.KeepUnfit && p.keep(unfit) {
		unfit = p.problems()
	}
	p.retie()
	if len(unfit) > 0 {
		return &Unfit{Target: p.Target, Format: p.Format.Name(), Problems: unfit}
	}
	if !slices.ContainsFunc(p.Items, func(it Item) bool { return it.Spec != nil }) {
		return &Unfit{Target: p.Target, Format: p.Format.Name(), Problems: []loader.Problem{{
			Rule: "nothing is left to quantize", Fix: "other settings"}}}
	}
	return nil
}

// retie drops the head that was taken out of a tied model to be quantized, if nothing came of that.
func (p *Plan) retie() {
	e := p.Source.Row(hf.Embedding)
	if e == nil || slices.ContainsFunc(p.Items, func(it Item) bool { return it.Embed && it.Spec != nil }) {
		return
	}
	p.Items = slices.DeleteFunc(p.Items, func(it Item) bool {
		return it.Head && it.Spec == nil && it.Tensor.Source == e.Source
	})
}

// keep leaves in float the modules that have a problem and all that servers fuse with them. It reports whether that
// changed anything: problems of the model as a whole stay.
func (p *Plan) keep(unfit []loader.Problem) bool {
	rules := map[string]string{} // by module
	for _, u := range unfit {
		rules[u.Module] = u.Rule
	}
	fused := map[string]string{} // by fused matrix
	for i := range p.Items {
		if it := &p.Items[i]; rules[it.Name] != "" && it.Fused != "" {
			fused[it.Fused] = rules[it.Name]
		}
	}
	kept := false
	for i := range p.Items {
		it := &p.Items[i]
		if rule := cmp.Or(rules[it.Name], fused[it.Fused]); it.Spec != nil && rule != "" {
			it.Spec, it.Reason, kept = nil, rule, true
		}
	}
	return kept
}

// problems asks loader and format about the modules as they are now. Soft ones become notes.
func (p *Plan) problems() []loader.Problem {
	var hard []loader.Problem
	refuse := func(it *Item, err error) {
		fix := "--unfit keep"
		if it.Head {
			fix = "--lm-head keep"
		}
		hard = append(hard, loader.Problem{Module: it.Name, Rule: strings.TrimPrefix(err.Error(), p.Format.Name()+": "), Fix: fix})
	}
	for i := range p.Items {
		if it := &p.Items[i]; it.Spec != nil {
			var err error
			if it.solve, err = p.Format.Solver(it.Spec.Plain()); err != nil {
				refuse(it, err)
			}
		}
	}
	if len(hard) > 0 {
		return hard
	}
	var soft []loader.Problem
	named := map[string]bool{}
	for _, x := range loader.Check(p.Target, p.input()) {
		if x.Soft {
			soft = append(soft, x)
			continue
		}
		hard = append(hard, x)
		named[x.Module] = true
	}
	for i := range p.Items { // shapes of which only the layout knows
		if it := &p.Items[i]; it.Spec != nil && !named[it.Name] {
			if err := p.Format.CheckShape(*it.Spec, it.N, it.K); err != nil {
				refuse(it, err)
			}
		}
	}
	if len(hard) == 0 {
		for _, x := range loader.Summarize(soft) {
			p.Notes = append(p.Notes, x.Where()+x.Rule)
		}
	}
	return hard
}

func (p *Plan) input() loader.Input {
	in := loader.Input{Format: p.Format.Name(), CheckpointFormat: p.Options.CheckpointFormat, Arch: p.Source.Arch,
		Tied: p.tied(), TensorParallel: p.TensorParallel}
	for i := range p.Items {
		if it := &p.Items[i]; it.N > 0 {
			in.Modules = append(in.Modules, it.Module)
		}
	}
	return in
}

// tied reports whether the output's head is its embedding.
func (p *Plan) tied() bool {
	return !slices.ContainsFunc(p.Items, func(it Item) bool { return it.Head })
}
