package block

import "math"

// ranges searches blocks of sub-blocks with a scale and a minimum each: w ≈ d·sc·q − dmin·mn (Q2_K, Q4_K, Q5_K).
type ranges struct {
	size    int       // weights of a sub-block
	values  grid      // the codes, from 0 on
	top     float64   // the largest sc and mn
	factors []float64 // of the ends of a sub-block's range
	starts  []float64 // parts of the range of sc and mn that a first d and dmin make use of

	n      int // sub-blocks
	groups [16]group
	sums   [16]sums // of the integers chosen last
	best   choice
}

// choice is the scales of a block and its loss.
type choice struct {
	d, dmin float64 // float16 values
	sc, mn  [16]float64
	loss    float64
}

// search sets best for 256 weights.
func (r *ranges) search(w, c []float32) {
	r.n = 256 / r.size
	scale, floor := 0.0, 0.0
	for j := range r.n {
		g := &r.groups[j]
		var cj []float32
		if c != nil {
			cj = c[j*r.size:][:r.size]
		}
		g.load(&r.values, w[j*r.size:][:r.size], cj)
		g.fitLine(r.values.hi, r.factors, positive)
		scale, floor = max(scale, g.scale), max(floor, g.floor)
	}
	r.best.loss = math.Inf(1)
	for _, p := range r.starts {
		for _, q := range r.starts {
			x := choice{d: roundScale(scale / (p * r.top)), dmin: roundScale(floor / (q * r.top))}
			for j := range r.n {
				x.sc[j] = r.share(r.groups[j].scale, x.d)
				x.mn[j] = r.share(r.groups[j].floor, x.dmin)
			}
			r.improve(&x)
			if floor == 0 {
				break
			}
		}
	}
	x := r.best
	x.loss = 0
	for j := range r.n {
		x.loss += r.neighbours(&x, j)
	}
	if x.loss < r.best.loss {
		r.best = x
	}
}

// neighbours sets the best of nine pairs of integers of sub-block j, and returns its loss.
func (r *ranges) neighbours(x *choice, j int) float64 {
	g := &r.groups[j]
	sc, mn := x.sc[j], x.mn[j]
	least := 0.0 // of zeros
	x.sc[j], x.mn[j] = 0, 0
	better := func(t *sums, s, m float64) {
		if loss := t.loss(g, x.d*s, x.dmin*m); loss < least {
			least, x.sc[j], x.mn[j] = loss, s, m
		}
	}
	for s := max(sc-1, 0); s <= min(sc+1, r.top); s++ {
		first, last := max(mn-1, 0), min(mn+1, r.top)
		t := &g.tries
		for m := first; m <= last && s > 0; m++ {
			t.add(x.d*s, x.dmin*m)
		}
		list := t.empty(g)
		for m := first; m <= last; m++ {
			if s > 0 {
				better(&list[int(m-first)], s, m)
			} else {
				better(&sums{}, s, m)
			}
		}
	}
	return least
}

// share returns the integer nearest to x/d among those of a scale.
func (r *ranges) share(x, d float64) float64 {
	if d == 0 {
		return 0
	}
	return min(max(math.RoundToEven(x/d), 0), r.top)
}

// improve looks for better integers and fits d and dmin to the integers and codes, in turns.
func (r *ranges) improve(x *choice) {
	for range 3 {
		x.loss = 0
		for j := range r.n {
			x.loss += r.integers(x, j)
		}
		if !(x.loss < r.best.loss) {
			return
		}
		r.best = *x
		if !r.refit(x) {
			return
		}
	}
}

// integers sets sc and mn of sub-block j, and returns the loss. Candidates for sc are the old one and its neighbours; the
// codes are those of the old mn, and the new mn is the best for them.
func (r *ranges) integers(x *choice, j int) float64 {
	g := &r.groups[j]
	sc, mn := x.sc[j], x.mn[j]
	least := 0.0 // of zeros
	x.sc[j], x.mn[j], r.sums[j] = 0, 0, sums{}
	near := &g.tries
	first := max(sc-1, 1)
	for s := first; s <= min(sc+1, r.top); s++ {
		near.add(x.d*s, x.dmin*mn)
	}
	for i, t := range near.empty(g) {
		s := first + float64(i)
		scale := x.d * s
		m := r.share((float64(scale*t.q)-g.sumCW)/g.sumC, x.dmin)
		if loss := t.loss(g, scale, x.dmin*m); loss < least {
			least, x.sc[j], x.mn[j], r.sums[j] = loss, s, m, t
		}
	}
	if m := r.share(-g.sumCW/g.sumC, x.dmin); m > 0 {
		t := sums{}
		if loss := t.loss(g, 0, x.dmin*m); loss < least {
			least, x.sc[j], x.mn[j], r.sums[j] = loss, 0, m, t
		}
	}
	return least
}

