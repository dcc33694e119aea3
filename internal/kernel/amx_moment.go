package kernel

import "sync"

// Second moments on tiles are products of panels by panels: the pairs of a panel of columns are what Pairs calls a matrix of 32 rows whose
// columns are the rows that are added up, in blocks of WidestBlock, and another panel, across, is 32 tokens for it. So
//
//	c[i·ldc+j] += Σ_t x[t,i]·x[t,j]
//
// has the bits that Pairs has on tiles for those columns: even and odd rows apart, 32 rows at a time. They are other bits than Moment.Add has in all
// other sets, and as close to the exact sum.

// tileMoment is the memory of one of them.
type tileMoment struct {
	p      Product
	blocks []Block
	y      [PanelRows * PanelRows]float32
}

var tileMoments = sync.Pool{New: func() any { return new(tileMoment) }}

// momentTiles is Moment.Add of PanelRows by PanelRows columns, k steps of pairs, a multiple of four, of which a is across.
func momentTiles(c []float64, ldc int, a []float32, ks int, b []float32, bs, k int) {
	m := tileMoments.Get().(*tileMoment)
	m.blocks = m.blocks[:0]
	for left := k / (PanelStep / 2); left > 0; left -= WidestBlock / PanelStep {
		m.blocks = append(m.blocks, Block{Steps: int32(min(left, WidestBlock/PanelStep))})
	}
	p := &m.p
	p.Codes, p.Blocks, p.Panels = Bytes(b[:(k-1)*bs+PanelRows]), m.blocks, 1
	p.X, p.Stride, p.Row = Bytes(a[:(PanelRows-1)*ks+k]), int64(4*ks), PanelRows
	p.Totals = noTotals[:len(m.blocks)*PanelRows]
	p.Y = m.y[:]
	p.Pairs(PanelRows)
	for i := range PanelRows {
		to := c[i*ldc:][:PanelRows]
		for j, v := range m.y[i*PanelRows:][:PanelRows] {
			to[j] += float64(v)
		}
	}
	p.Codes, p.X = nil, nil
	tileMoments.Put(m)
}

// noTotals are the sums of activations, which only matrices with scales want, of as many blocks as rows of a moment make.
var noTotals [MomentRows / WidestBlock * PanelRows]float32
