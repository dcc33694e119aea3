package block

import (
	"math"

	"nibble/internal/kernel"
)

// ranges searches blocks of sub-blocks with a scale and a minimum each: w ≈ d·sc·q − dmin·mn (Q2_K, Q4_K, Q5_K).
type ranges struct {
	size    int       // weights of a sub-block
	values  grid      // the codes, from 0 on
	top     float64   // the largest sc and mn
	factors []float32 // of the ends of a sub-block's range
	starts  []float64 // parts of the range of sc and mn that a first d and dmin make use of

	w      []float32
	tiles  []tile        // of eight sub-blocks each
	scales [3][8]float32 // of three integers
	floors [3][8]float32
	minima kernel.Minima
	sums   [16]sums // of the integers chosen last
	trial  choice
	best   choice

	steps, subs [16]float32 // the scales, and minimums less than 0, that weights are encoded with
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
	var scales, floors [16]float64
	scale, floor := 0.0, 0.0
	for i := range r.tiles {
		t := &r.tiles[i]
		t.fitLine(r.values.hi, r.factors, positive)
		for l := range 8 {
			j := 8*i + l
			scales[j], floors[j] = t.found(l)
			scale, floor = max(scale, scales[j]), max(floor, floors[j])
		}
	}
	r.best.loss = math.Inf(1)
	for _, p := range r.starts {
		for _, q := range r.starts {
			x := &r.trial
			*x = choice{d: roundScale(scale / (p * r.top)), dmin: roundScale(floor / (q * r.top))}
			for j := range 256 / r.size {
				x.sc[j], x.mn[j] = r.nearest(scales[j]*share(x.d)), r.nearest(floors[j]*share(x.dmin))
			}
			r.improve(x)
			if floor == 0 {
				break
			}
		}
	}
	r.trial = r.best
	r.trial.loss = 0
	for i := range r.tiles {
		r.trial.loss += r.neighbours(&r.trial, i)
	}
	if r.trial.loss < r.best.loss {
		r.best = r.trial
	}
}

// neighbours sets the best of nine pairs of integers of the sub-blocks of tile i, and returns their loss.
func (r *ranges) neighbours(x *choice, i int) (loss float64) {
	t := &r.tiles[i]
	sc, mn := (*[8]float64)(x.sc[8*i:]), (*[8]float64)(x.mn[8*i:])
	r.begin(t, x, sc, mn)
	for i := range t.ways {
		t.ways[i].Scale, t.ways[i].Floor = r.scales[i/3], r.floors[i%3]
	}
	t.lanes.Errors(t.ways[:], r.values.lo, r.values.hi, &t.best)
	for l, k := range t.best.Way {
		if k < 0 {
			sc[l], mn[l] = 0, float64(t.best.Floor[l])
		} else {
			sc[l], mn[l] = sc[l]+float64(k/3-1), mn[l]+float64(k%3-1)
		}
		loss += float64(float64(t.best.Loss[l]) * t.down[l] * t.down[l])
	}
	return loss
}

// begin sets scales and floors to those of the integers and their neighbours, and begins a search with a scale of 0.
func (r *ranges) begin(t *tile, x *choice, sc, mn *[8]float64) {
	kernel.Steps(&r.scales, sc, &t.up, x.d, 0, r.top, 0)
	kernel.Steps(&r.floors, mn, &t.up, x.dmin, 0, r.top, math.NaN())
	t.lanes.Flat(&t.mean, &t.up, &t.down, x.dmin, share(x.dmin), r.top, &t.best)
}

// nearest returns the integer nearest to q among those of a scale, 0 for what is no number.
func (r *ranges) nearest(q float64) float64 {
	switch {
	case !(q > 0):
		return 0
	case q > r.top:
		return r.top
	default:
		return float64(q) + magic - magic
	}
}

// share returns 1/x, 0 for 0, to which everything has a share of 0.
func share(x float64) float64 {
	if x == 0 {
		return 0
	}
	return 1 / x
}

// magic moves a float64 to where neighbours are 1 apart, which rounds it, ties to even.
const magic = 3 << 51

// improve looks for better integers and fits d and dmin to the integers and codes, in turns.
func (r *ranges) improve(x *choice) {
	for range 2 { // a third gains less than a thousandth
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
	r.begin(t, x, sc, mn)
	for k, scale := range r.scales {
		t.ways[k].Scale, t.ways[k].Floor = scale, r.floors[1]
	}
	inverse := share(x.dmin)
	for l, up := range t.up {
		r.minima.M[l], r.minima.Unit[l], r.minima.Inverse[l] = float32(mn[l]), float32(x.dmin*up), float32(inverse*t.down[l])
		r.minima.Top[l], r.minima.Mean[l] = float32(r.top), float32(t.mean[l])
	}
	t.lanes.Minima(t.ways[:3], r.values.lo, r.values.hi, &r.minima, &t.best)
	for l, k := range t.best.Way {
		mn[l] = float64(t.best.Floor[l])
		if k < 0 {
			sc[l], r.sums[8*i+l] = 0, sums{}
		} else {
			y := &t.ways[k]
			q, qq := float64(y.Q[l]), float64(y.QQ[l])
			sc[l] += float64(k - 1)
			r.sums[8*i+l] = sums{q, qq, float64(float64(y.Scale[l])*(qq+float64(y.QR[l]))) - float64(float64(y.Floor[l])*q)}
		}
		loss += float64(float64(t.best.Loss[l]) * t.down[l] * t.down[l])
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
			mm += float64(m * m * float64(t.lanes.SumC[l]))
			sw += float64(s * y.qw * t.down[l])
			mw -= float64(m * float64(t.lanes.SumW[l]) * t.down[l])
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
	x := &r.best
	n := 256 / r.size
	for j := range n {
		r.steps[j], r.subs[j] = float32(x.d*x.sc[j]), -float32(x.dmin*x.mn[j])
	}
	kernel.EncodeRuns(q[:], r.w, r.size, r.steps[:n], r.subs[:n], r.values.lo, r.values.hi)
	for j := range n {
		t, l, codes := &r.tiles[j/8], j%8, q[j*r.size:][:r.size]
		if t.faint(l) && t.worse(l, codes, x.d*x.sc[j], x.dmin*x.mn[j]) {
			clear(codes)
			x.sc[j], x.mn[j] = 0, 0
		}
	}
}

var (
	rangesQ2_K = ranges{size: 16, values: grid{0, 3}, top: 15,
		factors: []float32{1, .85, .7}, starts: []float64{1, .9}}
	rangesQ4_K = ranges{size: 32, values: grid{0, 15}, top: 63,
		factors: []float32{1, .93, .86}, starts: []float64{1}}
	rangesQ5_K = ranges{size: 32, values: grid{0, 31}, top: 63,
		factors: []float32{1, .95}, starts: []float64{1}}
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
