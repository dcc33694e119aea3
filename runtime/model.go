package runtime

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"nibble/build"
	"nibble/hf"
)

// Mode is how matrices are multiplied; see the package comment.
type Mode uint8

// The activation modes.
const (
	F32 Mode = iota
	A16
	A8
	A8Row
)

// Modes maps the names of the command line to modes.
var Modes = map[string]Mode{"f32": F32, "a16": A16, "a8": A8, "a8-row": A8Row}

// Model is a loaded model. It may serve one forward pass at a time.
type Model struct {
	Arch *hf.Architecture
	Mode Mode

	embed     *matrix    // [vocab, hidden]
	positions *matrix    // [positions, hidden], GPT-2; nil otherwise
	head      *matrix    // [vocab, hidden]; embed if tied
	final     norm       // before the head
	layers    []layer    // decoder
	logits    *group     // of head
	ropes     []*hf.Rope // the different ones
	columns   []*columns // the different divisions into blocks
	weights   arena
	team      *team
	state     *state
	running   atomic.Bool // a forward pass is running, or the model is closed
	calls     uint64      // of Forward
	profile   *Profile    // nil: not measured
}

// norm is the weight of a norm, and the bias of a LayerNorm.
type norm struct{ weight, bias []float32 }

// layer is a decoder block. What an architecture does not have is nil.
type layer struct {
	hf.Block
	rope                               int  // index in Model.ropes; -1: none
	attnNorm, attnOut, mlpNorm, mlpOut norm // [hidden]
	qNorm, kNorm                       norm // [head_dim], or the whole vector
	q, k, v, o                         *matrix
	headGate                           *matrix // [heads, hidden]
	gate, up, down                     *matrix // gate is nil in an MLP without one
	router                             *matrix // [experts, hidden]
	experts                            []expert

	attention *group // of q, k, v and headGate
	output    *group // of o
	route     *group // of router
	expand    *group // of gate and up
	contract  *group // of down
}

// expert is one MLP of a mixture.
type expert struct {
	gate, up, down   *matrix
	expand, contract *group
}

// Config says how a model is run.
type Config struct {
	Mode    Mode
	Threads int   // of every step; at least one
	CPUs    []int // processors to which the threads are pinned, in turn; none: where the system puts them
}

// Load reads the weights of a build.
func Load(b *build.Build, c Config) (*Model, error) {
	switch {
	case b.Arch.Name == "generic":
		return nil, errors.New("runtime: a model without an architecture's table cannot run")
	case b.Arch.Refused != nil:
		return nil, b.Arch.Refused
	case len(b.Defects) > 0:
		return nil, b.Defects[0]
	case len(b.Missing) > 0:
		return nil, fmt.Errorf("runtime: %s is missing", b.Missing[0])
	}
	m := &Model{Arch: b.Arch, Mode: c.Mode, layers: make([]layer, b.Arch.Layers)}
	for i := range m.layers {
		m.layers[i].Block = b.Arch.Blocks[i]
		m.layers[i].rope = m.ropeIndex(b.Arch.Blocks[i].Rope)
	}
	l := &reader{b: b, m: m, threads: max(c.Threads, 1), cpus: c.CPUs}
	if err := m.load(l); err != nil {
		m.weights.close()
		return nil, err
	}
	m.divide(l.threads)
	return m, nil
}

