package parallel

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
)

// Every number is called once, on no more threads than there are numbers, each with a worker of its own.
func TestEach(t *testing.T) {
	for _, c := range [][3]int{{0, 4, 0}, {3, 4, 3}, {100, 4, 4}, {5, 0, 1}} {
		n, threads, want := c[0], c[1], c[2]
		calls := make([]atomic.Int32, n)
		var workers atomic.Int32
		err := With(t.Context(), n, threads, func() int32 { return workers.Add(1) }, func(w int32, i int) error {
			calls[i].Add(1)
			return nil
		})
		if err != nil || int(workers.Load()) != want {
			t.Errorf("%d numbers on %d threads: %v, %d workers, want %d", n, threads, err, workers.Load(), want)
		}
		for i := range calls {
			if calls[i].Load() != 1 {
				t.Errorf("%d numbers on %d threads: %d was called %d times", n, threads, i, calls[i].Load())
			}
		}
	}
}

// Of several errors that of the lowest number is returned, whoever was first, and nothing begins after one.
func TestErrors(t *testing.T) {
	for range 100 {
		err := Each(t.Context(), 50, 4, func(i int) error {
			if i == 7 || i > 8 {
				return fmt.Errorf("%d", i)
			}
			return nil
		})
		if err == nil || err.Error() != "7" {
			t.Fatalf("error %v, want that of 7", err)
		}
	}
	var calls atomic.Int32
	failed := errors.New("failed")
	if err := Each(t.Context(), 1000, 1, func(int) error { calls.Add(1); return failed }); err != failed || calls.Load() != 1 {
		t.Errorf("%v after %d calls", err, calls.Load())
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := Each(ctx, 1000, 1, func(int) error { calls.Add(1); cancel(); return nil }); !errors.Is(err, context.Canceled) || calls.Load() != 2 {
		t.Errorf("%v after %d calls", err, calls.Load())
	}
}
