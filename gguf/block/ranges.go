package block

import "math"

// ranges searches blocks of sub-blocks with a scale and a minimum each: w ≈ d·sc·q − dmin·mn (Q2_K, Q4_K, Q5_K).
type ranges struct {
	size    int       // weights of a sub-block
	values  grid      // the codes, from 0 on
	top     float64   // the largest sc and mn
	factors []float64 // of the ends of a sub-block's range
	starts  []float64 // parts of the range of sc and mn that a first d and dmin make use of

	w     []float32
	tiles []tile   // of eight sub-blocks each
	sums  [16]sums // of the integers chosen last
	best  choice
}

// sums are Σcq, Σcq² and Σcqw of a run, in the units of its tile.
type sums struct{ q, qq, qw float64 }

// choice is the scales of a block and its loss.
type choice struct {
	d, dmin float64 // float16 values
	sc, mn  [16]float64
	loss    float64
}

// search sets best for 256 weights.
func (r *ranges) search(w, c []float32) {
	r.w = w
	r.tiles = loadBlock(r.tiles, &r.values, r.size, w, c)
	scale, floor := 0.0, 0.0
	for i := range r.tiles {
		t := &r.tiles[i]
		t.fitLine(r.values.hi, r.factors, positive)
		for l, x := range t.best {
			scale, floor = max(scale, x.scale*t.down[l]), max(floor, x.floor*t.down[l])
		}
	}
	r.best.loss = math.Inf(1)
	for _, p := range r.starts {
		for _, q := range r.starts {
			x := choice{d: roundScale(scale / (p * r.top)), dmin: roundScale(floor / (q * r.top))}
			for i := range r.tiles {
				t := &r.tiles[i]
				for l, best := range t.best {
					x.sc[8*i+l] = r.share(best.scale*t.down[l], x.d)
					x.mn[8*i+l] = r.share(best.floor*t.down[l], x.dmin)
				}
			}
			r.improve(&x)
			if floor == 0 {
				break
			}
		}
	}
	x := r.best
	x.loss = 0
	for i := range r.tiles {
		x.loss += r.neighbours(&x, i)
	}
	if x.loss < r.best.loss {
		r.best = x
	}
}

// neighbours sets the best of nine pairs of integers of the sub-blocks of tile i, and returns their loss.
func (r *ranges) neighbours(x *choice, i int) (loss float64) {
	t := &r.tiles[i]
	sc, mn := (*[8]float64)(x.sc[8*i:]), (*[8]float64)(x.mn[8*i:])
	for l, down := range t.down {
		d, dmin := x.d/down, x.dmin/down
		for k := range t.ways {
			s, m := sc[l]+pairs[k][0], mn[l]+pairs[k][1]
			if s < 0 || s > r.top || m < 0 || m > r.top {
				s = 0
			}
			t.set(k, l, d*s, dmin*m)
		}
	}
	t.run(len(t.ways), true)
	for l, down := range t.down {
		s, m := sc[l], mn[l]
		least := r.flat(t, l, x.dmin/down, &sc[l], &mn[l])
		for k := range t.ways {
			y := &t.ways[k]
			if loss := float64(float64(y.Scale[l]) * float64(y.Scale[l]) * float64(y.RR[l])); loss < least {
				least, sc[l], mn[l] = loss, s+pairs[k][0], m+pairs[k][1]
			}
		}
		loss += float64(least * down * down)
	}
	return loss
}

// pairs are what is added to sc and mn.
var pairs = [9][2]float64{{-1, -1}, {-1, 0}, {-1, 1}, {0, -1}, {0, 0}, {0, 1}, {1, -1}, {1, 0}, {1, 1}}