// load reads all weights and starts the threads.
func (m *Model) load(l *reader) (err error) {
	var biases []*hf.Tensor
	var jobs []job
	for i := range l.b.Tensors {
		t := &l.b.Tensors[i]
		switch {
		case t.Role == hf.Bias:
			biases = append(biases, t)
		case t.Role == hf.Other && strings.HasSuffix(t.Name, ".sinks"):
			return fmt.Errorf("runtime: %s: attention sinks are not supported", t.Name)
		case t.Role == hf.Buffer, t.Role == hf.Other:
		case m.norm(t) != nil:
			if err := m.readNorm(l, t); err != nil {
				return err
			}
		default:
			parts, err := m.parts(t)
			if err != nil {
				return err
			}
			for _, p := range parts {
				jobs = append(jobs, job{tensor: t, part: p})
			}
		}
	}
	err = l.parallel(len(jobs), func(i int) (err error) {
		j := &jobs[i]
		j.matrix, err = l.matrix(j.tensor, j.row, j.n, m.multiplied(l, j.tensor))
		return err
	})
	if err != nil {
		return err
	}
	for _, j := range jobs {
		*j.place() = j.matrix
	}
	for _, t := range biases {
		if err := m.readBias(l, t); err != nil {
			return err
		}
	}
	if m.head == nil {
		m.head = m.embed
	}
	if err := m.verify(); err != nil {
		return err
	}
	m.team, err = newTeam(l.threads, l.cpus)
	return err
}

// divide makes the groups of matrices.
func (m *Model) divide(threads int) {
	of := func(list ...*matrix) *group { return newGroup(m.Mode, threads, list...) }
	expand := func(gate, up *matrix) *group {
		if gate == nil {
			g := of(up)
			g.activated = true
			return g
		}
		if g := newGated(m.Mode, threads, gate, up); g != nil {
			return g
		}
		return of(gate, up)
	}
	m.logits = of(m.head)
	for i := range m.layers {
		l := &m.layers[i]
		l.attention, l.output = of(l.q, l.k, l.v, l.headGate), of(l.o)
		if l.router == nil {
			l.expand, l.contract = expand(l.gate, l.up), of(l.down)
			continue
		}
		l.route = of(l.router)
		for e := range l.experts {
			x := &l.experts[e]
			x.expand, x.contract = expand(x.gate, x.up), of(x.down)
		}
	}
}

// Close ends the model's threads and gives the memory of its weights back. Closing again does nothing; a closed model runs
// no more.
func (m *Model) Close() {
	m.running.Store(true)
	m.team.close()
	m.weights.close()
}

func (m *Model) ropeIndex(r *hf.Rope) int {
	if r == nil {
		return -1
	}
	for i, have := range m.ropes {
		if have == r {
			return i
		}
	}
	m.ropes = append(m.ropes, r)
	return len(m.ropes) - 1
}

// job is a matrix to read.
type job struct {
	tensor *hf.Tensor
	part
	matrix *matrix
}

// readNorm reads the weight or the bias of a norm.
func (m *Model) readNorm(l *reader, t *hf.Tensor) error {
	v, err := l.vector(t)
	if n := m.norm(t); strings.HasSuffix(t.Name, ".bias") {
		n.bias = v
	} else {
		n.weight = v
	}
	return err
}

// multiplied reports whether a matrix is kept for the kernels, and not for lookups or as the reference.
func (m *Model) multiplied(l *reader, t *hf.Tensor) bool {
	isHead := func(t hf.Tensor) bool { return t.Role == hf.Head }
	return m.Mode != F32 && t.Role != hf.Position && (t.Role != hf.Embedding || !slices.ContainsFunc(l.b.Tensors, isHead))
}

// part is rows of a tensor that are a matrix of their own.
type part struct {
	place  func() **matrix
	row, n int
}

// parts returns the matrices that a tensor is made of.
func (m *Model) parts(t *hf.Tensor) ([]part, error) {
	a := m.Arch
	var list []part
	switch t.Role {
	case hf.QKV:
		l, q, kv := &m.layers[t.Layer], a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
		list = []part{
			{func() **matrix { return &l.q }, 0, q},
			{func() **matrix { return &l.k }, q, kv},
			{func() **matrix { return &l.v }, q + kv, kv},
		}
	case hf.GateUp:
		l, f := &m.layers[t.Layer], t.Out()/2
		list = []part{{func() **matrix { return &l.gate }, 0, f}, {func() **matrix { return &l.up }, f, f}}
	default:
		return []part{{func() **matrix { return m.place(t) }, 0, t.Out()}}, nil
	}
	if last := list[len(list)-1]; last.row+last.n != t.Out() {
		what := map[hf.Role]string{hf.QKV: "q, k and v", hf.GateUp: "gate and up"}[t.Role]
		return nil, fmt.Errorf("runtime: layer %d: %s is [%d,%d], the model needs [%d,%d]", t.Layer, what, t.Out(), t.In(), last.row+last.n, a.Hidden)
	}
	return list, nil
}

