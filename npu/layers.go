package npu

import (
	"fmt"
	"math"
	"slices"

	"nibble/hf"
)

// Options say what graphs are made of.
type Options struct {
	Context   int  // most tokens of a sequence
	Prefill   int  // tokens of a prompt that run together
	Conv      bool // linears are 1x1 convolutions
	RMS       bool // norms are RMSNormalization (opset 23) instead of LpNormalization
	Inside    bool // the embedding is in the graph
	Whole     bool // layers with a window keep all earlier tokens too, for a host that slides all caches alike
	HeadBlock int  // most columns of a part of the head; 0: what fits headBytes

	// Exact are the norms for which the epsilon matters, by name. Calibrate finds them.
	Exact map[string]bool
}

// headBytes is the most weights of a part of the head, which is what the writer keeps in memory.
const headBytes = 64 << 20

// newGraph describes the model for so many new tokens.
func newGraph(m *Model, name string, o Options, tokens int) *graph {
	g := &graph{Name: name, Tokens: tokens, Context: o.Context, Model: m, length: o.Context, whole: o.Whole, layer: -1, columns: map[*value]*value{}}
	b := &builder{graph: g, Options: o}
	x := b.embedding()
	for i := range m.layers {
		g.layer = i
		x = b.block(i, x)
	}
	g.layer = len(m.layers)
	b.head(x)
	return g
}

// builder builds a graph.
type builder struct {
	*graph
	Options
}

// embedding is where the graph begins: rows that the host looks up, or a table in the graph.
func (b *builder) embedding() *value {
	m := b.Model
	if !b.Inside {
		return b.input("input_embeds", byRange, 1, b.Tokens, m.Hidden)
	}
	ids := b.input("input_ids", plain, 1, b.Tokens)
	table := b.param(weight, &param{Name: "embedding", Shape: []int{m.Vocab, m.Hidden}, Fold: m.EmbedScale,
		from: matrix{t: m.embed, n: m.Vocab, k: m.Hidden}, Table: true})
	table.Enc = "input_embeds"
	n := b.node("Gather", "input_embeds", []int{1, b.Tokens, m.Hidden}, table, ids)
	return n.Out
}

// block is a decoder layer.
func (b *builder) block(i int, x *value) *value {
	l := &b.Model.layers[i]
	h := x
	if l.attnNorm != nil {
		h = b.norm(in(i, "attn_norm"), x, l.attnNorm, 1)
	}
	out := b.attention(i, l, h)
	if l.attnOut != nil {
		out = b.norm(in(i, "attn_out_norm"), out, l.attnOut, b.Model.ResidualScale)
	}
	x = b.binary("Add", in(i, "attn_residual"), x, out)
	h = x
	if l.mlpNorm != nil {
		h = b.norm(in(i, "mlp_norm"), x, l.mlpNorm, 1)
	}
	out = b.mlp(i, l, h)
	if l.mlpOut != nil {
		out = b.norm(in(i, "mlp_out_norm"), out, l.mlpOut, b.Model.ResidualScale)
	}
	return b.binary("Add", in(i, "mlp_residual"), x, out)
}

// residual is the factor on what the last matrix of a block makes, unless a norm behind it takes it.
func (b *builder) residual(out []float32) float32 {
	if out != nil {
		return 1
	}
	return b.Model.ResidualScale
}

// norm is an RMS norm over the last axis, times the weight and a factor. LpNormalization divides by the length of the vector
// instead of the root of its mean square, so its weight is larger by sqrt(n).
func (b *builder) norm(name string, x *value, weight []float32, factor float32) *value {
	n := len(weight)
	f := float64(factor)
	if !b.RMS {
		f *= math.Sqrt(float64(n))
	}
	gamma := make([]float32, n)
	for i, w := range weight {
		if b.Model.NormPlusOne {
			w++
		}
		gamma[i] = float32(float64(w) * f)
	}
	constant := b.param(constant, &param{Name: name + ".weight", Shape: []int{n}, Values: gamma})
	axis := len(x.Shape) - 1
	if b.RMS {
		node := b.node("RMSNormalization", name, x.Shape, x, constant)
		node.Axis, node.Eps = axis, b.Model.Eps
		return node.Out
	}
	eps := b.Model.Eps * float32(n)
	if b.Exact[name] {
		return b.binary("Mul", name, b.exact(name, x, eps), constant)
	}
	node := b.node("LpNormalization", name+".unit", x.Shape, x)
	node.Axis, node.Eps = axis, eps
	return b.binary("Mul", name, node.Out, constant)
}

