package calib

import (
	"context"
	"fmt"

	"nibble/build"
	"nibble/hf"
	"nibble/internal/kernel"
	"nibble/internal/mmap"
	"nibble/internal/parallel"
	"nibble/quant"
	"nibble/runtime"
)

// Pass takes sequences through a model once, layer by layer, and shows what every matrix receives. The matrices that are
// quantized on the way take the place of the float ones for all that follows.
//
// In a layer: q, k and v are shown what the norm makes of the residual stream; then o what attention makes of it, with the
// new q, k and v; then gate and up, then down. Every stage is computed once. Activations are kept in files that the system
// may move from memory to disk: the residual stream in float32, inputs of matrices in bfloat16.
type Pass struct {
	PassConfig
	src    *build.Build
	stages *runtime.Stages
	starts []int // first token of every sequence, and their number
	ids    [][]int32
	layer  int

	h, next     *mmap.Region // residual stream before the layer, and behind it
	x, ctx, act *mmap.Region // inputs of q and gate, of o, of down
	regions     []*mmap.Region
	names       []string // of their files
	float       *float   // the float model's; nil without Drift

	receive func(l *runtime.Lane, i int) error // makes the present input of sequence i anew
	passing bool                               // nobody looks at the inputs of this layer
}

// PassConfig says how a pass is made.
type PassConfig struct {
	Dir     string       // of the files
	Mode    runtime.Mode // of the products
	Threads int
	Full    bool // second moments; without it their diagonals
	Drift   bool // the sequences run through the float model too, and what separates the inputs is shown
	Resume  bool // go on with what Leave left, or a killed run
	Layer   int  // before which the residual stream is then
	Step    func(layer int, stage string)
}

// Input is what matrices of one stage receive.
type Input struct {
	Layer, Expert int // -1: the head; no expert
	Tensors       []hf.Tensor
	Tokens        int
	Plain         *Moment // every token counts alike
	Received      *Moment // every token counts as much as the attention that it receives: for k and v; nil elsewhere
	Diagonal      bool    // so few tokens came that nothing but the diagonal is of use

	// Ahead returns the moment of what o receives behind float q, k and v, or down behind float gate and up, on the first tokens.
	// It may be called until the matrices are replaced, and is nil for others.
	Ahead func() (*Moment, error)
}

// Solve quantizes matrices, and returns those that are to take the place of rows of the table, by name.
type Solve func(in *Input) (map[string]quant.Linear, error)

// sizes returns the elements of a token in the files: of the inputs of q and of o, and of the widest down of a dense MLP.
func sizes(a *hf.Architecture) (hidden, attention, width int) {
	for i := range a.Tensors {
		if t := &a.Tensors[i]; t.Role == hf.Down && t.Expert < 0 {
			width = max(width, t.In())
		}
	}
	return a.Hidden, a.Heads * a.HeadDim, width
}

// Space returns the bytes that the files of a pass over so many tokens take.
func Space(a *hf.Architecture, tokens int, drift bool) (n int64) {
	for _, size := range tokenBytes(a) {
		n += int64(tokens) * int64(size)
	}
	if drift {
		n *= 2
	}
	return n
}

// NewPass makes the files and opens the model.
func NewPass(b *build.Build, ids [][]int32, c PassConfig) (*Pass, error) {
	p := &Pass{PassConfig: c, src: b, ids: ids, starts: make([]int, 1, len(ids)+1)}
	for _, s := range ids {
		p.starts = append(p.starts, p.starts[len(p.starts)-1]+len(s))
	}
	var err error
	if p.stages, err = runtime.OpenStages(b, c.Mode, c.Threads); err != nil {
		return nil, err
	}
	err = p.open("", &p.h, &p.next, &p.x, &p.ctx, &p.act)
	if err == nil && c.Drift {
		p.float = new(float)
		err = p.open(floatPrefix, &p.float.h, &p.float.next, &p.float.x, &p.float.ctx, &p.float.act)
	}
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("calib: the activations of %d tokens take %d MB in %s: %w", p.Tokens(), Space(b.Arch, p.Tokens(), c.Drift)/1e6, c.Dir, err)
	}
	if c.Layer%2 == 1 {
		p.swap()
	}
	return p, nil
}

// Tokens returns the number of tokens of all sequences.
func (p *Pass) Tokens() int { return p.starts[len(p.starts)-1] }

// rowsOf returns what belongs to sequence i of rows of width elements.
func rowsOf[T any](p *Pass, x []T, i, width int) []T {
	return x[p.starts[i]*width : p.starts[i+1]*width]
}