// norm returns the place of a norm, nil for other roles.
func (m *Model) norm(t *hf.Tensor) *norm {
	if t.Role == hf.FinalNorm {
		return &m.final
	}
	if t.Layer < 0 {
		return nil
	}
	l := &m.layers[t.Layer]
	switch t.Role {
	case hf.AttnNorm:
		return &l.attnNorm
	case hf.AttnOutNorm:
		return &l.attnOut
	case hf.MLPNorm:
		return &l.mlpNorm
	case hf.MLPOutNorm:
		return &l.mlpOut
	case hf.QNorm:
		return &l.qNorm
	case hf.KNorm:
		return &l.kNorm
	}
	return nil
}

// place returns where a matrix belongs.
func (m *Model) place(t *hf.Tensor) **matrix {
	switch t.Role {
	case hf.Embedding:
		return &m.embed
	case hf.Position:
		return &m.positions
	case hf.Head:
		return &m.head
	}
	l := &m.layers[t.Layer]
	if t.Expert >= 0 {
		for len(l.experts) <= t.Expert {
			l.experts = append(l.experts, expert{})
		}
		e := &l.experts[t.Expert]
		switch t.Role {
		case hf.Gate:
			return &e.gate
		case hf.Up:
			return &e.up
		}
		return &e.down
	}
	switch t.Role {
	case hf.Q:
		return &l.q
	case hf.K:
		return &l.k
	case hf.V:
		return &l.v
	case hf.HeadGate:
		return &l.headGate
	case hf.O:
		return &l.o
	case hf.Gate:
		return &l.gate
	case hf.Up:
		return &l.up
	case hf.Router:
		return &l.router
	}
	return &l.down
}

// readBias reads the bias of a matrix, which stands before it in the table.
func (m *Model) readBias(l *reader, t *hf.Tensor) error {
	module := strings.TrimSuffix(t.Name, ".bias")
	for i := range l.b.Tensors {
		x := &l.b.Tensors[i]
		if x.Layer != t.Layer || x.Module() != module || x.Role == hf.Bias {
			continue
		}
		v, err := l.vector(t)
		if err != nil {
			return err
		}
		parts, err := m.parts(x)
		if err != nil {
			return err
		}
		if len(v) != x.Out() {
			return fmt.Errorf("runtime: %s has %d values, the model needs %d", t.Name, len(v), x.Out())
		}
		for _, p := range parts {
			(*p.place()).bias = v[p.row : p.row+p.n]
		}
		return nil
	}
	return fmt.Errorf("runtime: %s belongs to no matrix", t.Name)
}

// Width is the number of logits of a token.
func (m *Model) Width() int { return m.head.n }

// Bytes is the memory of the weights.
func (m *Model) Bytes() int64 {
	var n int64
	m.matrices(func(x *matrix) { n += x.bytes() })
	return n
}

// matrices calls f with every matrix, once.
func (m *Model) matrices(f func(x *matrix)) {
	each := func(list ...*matrix) {
		for _, x := range list {
			if x != nil {
				f(x)
			}
		}
	}
	each(m.embed, m.positions)
	if m.head != m.embed {
		each(m.head)
	}
	for i := range m.layers {
		l := &m.layers[i]
		each(l.q, l.k, l.v, l.headGate, l.o, l.gate, l.up, l.down, l.router)
		for _, e := range l.experts {
			each(e.gate, e.up, e.down)
		}
	}
}
