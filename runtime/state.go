package runtime

import (
	"errors"
	"fmt"
	"math"

	"nibble/internal/kernel"
	"nibble/quant"
)

// state is what the threads share during a step: the tokens of a chunk and their activations, n rows each.
type state struct {
	m       *Model
	walkers []*walker
	step    func(tid int)

	n     int
	slots []slot

	x, norm, out []float32 // [n, hidden]
	q, att       []float32 // [n, heads·head_dim]
	k, v         []float32 // [n, kv heads·head_dim]
	keys, values []byte    // the same as the cache will hold them, stride bytes a token
	stride       int
	gates        []float32   // [n, heads]
	gate, up     []float32   // [n, MLP]
	logits       []float32   // [wanted tokens, vocab]
	cos, sin     [][]float32 // of every rope: [n, pairs]
	acts         *acts
	moe          routing
}

// slot is one token of a chunk.
type slot struct {
	session *Session
	id      int32
	pos     int
	first   int // slot of the first token of its session in the chunk
	base    int // tokens of the session before the chunk
	total   int // length of the sequence after the call
	input   int // number of its input
	index   int // of the token in its input
	logit   int // row of its logits; -1: not wanted
}

// walker is one thread's part in a step, with buffers of its own.
type walker struct {
	s        *state
	m        *Model
	team     *team
	tid      int
	solo     bool           // the step has one token: every thread has its residual stream, and prepares its inputs, itself
	x, norm  []float32      // [hidden], of a single token
	acts     *acts          // of a single token
	product  kernel.Product // with room for the results of a chunk
	unpacked []byte         // a panel of codes in another form
	wide     []float32      // the rows of a panel, for the reference
	row      []float32      // one row of weights
	codes    []uint8        // its codes
	whole    []int8         // one row of inputs
	att      attending
	mass     []float32 // attention that every position of the sequence receives, to be added up; nil in a forward pass
	angle    []angle   // of every rope
	clock    stopwatch
}

// angle holds the frequencies of a rope for sequences of some length.
type angle struct {
	length int // 0: none yet
	freq   []float32
	factor float32
}

func newState(m *Model, team *team) *state {
	a := m.Arch
	s := &state{m: m, slots: make([]slot, 0, chunk)}
	q, kv := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
	mlp, widest, padded, wide := 0, a.Hidden, 0, 0
	m.matrices(func(x *matrix) {
		widest = max(widest, x.k)
		if x.cols != nil {
			padded, wide = max(padded, x.cols.padded), max(wide, x.wideBytes())
		}
	})
	for i := range m.layers {
		l := &m.layers[i]
		if l.down != nil {
			mlp = max(mlp, l.down.k)
		}
		for _, e := range l.experts {
			mlp = max(mlp, e.down.k)
		}
	}
	rows := func(width int) []float32 { return make([]float32, chunk*width) }
	s.x, s.norm, s.out = rows(a.Hidden), rows(a.Hidden), rows(a.Hidden)
	s.q, s.att, s.k, s.v, s.gates = rows(q), rows(q), rows(kv), rows(kv), rows(a.Heads)
	s.gate, s.up = rows(mlp), rows(mlp)
	s.stride = 4 * (kv + a.KVHeads) // room for any type of cache
	s.keys, s.values = make([]byte, chunk*s.stride), make([]byte, chunk*s.stride)
	s.cos, s.sin = make([][]float32, len(m.ropes)), make([][]float32, len(m.ropes))
	for i, r := range m.ropes {
		s.cos[i], s.sin[i] = rows(r.Dim/2), rows(r.Dim/2)
	}
	s.acts = newActs(m.Mode, chunk, m.matrices)
	if a.Experts > 0 {
		s.moe = newRouting(a, mlp)
	}
	for tid := range team.size {
		w := &walker{s: s, m: m, team: team, tid: tid, x: make([]float32, a.Hidden), norm: make([]float32, a.Hidden),
			acts: newActs(m.Mode, 1, m.matrices), unpacked: make([]byte, wide), row: make([]float32, widest),
			codes: make([]uint8, max(widest, padded)), angle: make([]angle, len(m.ropes))}
		w.product.Y = make([]float32, (chunk+kernel.MostTokens)*kernel.PanelRows)
		if m.Mode == F32 {
			w.wide = make([]float32, kernel.PanelRows*(widest+widePad))
		}
		if m.Mode == A8Row {
			w.whole = make([]int8, widest)
		}
		s.walkers = append(s.walkers, w)
	}
	s.step = func(tid int) { s.walkers[tid].walk() }
	return s
}

// ErrNonFinite marks a forward pass whose logits are not numbers.
var ErrNonFinite = errors.New("the model cannot be run")

// begin starts a call.
func (s *state) begin() { s.n, s.slots = 0, s.slots[:0] }