// Begin fills the residual stream before the first layer.
func (p *Pass) Begin() error {
	d := p.src.Arch.Hidden
	return p.stages.Embed(p.ids, func(i int, h []float32) error {
		copy(rowsOf(p, p.h.Floats(), i, d), h)
		if p.float != nil {
			copy(rowsOf(p, p.float.h.Floats(), i, d), h)
		}
		return p.finite(h, i, 0, "the embedding")
	})
}

// finite reports activations that are no numbers.
func (p *Pass) finite(h []float32, sequence, layer int, stage string) error {
	if i := quant.NonFinite(h); i >= 0 {
		return fmt.Errorf("calib: layer %d: %s: the residual stream of token %d of sequence %d is %v: weights or config make numbers that are not finite",
			layer, stage, i/p.src.Arch.Hidden, sequence, h[i])
	}
	return nil
}

// parallel runs f for the numbers below n on all threads, each with a lane; see [parallel.Each].
func (p *Pass) parallel(ctx context.Context, n int, f func(x *runtime.Lane, i int) error) error {
	return parallel.With(ctx, n, p.Threads, p.stages.Lane, f)
}

// sequences is parallel over the sequences, the longest first would be of no use: they are about equally long.
func (p *Pass) sequences(ctx context.Context, f func(x *runtime.Lane, i int) error) error {
	return p.parallel(ctx, len(p.ids), f)
}

// moment is that of rows of bfloat16, weighted or not.
func (p *Pass) moment(rows []byte, k int, weights []float32) *Moment {
	if p.passing {
		return &Moment{K: k, Diag: make([]float64, k)}
	}
	return moment(rows, k, weights, p.Full, p.Threads)
}

// tensors lists the rows of the table of a layer and an expert, -1 for none, that have one of the roles.
func (p *Pass) tensors(layer, expert int, roles ...hf.Role) []hf.Tensor {
	var list []hf.Tensor
	for _, t := range p.src.Tensors {
		if t.Layer != layer || t.Expert != expert {
			continue
		}
		for _, r := range roles {
			if t.Role == r {
				list = append(list, t)
			}
		}
	}
	return list
}

// solve hands an input to the solver and puts what it returns in place.
func (p *Pass) solve(solve Solve, in *Input, stage string) error {
	if p.Step != nil {
		p.Step(in.Layer, stage)
	}
	if p.passing {
		return nil
	}
	linears, err := solve(in)
	if err != nil || len(linears) == 0 {
		return err
	}
	return p.stages.Replace(linears)
}

// Layer takes the sequences through a layer. Without a solver nothing is summed up, and they only go through.
func (p *Pass) Layer(ctx context.Context, index int, solve Solve) error {
	p.passing = solve == nil
	if err := p.stages.Enter(index); err != nil {
		return err
	}
	p.layer = index
	if err := p.attention(ctx, solve); err != nil {
		return err
	}
	mlp := p.dense
	if len(p.tensors(index, -1, hf.Router)) > 0 {
		mlp = p.mixture
	}
	if err := mlp(ctx, solve); err != nil {
		return err
	}
	p.swap()
	return nil
}

// attention shows q, k and v and then o their inputs, and fills next with the residual stream behind attention and x with
// what the MLP receives.
func (p *Pass) attention(ctx context.Context, solve Solve) error {
	d, q, _ := sizes(p.src.Arch)
	h, next, x, att := p.h.Floats(), p.next.Floats(), p.x.Bytes(), p.ctx.Bytes()
	mass := make([]float32, p.Tokens())
	p.receive = func(l *runtime.Lane, i int) error {
		l.AttentionInput(rowsOf(p, x, i, 2*d), rowsOf(p, h, i, d))
		return nil
	}
	err := p.sequences(ctx, func(l *runtime.Lane, i int) error {
		if err := p.receive(l, i); err != nil || p.passing {
			return err
		}
		l.Attend(nil, rowsOf(p, mass, i, 1), rowsOf(p, x, i, 2*d))
		return nil
	})
	if err != nil {
		return err
	}
	in := &Input{Layer: p.layer, Expert: -1, Tensors: p.tensors(p.layer, -1, hf.Q, hf.K, hf.V, hf.QKV), Tokens: p.Tokens()}
	in.Ahead = p.ahead(ctx, att, q, func(l *runtime.Lane, i int) { l.Attend(rowsOf(p, att, i, 2*q), nil, rowsOf(p, x, i, 2*d)) })
	in.Plain, in.Received = p.moment(x, d, nil), p.moment(x, d, mass)
	if p.float != nil {
		if err := p.floatContext(ctx); err != nil {
			return err
		}
		in.Plain.drift(p.float.x.Bytes(), x, nil, p.Threads)
		in.Received.drift(p.float.x.Bytes(), x, mass, p.Threads)
	}
	if err := p.solve(solve, in, "q, k, v"); err != nil {
		return err
	}
	err = p.sequences(ctx, func(l *runtime.Lane, i int) error {
		l.Attend(rowsOf(p, att, i, 2*q), nil, rowsOf(p, x, i, 2*d))
		return nil
	})
	if err != nil {
		return err
	}
	in = &Input{Layer: p.layer, Expert: -1, Tensors: p.tensors(p.layer, -1, hf.O), Tokens: p.Tokens(), Plain: p.moment(att, q, nil)}
	if p.float != nil {
		in.Plain.drift(p.float.ctx.Bytes(), att, nil, p.Threads)
		if err := p.floatAttention(ctx); err != nil {
			return err
		}
	}
	if err := p.solve(solve, in, "o"); err != nil {
		return err
	}
	return p.sequences(ctx, func(l *runtime.Lane, i int) error {
		to := rowsOf(p, next, i, d)
		copy(to, rowsOf(p, h, i, d))
		l.AddAttention(to, rowsOf(p, att, i, 2*q))
		l.MLPInput(rowsOf(p, x, i, 2*d), to)
		return p.finite(to, i, p.layer, "attention")
	})
}