// refit sets d and dmin to the least squares for the integers and the codes, and reports a change.
func (r *ranges) refit(x *choice) bool {
	var ss, sm, mm, sw, mw float64 // sums over the weights of c times s², s·m, m², s·w, m·w, where s is sc·q and m is −mn
	for j := range r.n {
		g, t := &r.groups[j], &r.sums[j]
		s, m := x.sc[j], x.mn[j]
		ss += float64(s * s * t.qq)
		sm -= float64(s * m * t.q)
		mm += float64(m * m * g.sumC)
		sw += float64(s * t.qw)
		mw -= float64(m * g.sumCW)
	}
	d, dmin := 0.0, x.dmin
	if det := float64(ss*mm) - float64(sm*sm); det > 1e-7*ss*mm {
		d = (float64(mm*sw) - float64(sm*mw)) / det
		dmin = (float64(ss*mw) - float64(sm*sw)) / det
	} else if ss > 0 {
		d = sw / ss
	}
	if d <= 0 || dmin < 0 {
		return false
	}
	d, dmin = roundScale(d), roundScale(dmin)
	changed := d != x.d || dmin != x.dmin
	x.d, x.dmin = d, dmin
	return changed
}

// codes sets the codes of the best choice, as the decoder's arithmetic asks for.
func (r *ranges) codes(q *[256]uint8) {
	for j := range r.n {
		scale := float64(float32(r.best.d) * float32(r.best.sc[j]))
		floor := float64(float32(r.best.dmin) * float32(r.best.mn[j]))
		r.groups[j].codes(q[j*r.size:][:r.size], scale, floor)
	}
}

var (
	rangesQ2_K = ranges{size: 16, values: grid{0, 3}, top: 15,
		factors: []float64{1, .85, .7}, starts: []float64{1, .9}}
	rangesQ4_K = ranges{size: 32, values: grid{0, 15}, top: 63,
		factors: []float64{1, .93, .86}, starts: []float64{1}}
	rangesQ5_K = ranges{size: 32, values: grid{0, 31}, top: 63,
		factors: []float64{1, .95}, starts: []float64{1}}
)

func encodeQ2_K(dst []byte, src, weights []float32) {
	r := rangesQ2_K
	var q [256]uint8
	for ; len(src) > 0; dst, src = dst[84:], src[256:] {
		r.search(src[:256], weights)
		r.codes(&q)
		for j := range 16 {
			dst[j] = uint8(r.best.sc[j]) | uint8(r.best.mn[j])<<4
		}
		joinPairs(dst[16:80], q[:])
		putF16(dst[80:], float32(r.best.d))
		putF16(dst[82:], float32(r.best.dmin))
		weights = after(weights)
	}
}

func encodeQ4_K(dst []byte, src, weights []float32) {
	r := rangesQ4_K
	var q [256]uint8
	for ; len(src) > 0; dst, src = dst[144:], src[256:] {
		r.search(src[:256], weights)
		r.codes(&q)
		r.header(dst)
		joinRuns(dst[16:], q[:])
		weights = after(weights)
	}
}

func encodeQ5_K(dst []byte, src, weights []float32) {
	r := rangesQ5_K
	var q [256]uint8
	for ; len(src) > 0; dst, src = dst[176:], src[256:] {
		r.search(src[:256], weights)
		r.codes(&q)
		r.header(dst)
		joinQ5_K(dst, q[:])
		weights = after(weights)
	}
}

// header stores d, dmin and the 12 bytes of scales of Q4_K and Q5_K.
func (r *ranges) header(dst []byte) {
	putF16(dst, float32(r.best.d))
	putF16(dst[2:], float32(r.best.dmin))
	p := dst[4:16]
	clear(p)
	for j := range 8 {
		sc, mn := uint8(r.best.sc[j]), uint8(r.best.mn[j])
		if j < 4 {
			p[j], p[j+4] = sc, mn
			continue
		}
		p[j+4] = sc&15 | mn<<4
		p[j-4] |= sc >> 4 << 6
		p[j] |= mn >> 4 << 6
	}
}