// exact divides vectors by the root of their squared length plus eps: by the length that they have with one more element,
// sqrt(eps), behind them.
func (b *builder) exact(name string, x *value, eps float32) *value {
	axis, n := len(x.Shape)-1, x.Shape[len(x.Shape)-1]
	shape := slices.Clone(x.Shape)
	shape[axis] = 1
	p := &param{Name: name + ".epsilon", Shape: shape, Values: make([]float32, x.elements()/n)}
	for i := range p.Values {
		p.Values[i] = float32(math.Sqrt(float64(eps)))
	}
	node := b.node("LpNormalization", name+".longer", nil, b.concat(name+".joined", axis, x, b.param(constant, p)))
	node.Out.Shape, node.Axis, node.Out.Enc = node.In[0].Shape, axis, name+".unit"
	return b.slice(name+".unit", node.Out, 0, n)
}

// linear is a matrix times the rows of x [1, tokens, in], and its bias.
func (b *builder) linear(name string, x *value, w matrix, fold float32) *value {
	p := &param{Name: name + ".weight", Shape: []int{w.k, w.n}, Axis: 1, Fold: fold, from: w}
	return b.biased(name, b.product(name, x, p), w, fold)
}

// biased adds a bias.
func (b *builder) biased(name string, y *value, w matrix, fold float32) *value {
	if w.bias == nil {
		return y
	}
	bias := make([]float32, len(w.bias))
	for i, v := range w.bias {
		bias[i] = v * fold
	}
	return b.binary("Add", name+".biased", y, b.param(constant, &param{Name: name + ".bias", Shape: []int{len(bias)}, Values: bias}))
}

// product is x [1, tokens, in] times a matrix, as MatMul or as a convolution of [1, in, 1, tokens].
func (b *builder) product(name string, x *value, p *param) *value {
	s, k, n := b.Tokens, p.from.k, p.from.n
	if !b.Conv {
		return b.node("MatMul", name, []int{1, s, n}, x, b.param(weight, p)).Out
	}
	image := b.columns[x]
	if image == nil {
		image = b.transpose(x.Name+".columns", b.reshape(x.Name+".rows", x, 1, s, 1, k), 0, 3, 2, 1)
		b.columns[x] = image
	}
	p.Shape, p.Axis = []int{n, k, 1, 1}, 0
	y := b.node("Conv", name, []int{1, n, 1, s}, image, b.param(weight, p)).Out
	return b.reshape(name+".flat", b.transpose(name+".lines", y, 0, 3, 2, 1), 1, s, n)
}

// mlp is down(act(gate·x) ⊙ up·x).
func (b *builder) mlp(i int, l *block, x *value) *value {
	up := b.linear(in(i, "up"), x, l.up, 1)
	gate := b.linear(in(i, "gate"), x, l.gate, 1)
	act := b.activation(in(i, "act"), gate)
	return b.linear(in(i, "down"), b.binary("Mul", in(i, "product"), act, up), l.down, b.residual(l.mlpOut))
}

// activation is the function of the MLP.
func (b *builder) activation(name string, x *value) *value {
	if b.Model.Activation == hf.SiLU {
		return b.silu(name, x)
	}
	n := b.node("Gelu", name, x.Shape, x)
	n.Tanh = b.Model.Activation == hf.GELUTanh
	return n.Out
}

func (b *builder) silu(name string, x *value) *value {
	return b.binary("Mul", name, b.fixed("Sigmoid", name+".sigmoid", unitGrid, x).Out, x)
}

// cap is c·tanh(x), for what is divided by c already.
func (b *builder) cap(name string, x *value, c float32) *value {
	t := b.fixed("Tanh", name+".tanh", signedGrid, x).Out
	return b.binary("Mul", name, t, b.param(constant, &param{Name: name + ".cap", Shape: []int{1}, Values: []float32{c}}))
}

// head is the last norm and the matrix of the vocabulary, in parts.
func (b *builder) head(x *value) {
	m := b.Model
	x = b.norm("final_norm", x, m.final, 1)
	fold := m.LogitScale
	if m.FinalSoftcap != 0 {
		fold /= m.FinalSoftcap
	}
	per := b.HeadBlock
	if per == 0 {
		per = max(headBytes/m.head.k, 1)
	}
	parts := (m.Vocab + per - 1) / per
	var list []*value
	for i := range parts {
		from, to := i*m.Vocab/parts, (i+1)*m.Vocab/parts
		name := "head"
		if parts > 1 {
			name = fmt.Sprintf("head.%d", i)
		}
		w := matrix{t: m.head.t, row: from, n: to - from, k: m.head.k}
		y := b.product(name, x, &param{Name: name + ".weight", Shape: []int{w.k, w.n}, Axis: 1, Fold: fold, from: w, Output: true})
		list = append(list, y)
	}
	y := b.concat("head.all", 2, list...)
	if m.FinalSoftcap != 0 {
		y = b.cap("capped", y, m.FinalSoftcap)
	}
	b.output(y, "logits")
}
