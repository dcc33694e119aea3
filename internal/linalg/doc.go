// Package linalg is the linear algebra of calibrated quantization: products of matrices, second moments, the Cholesky
// factor and what is solved with it.
//
// Matrices are row-major; ld, the leading dimension, is the distance of their rows in elements. Every function computes the
// same bits with any number of threads and under any set of kernels, because every sum has one order, that of the plain
// loop: an element's running value takes the products one after the other, k rising, each product rounded before it is
// added or subtracted. Nothing is fused. Blocks and tiles keep a running value where the plain loop would have it, so they
// leave no trace.
//
// Sizes and slices that do not fit are mistakes of the caller and panic. Numbers may be anything; a NaN goes where it goes in
// the plain loop, but its payload may differ.
package linalg

import (
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
)

// each runs work in so many goroutines, or in this one, and hands the numbers below n out to them, each once, in order.
func each(threads, n int, work func(units iter.Seq[int])) {
	threads = min(threads, n)
	var last atomic.Int64
	units := func(yield func(int) bool) {
		for i := int(last.Add(1)) - 1; i < n && yield(i); i = int(last.Add(1)) - 1 {
		}
	}
	if threads <= 1 {
		work(units)
		return
	}
	var wg sync.WaitGroup
	for range threads {
		wg.Go(func() { work(units) })
	}
	wg.Wait()
}

// fit panics if a slice of so many elements has no room for the rows of a matrix.
func fit(name string, elements, rows, ld, cols int) {
	if rows > 0 && cols > 0 && (ld < cols && rows > 1 || elements < (rows-1)*ld+cols) {
		panic(fmt.Sprintf("linalg: %s has %d elements, for %d rows of %d that are %d apart", name, elements, rows, cols, ld))
	}
}