// push adds a token to the chunk and to its session.
func (s *state) push(session *Session, id int32, total, input, index int, want bool) {
	x := slot{session: session, id: id, pos: len(session.tokens), first: s.n, base: len(session.tokens), total: total,
		input: input, index: index, logit: -1}
	if s.n > 0 && s.slots[s.n-1].session == session {
		x.first, x.base = s.slots[s.n-1].first, s.slots[s.n-1].base
	}
	if want {
		x.logit = 0
		for i := s.n - 1; i >= 0; i-- {
			if s.slots[i].logit >= 0 {
				x.logit = s.slots[i].logit + 1
				break
			}
		}
	}
	session.tokens = append(session.tokens, id)
	s.slots = append(s.slots, x)
	s.n++
}

// run walks the chunk through the layers and hands out logits.
func (s *state) run(emit Emit) error {
	if s.n == 0 {
		return nil
	}
	wanted := 0
	for i := range s.slots {
		if s.slots[i].logit >= 0 {
			wanted++
		}
	}
	if need := wanted * s.m.head.n; len(s.logits) < need {
		s.logits = make([]float32, need)
	}
	if s.m.profile != nil {
		s.measure(s.m.profile)
	} else {
		s.m.team.run(s.step)
	}
	for i := range s.slots {
		x := &s.slots[i]
		if x.logit < 0 || emit == nil {
			continue
		}
		logits := s.logits[x.logit*s.m.head.n : (x.logit+1)*s.m.head.n]
		if at := quant.NonFinite(logits); at >= 0 {
			return fmt.Errorf("runtime: logit %d of the token at position %d is %v: weights or config make a number that is not finite: %w",
				at, x.pos, logits[at], ErrNonFinite)
		}
		emit(x.input, x.index, logits)
	}
	s.begin()
	return nil
}

// walk is a step for one thread.
func (w *walker) walk() {
	w.clock.lap(opWait)
	w.solo = w.s.n == 1
	w.embed()
	w.angles()
	w.sync(opEmbed)
	for i := range w.m.layers {
		w.layerStep(&w.m.layers[i], i)
	}
	w.output()
	w.sync(opHead)
}

// sync waits for the other threads; the time since the last sync was spent on an operation.
func (w *walker) sync(o op) {
	w.clock.lap(o)
	w.team.barrier()
	w.clock.lap(opWait)
}

// mine returns the tokens of which this thread has the residual stream, and the stream.
func (w *walker) mine() (lo, hi int, x, norm []float32) {
	if w.solo {
		return 0, 1, w.x, w.norm
	}
	lo, hi = w.team.share(w.tid, w.s.n, 1)
	return lo, hi, w.s.x, w.s.norm
}

// embed fills the residual stream.
func (w *walker) embed() {
	s, a := w.s, w.m.Arch
	lo, hi, stream, _ := w.mine()
	for t := lo; t < hi; t++ {
		x := stream[t*a.Hidden : (t+1)*a.Hidden]
		w.m.embed.natural(x, w.row, w.codes, int(s.slots[t].id))
		if a.EmbedScale != 1 {
			kernel.Scale(x, a.EmbedScale)
		}
		if w.m.positions != nil {
			w.m.positions.row(w.row, nil, s.slots[t].pos)
			kernel.Axpy(x, 1, w.row[:a.Hidden])
		}
	}
}

// angles fills cosines and sines of the tokens.
func (w *walker) angles() {
	s := w.s
	lo, hi := w.team.share(w.tid, s.n, 1)
	for r, rope := range w.m.ropes {
		pairs := rope.Dim / 2
		have := &w.angle[r]
		for t := lo; t < hi; t++ {
			x := &s.slots[t]
			if have.length == 0 || !rope.Same(have.length, x.total) {
				have.freq, have.factor = rope.InvFreq(x.total)
				have.length = x.total
			}
			for j, f := range have.freq {
				sin, cos := math.Sincos(float64(x.pos) * float64(f))
				s.cos[r][t*pairs+j] = float32(cos) * have.factor
				s.sin[r][t*pairs+j] = float32(sin) * have.factor
			}
		}
	}
}

// output computes the logits of the tokens for which they are wanted.
func (w *walker) output() {
	s, a := w.s, w.m.Arch
	_, _, stream, norm := w.mine()
	if !w.solo {
		w.sync(opNorm) // the rows of other threads
	}
	rows := 0
	for t := range s.n {
		if s.slots[t].logit < 0 {
			continue
		}
		// Rows of wanted tokens move to the front: norm has room for them.
		if w.solo || rows%w.team.size == w.tid {
			w.apply(norm[rows*a.Hidden:(rows+1)*a.Hidden], stream[t*a.Hidden:(t+1)*a.Hidden], &w.m.final)
		}
		rows++
	}
	if rows == 0 {
		return
	}
	if !w.solo {
		w.sync(opNorm)
	}
	vocab := w.m.head.n
	w.multiply(w.m.logits, norm, rows, w.solo, target{s.logits, vocab})
	if a.LogitScale == 1 && a.FinalSoftcap == 0 {
		return
	}
	w.sync(opHead)
	lo, hi := w.team.share(w.tid, rows*vocab, 1)
	logits := s.logits[lo:hi]
	if a.LogitScale != 1 {
		kernel.Scale(logits, a.LogitScale)
	}
	if a.FinalSoftcap != 0 {
		kernel.Softcaps(logits, a.FinalSoftcap)
	}
}
