package report

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"nibble/build"
	"nibble/hf"
	"nibble/quant"
)

// How much of a matrix is looked at, and what is drawn.
const (
	sampleRows   = 32 // that follow one another; where packed words of any format begin
	sampleBlocks = 4  // spread evenly
	histograms   = 6
	bins         = 60
	reach        = 4 // standard deviations of the original's weights that the bins cover
)

// Compare reads some rows of matrices and of their originals: of all where the build has no report, so that they have an SQNR,
// and of the worst, whose weights are spread over bins. It says what could not be compared.
func (x *Build) Compare(ctx context.Context, b, original *build.Build) (missing []string, err error) {
	theirs := table(original)
	ours := table(b)
	var all quant.Noise
	strange := 0
	for i := range x.Matrices {
		m := &x.Matrices[i]
		t, o := ours[m.module], theirs[m.module]
		if m.SQNR != nil || x.Made != nil || t == nil || t.Source != "" {
			continue
		}
		if !comparable(t, o) {
			strange++
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s, err := newSample(b, original, t, o)
		if err != nil {
			return nil, err
		}
		db := Decibel(s.noise.SQNR())
		m.SQNR, m.Sampled, m.Max = &db, true, s.noise.Max
		all.Merge(s.noise)
	}
	if all.Count > 0 {
		db := Decibel(all.SQNR())
		x.SQNR = &db
		if worst := x.worst(1); worst != nil {
			x.SQNRMin = worst[0].SQNR
		}
	}
	if strange > 0 {
		missing = append(missing, fmt.Sprintf("%s: %d matrices are not in the float model in that shape, and have no SQNR", x.Name, strange))
	}
	for _, m := range x.worst(histograms) {
		t, o := ours[m.module], theirs[m.module]
		if !comparable(t, o) {
			continue
		}
		s, err := newSample(b, original, t, o)
		if err != nil {
			return nil, err
		}
		if h := s.histogram(); h != nil {
			h.Name, h.SQNR = m.Name, *m.SQNR
			x.Histograms = append(x.Histograms, h)
		}
	}
	return missing, nil
}

// worst returns the n matrices that lost most, those left out that stand for multiples of the original's weights.
func (x *Build) worst(n int) []*Matrix {
	var list []*Matrix
	for i := range x.Matrices {
		if m := &x.Matrices[i]; m.SQNR != nil && !m.Folded && !math.IsInf(float64(*m.SQNR), 0) {
			list = append(list, m)
		}
	}
	slices.SortStableFunc(list, func(a, b *Matrix) int { return cmp.Compare(*a.SQNR, *b.SQNR) })
	return list[:min(n, len(list))]
}

func table(b *build.Build) map[string]*hf.Tensor {
	m := map[string]*hf.Tensor{}
	for i := range b.Tensors {
		m[b.Tensors[i].Module()] = &b.Tensors[i]
	}
	return m
}

// comparable reports whether both are there, as matrices of one shape.
func comparable(t, o *hf.Tensor) bool {
	return t != nil && o != nil && len(t.Shape) == 2 && len(o.Shape) == 2 && o.Source != "" && t.Out() == o.Out() && t.In() == o.In()
}

// sample is some rows of a matrix before and after.
type sample struct {
	before, after []float32
	rows          int
	noise         quant.Noise
}

func newSample(b, original *build.Build, t, o *hf.Tensor) (*sample, error) {
	n, k := t.Out(), t.In()
	s := new(sample)
	blocks := min(sampleBlocks, (n+sampleRows-1)/sampleRows)
	for i := range blocks {
		row0 := (n - 1) / sampleRows * i / max(blocks-1, 1) * sampleRows
		rows := min(sampleRows, n-row0)
		before, err := floats(original, o, row0, rows)
		if err != nil {
			return nil, err
		}
		after, err := weights(b, t, row0, rows)
		if err != nil {
			return nil, err
		}
		for r := range rows {
			s.noise.Add(before[r*k:(r+1)*k], after[r*k:(r+1)*k])
		}
		s.before, s.after, s.rows = append(s.before, before...), append(s.after, after...), s.rows+rows
	}
	return s, nil
}

// weights reads rows of a matrix, [rows, in], as loaders compute with them.
func weights(b *build.Build, t *hf.Tensor, row0, rows int) ([]float32, error) {
	if t.Source != "" {
		return floats(b, t, row0, rows)
	}
	l := b.Linears[t.Module()]
	if l == nil {
		return nil, fmt.Errorf("report: %s is neither there in float nor quantized", t.Name)
	}
	m, err := l.Rows(row0, rows)
	if err != nil {
		return nil, err
	}
	defer m.Recycle()
	w := make([]float32, rows*m.K)
	for r := range rows {
		m.DequantizeRow(w[r*m.K:(r+1)*m.K], r)
	}
	return w, nil
}

// floats reads rows of a stored matrix, [rows, in], turned where it is stored [in, out].
func floats(b *build.Build, t *hf.Tensor, row0, rows int) ([]float32, error) {
	s, _ := b.Set.Lookup(t.Source)
	if !s.DType.IsFloat() {
		return nil, &quant.Defect{Module: t.Module(), Tensor: t.Source, Kind: quant.BadType, Detail: s.DType.String() + ": want floats"}
	}
	size, n, k := int64(s.DType.Bits()/8), t.Out(), t.In()
	w := make([]float32, rows*k)
	if !t.Transposed {
		raw := make([]byte, int64(rows*k)*size)
		if err := b.Set.ReadAt(t.Source, raw, (t.Offset+int64(row0)*int64(k))*size); err != nil {
			return nil, err
		}
		quant.DecodeFloats(w, raw, s.DType)
		return w, nil
	}
	raw, line := make([]byte, int64(rows)*size), make([]float32, rows)
	for c := range k {
		if err := b.Set.ReadAt(t.Source, raw, (t.Offset+int64(c)*int64(n)+int64(row0))*size); err != nil {
			return nil, err
		}
		quant.DecodeFloats(line, raw, s.DType)
		for r, v := range line {
			w[r*k+c] = v
		}
	}
	return w, nil
}

// histogram spreads the weights over bins; nil if they are all zero or not finite.
func (s *sample) histogram() *Histogram {
	deviation := math.Sqrt(s.noise.Signal / float64(max(s.noise.Count, 1)))
	half := reach * deviation
	if !(half > 0) || math.IsInf(half, 0) || quant.NonFinite(s.after) >= 0 {
		return nil
	}
	h := &Histogram{Rows: s.rows, Lo: -half, Hi: half}
	spread := func(w []float32) []float64 {
		counts := make([]float64, bins)
		for _, v := range w {
			at := int((float64(v) + half) / (2 * half) * bins)
			counts[min(max(at, 0), bins-1)]++
		}
		for i := range counts {
			counts[i] /= float64(len(w))
		}
		return counts
	}
	h.Before, h.After = spread(s.before), spread(s.after)
	return h
}
