package npu

import "fmt"

// attention is everything from the inputs of q, k and v to the output of o. Heads of queries that share keys are rows of one
// product: q is [kv heads, 1, group·tokens, dim], keys are [kv heads, 1, dim, past+tokens], transposed as they are kept.
func (b *builder) attention(i int, l *block, x *value) *value {
	m := b.Model
	s, d, heads, kv := b.Tokens, m.HeadDim, m.Heads, m.KVHeads
	group := heads / kv
	scale := m.AttnScale
	if m.AttnSoftcap != 0 {
		scale /= m.AttnSoftcap
	}
	fold, normed := scale, float32(1) // the factor on q·k goes into the norm of q or, without one, into q
	if l.qNorm != nil {
		fold, normed = 1, scale
	}
	q := b.heads(in(i, "q"), b.linear(in(i, "q"), x, l.q, fold), heads, l.qNorm, normed)
	k := b.heads(in(i, "k"), b.linear(in(i, "k"), x, l.k, 1), kv, l.kNorm, 1)
	v := b.linear(in(i, "v"), x, l.v, 1)
	if l.rope >= 0 {
		q, k = b.rope(in(i, "q"), q, l.rope), b.rope(in(i, "k"), k, l.rope)
	}

	past := b.kept(l.Window)
	k = b.transpose(in(i, "key"), b.cached(i, "key", k), 1, 0, 3, 2) // [kv, 1, dim, tokens]
	v = b.reshape(in(i, "v.heads"), v, 1, s, kv, d)
	v = b.transpose(in(i, "value"), b.cached(i, "value", v), 2, 0, 1, 3) // [kv, 1, tokens, dim]
	keys, values := k, v
	if past > 0 {
		keys = b.concat(in(i, "keys"), 3, b.past(i, "key", kv, 1, d, past), k)
		values = b.concat(in(i, "values"), 2, b.past(i, "value", kv, 1, past, d), v)
	}
	b.output(k, fmt.Sprintf("past_key_%d_out", i))
	b.output(v, fmt.Sprintf("past_value_%d_out", i))

	total := past + s
	scores := b.node("MatMul", in(i, "scores"), []int{kv, 1, group * s, total}, b.reshape(in(i, "q.grouped"), q, kv, 1, group*s, d), keys).Out
	if m.AttnSoftcap != 0 {
		scores = b.cap(in(i, "capped"), scores, m.AttnSoftcap)
	}
	if s > 1 {
		scores = b.reshape(in(i, "scores.apart"), scores, kv, group, s, total)
	}
	scores = b.binary("Add", in(i, "masked"), scores, b.input(b.maskName(l.Window), byRange, 1, 1, s, total))
	probs := b.fixed("Softmax", in(i, "probs"), shareGrid, scores)
	probs.Axis = 3
	p := b.reshape(in(i, "probs.grouped"), probs.Out, kv, 1, group*s, total)
	y := b.node("MatMul", in(i, "context"), []int{kv, 1, group * s, d}, p, values).Out
	y = b.reshape(in(i, "context.heads"), y, 1, heads, s, d)
	if l.headGate.t != nil {
		y = b.binary("Mul", in(i, "gated"), y, b.headGate(i, l, x))
	}
	if s > 1 {
		y = b.transpose(in(i, "context.tokens"), y, 0, 2, 1, 3)
	}
	return b.linear(in(i, "o"), b.reshape(in(i, "context.flat"), y, 1, s, heads*d), l.o, b.residual(l.attnOut))
}

// heads takes a projection [1, tokens, n·dim] apart, [1, n, tokens, dim], and norms it: as a whole if the weight is as long,
// else head by head.
func (b *builder) heads(name string, x *value, n int, weight []float32, factor float32) *value {
	s, d := b.Tokens, b.Model.HeadDim
	if weight != nil && len(weight) != d {
		x = b.norm(name+".norm", x, weight, factor)
	}
	if s == 1 {
		x = b.reshape(name+".heads", x, 1, n, 1, d)
	} else {
		x = b.transpose(name+".tokens", b.reshape(name+".heads", x, 1, s, n, d), 0, 2, 1, 3)
	}
	if len(weight) == d {
		x = b.norm(name+".norm", x, weight, factor)
	}
	return x
}

// rope turns the pairs (j, j+pairs) of the last axis. What goes in, what comes out and everything between have one encoding:
// a rotation makes nothing longer, and at later positions than the text had the products may be as large as what goes in.
func (b *builder) rope(name string, x *value, index int) *value {
	d, pairs := b.Model.HeadDim, b.Model.ropes[index].Dim/2
	cosName, sinName := b.angleNames(index)
	cos, sin := b.input(cosName, byRange, 1, 1, b.Tokens, pairs), b.input(sinName, byRange, 1, 1, b.Tokens, pairs)
	lo, hi := b.slice(name+".lo", x, 0, pairs), b.slice(name+".hi", x, pairs, 2*pairs)
	of := func(part string, a, c *value) *value {
		y := b.binary("Mul", name+part, a, c)
		y.Enc = x.Enc
		return y
	}
	turned := []*value{
		b.binary("Sub", name+".turned_lo", of(".lo_cos", lo, cos), of(".hi_sin", hi, sin)),
		b.binary("Add", name+".turned_hi", of(".hi_cos", hi, cos), of(".lo_sin", lo, sin)),
	}
	if 2*pairs < d {
		turned = append(turned, b.slice(name+".rest", x, 2*pairs, d))
	}
	for _, v := range turned {
		v.Enc = x.Enc
	}
	return b.concat(name+".turned", 3, turned...)
}

// angleNames are the inputs with cosines and sines of a rotary embedding.
func (g *graph) angleNames(index int) (cos, sin string) {
	suffix := ""
	if index > 0 {
		suffix = fmt.Sprintf("_%d", index)
	}
	return "position_ids_cos" + suffix, "position_ids_sin" + suffix
}

// maskName is the input with the mask of layers with a window.
func (g *graph) maskName(window int) string {
	if window == 0 || window >= g.Context {
		return "attention_mask"
	}
	return fmt.Sprintf("attention_mask_w%d", window)
}

// cached brings keys or values into the type of the cache.
func (b *builder) cached(i int, what string, x *value) *value {
	n := b.node("Convert", in(i, what+".cached"), x.Shape, x)
	n.Out.Class, n.Out.Layer, n.Out.Enc = cached, i, cacheEnc(i, what)
	return n.Out
}

// past is an input with keys or values of earlier tokens.
func (b *builder) past(i int, what string, shape ...int) *value {
	v := b.input(fmt.Sprintf("past_%s_%d_in", what, i), cached, shape...)
	v.Layer, v.Enc = i, cacheEnc(i, what)
	return v
}

// cacheEnc is the encoding that a layer's keys or values have everywhere.
func cacheEnc(i int, what string) string { return fmt.Sprintf("past_%s_%d", what, i) }

// headGate is the gate of every query head, [1, heads, tokens, 1].
func (b *builder) headGate(i int, l *block, x *value) *value {
	m := b.Model
	g := b.linear(in(i, "head_gate"), x, l.headGate, 1)
	if m.GateSiLU {
		g = b.silu(in(i, "head_gate.act"), g)
	} else {
		g = b.fixed("Sigmoid", in(i, "head_gate.act"), unitGrid, g).Out
	}
	if b.Tokens > 1 {
		g = b.transpose(in(i, "head_gate.turned"), g, 0, 2, 1)
	}
	return b.reshape(in(i, "head_gate.heads"), g, 1, m.Heads, b.Tokens, 1)
}
