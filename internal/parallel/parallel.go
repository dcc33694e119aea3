// Package parallel calls a function for many numbers on several threads.
package parallel

import (
	"context"
	"sync"
	"sync/atomic"
)

// Each calls f for the numbers below n, which begin in their order, on so many threads, at least one, and returns the error of the lowest
// that failed. After an error no other number begins, nor when the context has ended, whose error is then returned.
func Each(ctx context.Context, n, threads int, f func(i int) error) error {
	return With(ctx, n, threads, func() struct{} { return struct{}{} }, func(_ struct{}, i int) error { return f(i) })
}

// With is Each where every thread has a worker, which it makes first.
func With[W any](ctx context.Context, n, threads int, worker func() W, f func(w W, i int) error) error {
	errs := make([]error, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(max(threads, 1), n) {
		wg.Go(func() {
			w := worker()
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if errs[i] = f(w, i); errs[i] != nil {
					next.Store(int64(n))
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}
