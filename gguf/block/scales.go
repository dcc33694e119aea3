package block

import (
	"encoding/binary"
	"math"
)

// scales searches blocks of sub-blocks with a signed scale each: w ≈ d·sc·q (Q3_K, Q6_K, IQ4_XS).
type scales struct {
	size   int       // weights of a sub-block
	values grid      // what the codes stand for
	top    float64   // sc is from −top to top − 1
	reach  []float64 // values on which the extreme weight of a sub-block is put
	starts []float64 // values of sc on which the extreme scale of a block is put

	n      int // sub-blocks
	groups [16]group
	best   choice
}

// search sets best for 256 weights.
func (r *scales) search(w, c []float32) {
	r.n = 256 / r.size
	extreme := 0.0
	for j := range r.n {
		g := &r.groups[j]
		var cj []float32
		if c != nil {
			cj = c[j*r.size:][:r.size]
		}
		g.load(&r.values, w[j*r.size:][:r.size], cj)
		g.fitScale(r.reach)
		if math.Abs(g.scale) > math.Abs(extreme) {
			extreme = g.scale
		}
	}
	r.best.loss = math.Inf(1)
	for _, start := range r.starts {
		x := choice{d: roundScale(extreme / start)}
		for j := range r.n {
			if x.d != 0 {
				x.sc[j] = min(max(math.RoundToEven(r.groups[j].scale/x.d), -r.top), r.top-1)
			}
		}
		r.improve(&x)
	}
}

// improve looks for better integers and fits d to the integers and codes, in turns.
func (r *scales) improve(x *choice) {
	for range 4 {
		x.loss = 0
		var ss, sw float64 // Σc·(sc·q)² and Σc·(sc·q)·w
		for j := range r.n {
			loss, t := r.integer(x, j)
			x.loss += loss
			s := x.sc[j]
			ss += float64(s * s * t.qq)
			sw += float64(s * t.qw)
		}
		if !(x.loss < r.best.loss) {
			return
		}
		r.best = *x
		if ss == 0 || sw == 0 {
			return
		}
		d := roundScale(sw / ss)
		if d == x.d {
			return
		}
		x.d = d
	}
}

// integer sets sc of sub-block j to 0, the old one or a neighbour, and returns the loss and the sums.
func (r *scales) integer(x *choice, j int) (least float64, sums sums) {
	sc := x.sc[j]
	x.sc[j] = 0
	near := &r.groups[j].tries
	var list [3]float64
	for s := max(sc-1, -r.top); s <= min(sc+1, r.top-1); s++ {
		if s != 0 {
			list[near.n] = s
			near.add(x.d*s, 0)
		}
	}
	for i, t := range near.empty(&r.groups[j]) {
		s := list[i]
		if loss := t.loss(&r.groups[j], x.d*s, 0); loss < least {
			least, sums, x.sc[j] = loss, t, s
		}
	}
	return least, sums
}

// codes sets the codes of the best choice, as the decoder's arithmetic asks for.
func (r *scales) codes(q *[256]uint8) {
	for j := range r.n {
		scale := float64(float32(r.best.d) * float32(r.best.sc[j]))
		r.groups[j].codes(q[j*r.size:][:r.size], scale, 0)
	}
}

var (
	scalesQ3_K = scales{size: 16, values: grid{-4, 3}, top: 32,
		reach:  []float64{-2.8, -3.2, -3.6, -4, -4.5, 2.8, 3.2, 3.6, 4, 4.5},
		starts: []float64{-32, 31}}
	scalesQ6_K = scales{size: 16, values: grid{-32, 31}, top: 128,
		reach:  []float64{-31, -31.5, -32, -32.5, -33, 30, 30.5, 31, 31.5, 32},
		starts: []float64{-128}}
	scalesIQ4_XS = scales{size: 32, top: 32,
		reach:  []float64{-150, -140, -135, -130, -127, -122, -116, 150, 140, 130, 122, 117, 113, 107, 101},
		starts: []float64{-32, 31}}
)

func encodeQ3_K(dst []byte, src, weights []float32) {
	r := scalesQ3_K
	var q [256]uint8
	for ; len(src) > 0; dst, src = dst[110:], src[256:] {
		r.search(src[:256], weights)
		r.codes(&q)
		joinQ3_K(dst, q[:])
		p := dst[96:108]
		clear(p)
		for j := range 16 {
			s := uint8(int(r.best.sc[j]) + 32)
			p[j%8] |= s & 15 << (j / 8 * 4)
			p[8+j%4] |= s >> 4 << (j / 4 * 2)
		}
		putF16(dst[108:], float32(r.best.d))
		weights = after(weights)
	}
}

func encodeQ6_K(dst []byte, src, weights []float32) {
	r := scalesQ6_K
	var q [256]uint8
	for ; len(src) > 0; dst, src = dst[210:], src[256:] {
		r.search(src[:256], weights)
		r.codes(&q)
		joinQ6_K(dst, q[:])
		for j := range 16 {
			dst[192+j] = uint8(int8(r.best.sc[j]))
		}
		putF16(dst[208:], float32(r.best.d))
		weights = after(weights)
	}
}

func encodeIQ4_XS(dst []byte, src, weights []float32) {
	r := scalesIQ4_XS
	var q [256]uint8
	for ; len(src) > 0; dst, src = dst[136:], src[256:] {
		r.search(src[:256], weights)
		r.codes(&q)
		putF16(dst, float32(r.best.d))
		high := uint16(0)
		clear(dst[4:8])
		for j := range 8 {
			s := uint8(int(r.best.sc[j]) + 32)
			dst[4+j/2] |= s & 15 << (j % 2 * 4)
			high |= uint16(s>>4) << (2 * j)
			joinHalves(dst[8+16*j:][:16], q[32*j:])
		}
		binary.LittleEndian.PutUint16(dst[2:], high)
		weights = after(weights)
	}
}
