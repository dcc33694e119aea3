package convert

import (
	"context"
	"sync"
	"sync/atomic"

	"nibble/quant"
)

// block is the number of rows whose error sums are kept apart, and what the rows of a strip are a multiple of.
const block = 32

// job is one piece of output, or one source file to hash.
type job struct {
	name  string
	rows  int   // work is handed out in strips of rows
	strip int   // rows in a strip, a multiple of block
	cost  int64 // input bytes of one row, for the progress display
	run   func(w *worker, row0, rows int) error
	done  func() error // called once, by the worker that finished the last strip; may be nil

	left atomic.Int64 // strips not finished
}

// worker holds the buffers of one thread. They grow to the largest strip and are reused.
type worker struct {
	raw        []byte
	floats     []float32
	row        []float32
	importance []float32
}

// grow returns buf with length n.
func grow[T any](buf *[]T, n int) []T {
	if cap(*buf) < n {
		*buf = make([]T, n)
	}
	*buf = (*buf)[:n]
	return *buf
}

// Progress is told what was just finished: input bytes, and the job they belong to.
type Progress func(name string, bytes int64)

// run does the jobs with the given number of workers. Strips are handed out in order. After an error no new strip
// starts; of several errors the one of the earliest strip is returned, so that the same input gives the same message.
func run(ctx context.Context, jobs []*job, threads int, progress Progress) error {
	defer quant.KeepBuffers()()
	for _, j := range jobs {
		j.left.Store(int64((j.rows + j.strip - 1) / j.strip))
	}
	var (
		mu     sync.Mutex
		at     int // job
		row    int // next row of it
		failed error
		order  = int64(-1) // number of the strip that failed
		number int64
		wg     sync.WaitGroup
	)
	next := func() (j *job, row0 int, n int64) {
		mu.Lock()
		defer mu.Unlock()
		if failed != nil || at == len(jobs) || ctx.Err() != nil {
			return nil, 0, 0
		}
		j, row0, n = jobs[at], row, number
		number++
		if row += j.strip; row >= j.rows {
			at, row = at+1, 0
		}
		return j, row0, n
	}
	for range threads {
		wg.Go(func() {
			var w worker
			for {
				j, row0, n := next()
				if j == nil {
					return
				}
				rows := min(j.strip, j.rows-row0)
				err := j.run(&w, row0, rows)
				if err == nil && j.left.Add(-1) == 0 && j.done != nil {
					err = j.done()
				}
				mu.Lock()
				if err != nil && (failed == nil || n < order) {
					failed, order = err, n
				}
				if err == nil && progress != nil {
					progress(j.name, int64(rows)*j.cost)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if failed != nil {
		return failed
	}
	return ctx.Err()
}
