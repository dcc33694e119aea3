package block

import (
	"encoding/binary"
	"math"

	"nibble/internal/kernel"
)

// scales searches blocks of sub-blocks with a signed scale each: w ≈ d·sc·q (Q3_K, Q6_K, IQ4_XS).
type scales struct {
	size   int       // weights of a sub-block
	values grid      // what the codes stand for
	top    float64   // sc is from −top to top − 1
	reach  []float64 // values on which the extreme weight of a sub-block is put
	starts []float64 // values of sc on which the extreme scale of a block is put

	w     []float32
	tiles []tile // of eight sub-blocks each
	trial choice
	best  choice

	candidates [3][8]float32 // scales of three integers
	steps      [16]float32   // the scales that weights are encoded with
}

// search sets best for 256 weights.
func (r *scales) search(w, c []float32) {
	r.w = w
	r.tiles = loadBlock(r.tiles, &r.values, r.size, w, c)
	extreme := 0.0
	for i := range r.tiles {
		t := &r.tiles[i]
		t.fitScale(r.reach)
		for l := range 8 {
			if scale, _ := t.found(l); math.Abs(scale) > math.Abs(extreme) {
				extreme = scale
			}
		}
	}
	r.best.loss = math.Inf(1)
	for _, start := range r.starts {
		x := &r.trial
		*x = choice{d: roundScale(extreme / start)}
		for i := range r.tiles {
			t := &r.tiles[i]
			for l := range 8 {
				if scale, _ := t.found(l); x.d != 0 {
					x.sc[8*i+l] = min(max(math.RoundToEven(scale/x.d), -r.top), r.top-1)
				}
			}
		}
		r.improve(x)
	}
}

// improve looks for better integers and fits d to the integers and codes, in turns.
func (r *scales) improve(x *choice) {
	for range 4 {
		x.loss = 0
		var ss, sw float64 // Σc·(sc·q)² and Σc·(sc·q)·w
		for i := range r.tiles {
			r.integers(x, i, &ss, &sw)
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

// integers sets sc of the sub-blocks of tile i to 0, the old one or a neighbour, and adds to the loss and the sums.
func (r *scales) integers(x *choice, i int, ss, sw *float64) {
	t := &r.tiles[i]
	sc := (*[8]float64)(x.sc[8*i:])
	kernel.Steps(&r.candidates, sc, &t.up, x.d, -r.top, r.top-1, 0)
	for k, scale := range r.candidates {
		t.ways[k].Scale = scale
	}
	t.compare(3, none)
	for l, down := range t.down {
		least, qq, qw, s := float64(t.lanes.Energy[l]), 0.0, 0.0, sc[l]
		sc[l] = 0
		for k := range 3 {
			y := &t.ways[k]
			scale := float64(y.Scale[l])
			if loss := float64(scale * scale * float64(y.RR[l])); loss < least {
				qq = float64(y.QQ[l])
				least, sc[l], qw = loss, s+float64(k-1), float64(scale*(qq+float64(y.QR[l])))
			}
		}
		x.loss += float64(least * down * down)
		*ss += float64(sc[l] * sc[l] * qq)
		*sw += float64(sc[l] * qw * down)
	}
}

// codes sets the codes of the best choice, as the decoder's arithmetic asks for.
func (r *scales) codes(q *[256]uint8) {
	x := &r.best
	n := 256 / r.size
	for j := range n {
		r.steps[j] = float32(x.d * x.sc[j])
	}
	r.values.runs(q[:], r.w, r.size, r.steps[:n])
	for j := range n {
		t, l, codes := &r.tiles[j/8], j%8, q[j*r.size:][:r.size]
		if t.faint(l) && t.worse(l, codes, x.d*x.sc[j], 0) {
			x.sc[j] = 0
			r.values.codes(codes, r.w[j*r.size:], 0, 0)
		}
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
	for at := 0; at < len(src); at, dst = at+256, dst[110:] {
		r.search(src[at:][:256], columns(weights, at, 256))
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
	}
}

func encodeQ6_K(dst []byte, src, weights []float32) {
	r := scalesQ6_K
	var q [256]uint8
	for at := 0; at < len(src); at, dst = at+256, dst[210:] {
		r.search(src[at:][:256], columns(weights, at, 256))
		r.codes(&q)
		joinQ6_K(dst, q[:])
		for j := range 16 {
			dst[192+j] = uint8(int8(r.best.sc[j]))
		}
		putF16(dst[208:], float32(r.best.d))
	}
}

func encodeIQ4_XS(dst []byte, src, weights []float32) {
	r := scalesIQ4_XS
	var q [256]uint8
	for at := 0; at < len(src); at, dst = at+256, dst[136:] {
		r.search(src[at:][:256], columns(weights, at, 256))
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
	}
}
