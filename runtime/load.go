package runtime

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"nibble/hf"
	"nibble/internal/parallel"
	"nibble/quant"
)

// job is matrices to read: one, or gate and up that share panels.
type job struct {
	role    hf.Role // of the first
	sources []*source
	places  []func() **matrix
}

// load reads all weights and starts the threads.
func (m *Model) load(l *reader) error {
	if err := m.readVectors(l); err != nil {
		return err
	}
	if err := m.readMatrices(l, l.b.Tensors); err != nil {
		return err
	}
	if m.head == nil {
		m.head = m.embed
	}
	if err := m.verify(); err != nil {
		return err
	}
	var err error
	m.team, err = newTeam(l.threads, l.cpus)
	return err
}

// readVectors reads the norms, and refuses what no layer has a place for.
func (m *Model) readVectors(l *reader) error {
	for i := range l.b.Tensors {
		t := &l.b.Tensors[i]
		if t.Role == hf.Other && strings.HasSuffix(t.Name, ".sinks") {
			return fmt.Errorf("runtime: %s: attention sinks are not supported", t.Name)
		}
		if m.norm(t) != nil {
			if err := m.readNorm(l, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// readMatrices reads the matrices among some rows of the table, and their biases.
func (m *Model) readMatrices(l *reader, tensors []hf.Tensor) (err error) {
	var jobs []job
	for i := range tensors {
		t := &tensors[i]
		if t.Role == hf.Bias || t.Role == hf.Buffer || t.Role == hf.Other || m.norm(t) != nil {
			continue
		}
		if jobs, err = m.plan(l, jobs, t); err != nil {
			return err
		}
	}
	defer quant.KeepBuffers()()
	if err := parallel.Each(context.Background(), len(jobs), l.threads, func(i int) error { return l.lay(jobs[i].sources...) }); err != nil {
		return err
	}
	for _, j := range jobs {
		for i, s := range j.sources {
			*j.places[i]() = s.matrix
		}
	}
	for i := range tensors {
		if tensors[i].Role == hf.Bias {
			if err := m.readBias(l, &tensors[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// plan adds the matrices of a tensor to the jobs. An up that is kept like the gate before it joins its panels.
func (m *Model) plan(l *reader, jobs []job, t *hf.Tensor) ([]job, error) {
	parts, err := m.parts(t)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		s, err := l.open(t, p.row, p.n, m.multiplied(l, t))
		if err != nil {
			return nil, err
		}
		if len(jobs) > 0 && p.role == hf.Up {
			j := &jobs[len(jobs)-1]
			if j.role == hf.Gate && j.sources[0].twins(s) {
				j.sources, j.places = append(j.sources, s), append(j.places, p.place)
				continue
			}
		}
		jobs = append(jobs, job{p.role, []*source{s}, []func() **matrix{p.place}})
	}
	return jobs, nil
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
	role   hf.Role
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
			{hf.Q, func() **matrix { return &l.q }, 0, q},
			{hf.K, func() **matrix { return &l.k }, q, kv},
			{hf.V, func() **matrix { return &l.v }, q + kv, kv},
		}
	case hf.GateUp:
		l, f := &m.layers[t.Layer], t.Out()/2
		list = []part{
			{hf.Gate, func() **matrix { return &l.gate }, 0, f},
			{hf.Up, func() **matrix { return &l.up }, f, f},
		}
	default:
		return []part{{t.Role, func() **matrix { return m.place(t) }, 0, t.Out()}}, nil
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
