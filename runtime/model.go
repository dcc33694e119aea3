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
	ropes     []*hf.Rope // the different ones
	cuts      [][]block  // the different divisions of columns into blocks
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
	q, k, v                            *matrix
	qkv                                *matrix // rows q, k, v
	headGate                           *matrix // [heads, hidden]
	o                                  *matrix
	gate, up                           *matrix // gate is nil in an MLP without one
	gateUp                             *matrix // rows gate, up
	down                               *matrix
	router                             *matrix // [experts, hidden]
	experts                            []expert
}

// expert is one MLP of a mixture.
type expert struct{ gate, up, down *matrix }

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
	for i := range b.Tensors {
		if err := m.load(b, &b.Tensors[i]); err != nil {
			return nil, err
		}
	}
	if m.head == nil {
		m.head = m.embed
	}
	if err := m.verify(); err != nil {
		return nil, err
	}
	m.matrices(func(x *matrix) {
		if x.q != nil {
			x.q.cuts = m.cut(x.q.blocks)
		}
	})
	var err error
	if m.team, err = newTeam(max(c.Threads, 1), c.CPUs); err != nil {
		return nil, err
	}
	return m, nil
}

// Close ends the model's threads. Closing again does nothing; a closed model runs no more.
func (m *Model) Close() {
	m.running.Store(true)
	m.team.close()
}

// cut returns the number of a division into blocks: the same for all that have the same columns.
func (m *Model) cut(blocks []block) int {
	same := func(a, b block) bool { return a.lo == b.lo && a.hi == b.hi }
	for i, have := range m.cuts {
		if slices.EqualFunc(have, blocks, same) {
			return i
		}
	}
	m.cuts = append(m.cuts, blocks)
	return len(m.cuts) - 1
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

// load puts one tensor in its place.
func (m *Model) load(b *build.Build, t *hf.Tensor) error {
	switch t.Role {
	case hf.Buffer:
		return nil
	case hf.Other:
		if strings.HasSuffix(t.Name, ".sinks") {
			return fmt.Errorf("runtime: %s: attention sinks are not supported", t.Name)
		}
		return nil
	case hf.Bias:
		return m.loadBias(b, t)
	}
	if n := m.norm(t); n != nil {
		v, err := loadVector(b, t)
		if strings.HasSuffix(t.Name, ".bias") {
			n.bias = v
		} else {
			n.weight = v
		}
		return err
	}
	x, err := loadMatrix(b, t)
	if err != nil {
		return err
	}
	*m.place(t) = x
	return nil
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
	case hf.QKV:
		return &l.qkv
	case hf.HeadGate:
		return &l.headGate
	case hf.O:
		return &l.o
	case hf.Gate:
		return &l.gate
	case hf.Up:
		return &l.up
	case hf.GateUp:
		return &l.gateUp
	case hf.Router:
		return &l.router
	}
	return &l.down
}

// loadBias reads the bias of a matrix, which stands before it in the table.
func (m *Model) loadBias(b *build.Build, t *hf.Tensor) error {
	module := strings.TrimSuffix(t.Name, ".bias")
	for i := range b.Tensors {
		x := &b.Tensors[i]
		if x.Layer != t.Layer || x.Module() != module || x.Role == hf.Bias {
			continue
		}
		v, err := loadVector(b, t)
		if err == nil {
			(*m.place(x)).bias = v
		}
		return err
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
		each(l.q, l.k, l.v, l.qkv, l.headGate, l.o, l.gate, l.up, l.gateUp, l.down, l.router)
		for _, e := range l.experts {
			each(e.gate, e.up, e.down)
		}
	}
}
