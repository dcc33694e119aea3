package runtime

import "fmt"

// verify holds the matrices against one another and against the config's sizes: a forward pass trusts them.
func (m *Model) verify() error {
	a := m.Arch
	v := verifier{}
	v.is("the embedding", m.embed, -1, a.Hidden)
	if m.embed != nil {
		v.is("the head", m.head, m.embed.n, a.Hidden)
	}
	if m.positions != nil {
		v.is("the table of positions", m.positions, -1, a.Hidden)
	}
	for i := range m.layers {
		m.verifyLayer(&v, i)
	}
	return v.err
}

// verifyLayer looks at the matrices of layer i.
func (m *Model) verifyLayer(v *verifier, i int) {
	a, l := m.Arch, &m.layers[i]
	q, kv := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
	name := func(s string) string { return fmt.Sprintf("layer %d: %s", i, s) }
	v.is(name("q"), l.q, q, a.Hidden)
	v.is(name("k"), l.k, kv, a.Hidden)
	v.is(name("v"), l.v, kv, a.Hidden)
	v.is(name("o"), l.o, a.Hidden, q)
	if l.headGate != nil {
		v.is(name("the head gate"), l.headGate, a.Heads, a.Hidden)
	}
	if l.rope >= 0 && m.ropes[l.rope].Dim > a.HeadDim {
		v.fail("%s rotates %d of %d dimensions", name("rope"), m.ropes[l.rope].Dim, a.HeadDim)
	}
	m.verifyMLP(v, l, name)
}

func (m *Model) verifyMLP(v *verifier, l *layer, name func(string) string) {
	a := m.Arch
	switch {
	case l.router != nil:
		v.is(name("the router"), l.router, a.Experts, a.Hidden)
		if len(l.experts) != a.Experts {
			v.fail("%s, the config has %d", name(fmt.Sprintf("%d experts", len(l.experts))), a.Experts)
		}
		if a.TopK < 1 || a.TopK > a.Experts {
			v.fail("%d experts per token of %d", a.TopK, a.Experts)
		}
		for e, x := range l.experts {
			expert := func(s string) string { return name(fmt.Sprintf("expert %d: %s", e, s)) }
			v.is(expert("down"), x.down, a.Hidden, -1)
			if x.down != nil {
				v.is(expert("gate"), x.gate, x.down.k, a.Hidden)
				v.is(expert("up"), x.up, x.down.k, a.Hidden)
			}
		}
		return
	}
	v.is(name("down"), l.down, a.Hidden, -1)
	if l.down != nil {
		v.is(name("up"), l.up, l.down.k, a.Hidden)
		if l.gate != nil {
			v.is(name("gate"), l.gate, l.down.k, a.Hidden)
		}
	}
}

// verifier remembers the first thing that is wrong.
type verifier struct{ err error }

func (v *verifier) fail(format string, args ...any) {
	if v.err == nil {
		v.err = fmt.Errorf("runtime: "+format, args...)
	}
}

// is demands a matrix of n rows and k columns; -1 allows any number.
func (v *verifier) is(name string, x *matrix, n, k int) {
	switch {
	case x == nil:
		v.fail("%s is missing", name)
	case n >= 0 && x.n != n, k >= 0 && x.k != k:
		v.fail("%s is [%d,%d], the model needs [%d,%d]", name, x.n, x.k, n, k)
	}
}
