package fidelity

import (
	"context"
	"sync/atomic"

	"nibble/internal/parallel"
)

// batch keeps the logits of positions until there are enough of them for all threads: of a small model the exponentials of
// a vocabulary take one thread as long as all threads take for the token.
type batch struct {
	width     int
	scratch   [][]float64 // [threads][vocab]
	logits    []float32   // [batchRows, vocab]
	positions []int       // that are kept
}

const batchRows = 32

func newBatch(threads, width int) *batch {
	b := &batch{width: width, scratch: make([][]float64, threads), logits: make([]float32, batchRows*width)}
	for i := range b.scratch {
		b.scratch[i] = make([]float64, width)
	}
	return b
}

// add keeps the logits of a position and reports whether there is no room for more.
func (b *batch) add(position int, logits []float32) (full bool) {
	copy(b.row(len(b.positions)), logits)
	b.positions = append(b.positions, position)
	return len(b.positions) == batchRows
}

func (b *batch) row(i int) []float32 { return b.logits[i*b.width : (i+1)*b.width] }

// empty calls measure for every row, on all threads, each with memory of its own for a vocabulary, and returns the
// positions of the rows, which are kept no longer. Of several errors that of the first row is returned.
func (b *batch) empty(measure func(i int, scratch []float64) error) (positions []int, err error) {
	var thread atomic.Int32
	err = parallel.With(context.Background(), len(b.positions), len(b.scratch), func() []float64 { return b.scratch[thread.Add(1)-1] },
		func(scratch []float64, i int) error { return measure(i, scratch) })
	positions, b.positions = b.positions, b.positions[:0]
	return positions, err
}
