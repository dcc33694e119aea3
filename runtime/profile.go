package runtime

import (
	"slices"
	"time"
)

// op is a kind of operation of a step.
type op uint8

const (
	opOther op = iota
	opEmbed
	opNorm
	opQKV
	opAttention
	opO
	opGateUp
	opDown
	opRouter
	opExperts
	opHead
	opWait // for other threads
	ops
)

var opNames = [ops]string{"other", "embed", "norm", "q, k, v", "attention", "o", "gate, up", "down", "router", "experts", "head", "wait"}

// stopwatch divides a thread's time among operations.
type stopwatch struct {
	on    bool
	last  time.Time
	spent [ops]time.Duration
}

// lap puts the time since the last lap on an operation's account.
func (s *stopwatch) lap(o op) {
	if s.on {
		s.lapAt(o, time.Now())
	}
}

func (s *stopwatch) lapAt(o op, now time.Time) {
	s.spent[o] += now.Sub(s.last)
	s.last = now
}

// OpTime is the time that an operation took, the mean of the threads.
type OpTime struct {
	Name string
	Time time.Duration
}

// Profile is what the steps since StartProfile spent their time on.
type Profile struct {
	Steps int
	Wall  time.Duration // of the steps, from the first thread's start to the last one's end
	Ops   []OpTime      // longest first; what took no time is left out
}

// StartProfile begins to measure the operations of every step. It costs a few microseconds a layer.
func (m *Model) StartProfile() { m.profile = &Profile{} }

// StopProfile ends the measurement and returns it.
func (m *Model) StopProfile() Profile {
	p := m.profile
	m.profile = nil
	if p == nil || m.state == nil {
		return Profile{}
	}
	for o := range ops {
		var sum time.Duration
		for _, w := range m.state.walkers {
			sum += w.clock.spent[o]
		}
		if sum > 0 {
			p.Ops = append(p.Ops, OpTime{opNames[o], sum / time.Duration(len(m.state.walkers))})
		}
	}
	for _, w := range m.state.walkers {
		w.clock.spent = [ops]time.Duration{}
	}
	slices.SortStableFunc(p.Ops, func(a, b OpTime) int { return int(b.Time - a.Time) })
	return *p
}

// measure runs a step and accounts for all of its time: a thread that has not begun, or is done, waits.
func (s *state) measure(p *Profile) {
	start := time.Now()
	for _, w := range s.walkers {
		w.clock.on, w.clock.last = true, start
	}
	s.m.team.run(s.step)
	end := time.Now()
	for _, w := range s.walkers {
		w.clock.lapAt(opWait, end)
		w.clock.on = false
	}
	p.Wall += end.Sub(start)
	p.Steps++
}

// StepBytes returns the bytes that one token reads when depth others came before it: matrices, of a mixture those of
// its chosen experts, one row of an embedding that is no head, and keys and values.
func (m *Model) StepBytes(depth int, kv KV) int64 {
	var n int64
	m.perToken(func(x *matrix) { n += x.bytes() })
	if m.embed != m.head {
		n += m.embed.bytes() / int64(m.embed.n)
	}
	for i := range m.layers {
		seen := depth
		if w := m.layers[i].Window; w > 0 {
			seen = min(seen, w)
		}
		n += 2 * int64(seen) * int64(m.Arch.KVHeads) * int64(kv.bytes(m.Arch.HeadDim))
	}
	return n
}

// StepMACs returns the multiply-adds of one token in all matrices, without attention.
func (m *Model) StepMACs() int64 {
	var n int64
	m.perToken(func(x *matrix) { n += int64(x.n) * int64(x.k) })
	return n
}

// perToken calls f with every matrix that multiplies a token; experts count as if all were of the size of the first.
func (m *Model) perToken(f func(x *matrix)) {
	f(m.head)
	for i := range m.layers {
		l := &m.layers[i]
		for _, x := range []*matrix{l.q, l.k, l.v, l.headGate, l.o, l.gate, l.up, l.down, l.router} {
			if x != nil {
				f(x)
			}
		}
		for range min(m.Arch.TopK, len(l.experts)) {
			f(l.experts[0].gate)
			f(l.experts[0].up)
			f(l.experts[0].down)
		}
	}
}
