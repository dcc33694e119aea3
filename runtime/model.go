package runtime

import (
	"errors"
	"fmt"
	"slices"
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

// Load reads the weights of a build into memory of its own; the build may be closed then. A build with defects, without a tensor that its
// architecture has, or of an architecture that cannot run is an error. The caller closes the model.
func Load(b *build.Build, c Config) (*Model, error) {
	m, err := newModel(b, c.Mode)
	if err != nil {
		return nil, err
	}
	if len(b.Defects) > 0 {
		return nil, b.Defects[0]
	}
	l := &reader{b: b, m: m, threads: max(c.Threads, 1), cpus: c.CPUs}
	if err := m.load(l); err != nil {
		m.weights.close()
		return nil, err
	}
	m.divide(l.threads)
	return m, nil
}

// newModel returns a model without weights, if it can run.
func newModel(b *build.Build, mode Mode) (*Model, error) {
	switch {
	case b.Arch.Name == "generic":
		return nil, errors.New("runtime: a model without an architecture's table cannot run")
	case b.Arch.Refused != nil:
		return nil, b.Arch.Refused
	case len(b.Missing) > 0:
		return nil, fmt.Errorf("runtime: %s: %s is missing", b.In(b.Folder.Weights), b.Missing[0])
	}
	m := &Model{Arch: b.Arch, Mode: mode, layers: make([]layer, b.Arch.Layers), ropes: b.Arch.Ropes()}
	for i := range m.layers {
		m.layers[i].Block, m.layers[i].rope = b.Arch.Blocks[i], slices.Index(m.ropes, b.Arch.Blocks[i].Rope)
	}
	return m, nil
}

// divide makes the groups of matrices.
func (m *Model) divide(threads int) {
	m.logits = newGroup(m.Mode, threads, m.head)
	for i := range m.layers {
		m.divideLayer(&m.layers[i], threads)
	}
}

// divideLayer makes the groups of a layer.
func (m *Model) divideLayer(l *layer, threads int) {
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
	l.attention, l.output = of(l.q, l.k, l.v, l.headGate), of(l.o)
	if l.router == nil {
		l.expand, l.contract = expand(l.gate, l.up), of(l.down)
		return
	}
	l.route = of(l.router)
	for e := range l.experts {
		x := &l.experts[e]
		x.expand, x.contract = expand(x.gate, x.up), of(x.down)
	}
}

// Close ends the model's threads and gives the memory of its weights back. Closing again does nothing; a closed model runs
// no more.
func (m *Model) Close() {
	m.running.Store(true)
	m.team.close()
	m.weights.close()
}

// Width is the number of logits of a token.
func (m *Model) Width() int { return m.head.n }

// Threads is the number of threads of a step.
func (m *Model) Threads() int { return m.team.size }

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