// flat sets sc to 0 and mn to the best for it in run l, and returns the loss.
func (r *ranges) flat(t *tile, l int, dmin float64, sc, mn *float64) float64 {
	*sc, *mn = 0, r.share(-t.sumCW[l]/t.sumC[l], dmin)
	floor := dmin * *mn
	return t.energy[l] + float64(floor*(float64(floor*t.sumC[l])+float64(2*t.sumCW[l])))
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
		for i := range r.tiles {
			x.loss += r.integers(x, i)
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

// integers sets sc and mn of the sub-blocks of tile i, and returns the loss. Candidates for sc are the old one and its neighbours; the
// codes are those of the old mn, and the new mn is the best for them.
func (r *ranges) integers(x *choice, i int) (loss float64) {
	t := &r.tiles[i]
	sc, mn := (*[8]float64)(x.sc[8*i:]), (*[8]float64)(x.mn[8*i:])
	for l, down := range t.down {
		d, floor := x.d/down, x.dmin/down*mn[l]
		for k := range 3 {
			s := sc[l] + float64(k-1)
			if s < 0 || s > r.top {
				s = 0
			}
			t.set(k, l, d*s, floor)
		}
	}
	t.run(3, true)
	for l, down := range t.down {
		s, m, dmin, sumC := sc[l], mn[l], x.dmin/down, t.sumC[l]
		least := r.flat(t, l, dmin, &sc[l], &mn[l])
		r.sums[8*i+l] = sums{}
		for k := range 3 {
			y := &t.ways[k]
			scale, q := float64(y.Scale[l]), float64(y.Q[l])
			better := r.share((float64(scale*q)-t.sumCW[l])/sumC, dmin)
			b := float64((better - m) * dmin) // w − ŵ is scale·r + b
			if loss := float64(scale*(float64(scale*float64(y.RR[l]))+float64(2*b*float64(y.R[l])))) + float64(b*b*sumC); loss < least {
				qq := float64(y.QQ[l])
				least, sc[l], mn[l] = loss, s+float64(k-1), better
				r.sums[8*i+l] = sums{q, qq, float64(scale*(qq+float64(y.QR[l]))) - float64(float64(y.Floor[l])*q)}
			}
		}
		loss += float64(least * down * down)
	}
	return loss
}

// refit sets d and dmin to the least squares for the integers and the codes, and reports a change.
func (r *ranges) refit(x *choice) bool {
	var ss, sm, mm, sw, mw float64 // sums over the weights of c times s², s·m, m², s·w, m·w, where s is sc·q and m is −mn
	for i := range r.tiles {
		for l := range 8 {
			t, y := &r.tiles[i], &r.sums[8*i+l]
			s, m := x.sc[8*i+l], x.mn[8*i+l]
			ss += float64(s * s * y.qq)
			sm -= float64(s * m * y.q)
			mm += float64(m * m * t.sumC[l])
			sw += float64(s * y.qw * t.down[l])
			mw -= float64(m * t.sumCW[l] * t.down[l])
		}
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
	for j := 0; j < 256/r.size; j++ {
		scale := float64(float32(r.best.d) * float32(r.best.sc[j]))
		floor := float64(float32(r.best.dmin) * float32(r.best.mn[j]))
		r.values.codes(q[j*r.size:][:r.size], r.w[j*r.size:], scale, floor)
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
	for at := 0; at < len(src); at, dst = at+256, dst[84:] {
		r.search(src[at:][:256], columns(weights, at, 256))
		r.codes(&q)
		for j := range 16 {
			dst[j] = uint8(r.best.sc[j]) | uint8(r.best.mn[j])<<4
		}
		joinPairs(dst[16:80], q[:])
		putF16(dst[80:], float32(r.best.d))
		putF16(dst[82:], float32(r.best.dmin))
	}
}

func encodeQ4_K(dst []byte, src, weights []float32) {
	r := rangesQ4_K
	var q [256]uint8
	for at := 0; at < len(src); at, dst = at+256, dst[144:] {
		r.search(src[at:][:256], columns(weights, at, 256))
		r.codes(&q)
		r.header(dst)
		joinRuns(dst[16:], q[:])
	}
}

func encodeQ5_K(dst []byte, src, weights []float32) {
	r := rangesQ5_K
	var q [256]uint8
	for at := 0; at < len(src); at, dst = at+256, dst[176:] {
		r.search(src[at:][:256], columns(weights, at, 256))
		r.codes(&q)
		r.header(dst)
		joinQ5_K(dst, q[:])
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