// dense takes the sequences through an MLP.
func (p *Pass) dense(ctx context.Context, solve Solve) error {
	d := p.src.Arch.Hidden
	down := p.tensors(p.layer, -1, hf.Down)
	f := down[0].In()
	x, next, act := p.x.Bytes(), p.next.Floats(), p.act.Bytes()[:p.Tokens()*2*f]
	in := &Input{Layer: p.layer, Expert: -1, Tensors: p.tensors(p.layer, -1, hf.Gate, hf.Up, hf.GateUp), Tokens: p.Tokens(), Plain: p.moment(x, d, nil)}
	p.receive = func(l *runtime.Lane, i int) error {
		l.MLPInput(rowsOf(p, x, i, 2*d), rowsOf(p, next, i, d))
		return nil
	}
	in.Ahead = p.ahead(ctx, act, f, func(l *runtime.Lane, i int) { l.Expand(rowsOf(p, act, i, 2*f), -1, rowsOf(p, x, i, 2*d)) })
	if p.float != nil {
		in.Plain.drift(p.float.x.Bytes(), x, nil, p.Threads)
		if err := p.floatExpand(ctx, f); err != nil {
			return err
		}
	}
	if err := p.solve(solve, in, "gate, up"); err != nil {
		return err
	}
	err := p.sequences(ctx, func(l *runtime.Lane, i int) error {
		l.Expand(rowsOf(p, act, i, 2*f), -1, rowsOf(p, x, i, 2*d))
		return nil
	})
	if err != nil {
		return err
	}
	in = &Input{Layer: p.layer, Expert: -1, Tensors: down, Tokens: p.Tokens(), Plain: p.moment(act, f, nil)}
	if p.float != nil {
		in.Plain.drift(p.float.act.Bytes()[:len(act)], act, nil, p.Threads)
		if err := p.floatContract(ctx, f); err != nil {
			return err
		}
	}
	if err := p.solve(solve, in, "down"); err != nil {
		return err
	}
	return p.sequences(ctx, func(l *runtime.Lane, i int) error {
		to := rowsOf(p, next, i, d)
		out := make([]float32, len(to))
		l.Contract(out, -1, rowsOf(p, act, i, 2*f))
		l.AddMLP(to, out)
		return p.finite(to, i, p.layer, "MLP")
	})
}

// Head shows the head what it receives. It takes part behind the last layer.
func (p *Pass) Head(ctx context.Context, head []hf.Tensor, solve Solve) error {
	d := p.src.Arch.Hidden
	p.passing = false
	p.receive = func(l *runtime.Lane, i int) error {
		l.HeadInput(rowsOf(p, p.x.Bytes(), i, 2*d), rowsOf(p, p.h.Floats(), i, d))
		return nil
	}
	err := p.sequences(ctx, p.receive)
	if err != nil {
		return err
	}
	if p.Step != nil {
		p.Step(-1, "head")
	}
	_, err = solve(&Input{Layer: -1, Expert: -1, Tensors: head, Tokens: p.Tokens(), Plain: p.moment(p.x.Bytes(), d, nil)})
	return err
}

// takeRows copies rows of width bytes.
func takeRows(dst, src []byte, rows []int, width int) {
	for i, r := range rows {
		copy(dst[i*width:(i+1)*width], src[r*width:])
	}
}

// addRows adds rows of width floats, each times its factor.
func addRows(dst, src []float32, rows []int, factor []float32, width int) {
	for i, r := range rows {
		kernel.Axpy(dst[r*width:(r+1)*width], factor[i], src[i*width:(i+1)*width])
	}
}
