package bench

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"nibble/internal/kernel"
	"nibble/internal/machine"
	"nibble/internal/mmap"
)

// Ceilings are what threads of this machine can do at most, under the set of kernels in use: the best of many passes, in
// each of which all of them work at once.
type Ceilings struct {
	Read float64 `json:"ceiling_gb_per_s"`    // bytes read from memory in a stream, in 10^9 per second
	Int8 float64 `json:"int8_peak_mac_per_s"` // multiply-adds of int8 from registers
	BF16 float64 `json:"bf16_peak_mac_per_s"` // the same of bfloat16, or float32 where the set has no such instruction
}

// How much memory a pass reads, about what a step of a large model does, so that caches do not count and all banks do: for
// all threads, also in last-level caches, and for each.
const (
	readTotal  = 1 << 30
	readCaches = 8
	readOwn    = 64 << 20
	readLeast  = 8 << 20 // where there is less room
)

// How long passes go on. Those of arithmetic are short, so that some have the processors for themselves on a busy machine.
const (
	readFor  = time.Second
	peakFor  = 150 * time.Millisecond
	peakPass = 500 * time.Microsecond
)

// Measure finds the ceilings of threads, pinned to processors in turn. Where none are named, the better counts of threads
// that are where the system puts them and of threads with a processor each. Of room bytes of memory a quarter is taken at
// most.
func Measure(threads int, cpus []int, room int64) (Ceilings, error) {
	own := int64(readTotal)
	if cache, known := machine.LastLevelCache(); known {
		own = max(own, readCaches*cache)
	}
	own = max(own/int64(threads), readOwn)
	own = max(min(own, room/4/int64(threads)), readLeast)
	c, err := measure(threads, cpus, int(own))
	if all := machine.CPUs(); err == nil && len(cpus) == 0 && len(all) >= threads {
		var pinned Ceilings
		pinned, err = measure(threads, all, int(own))
		c = Ceilings{max(c.Read, pinned.Read), max(c.Int8, pinned.Int8), max(c.BF16, pinned.BF16)}
	}
	return c, err
}

func measure(threads int, cpus []int, own int) (c Ceilings, err error) {
	w, err := newCrew(threads, cpus)
	if err != nil {
		return c, err
	}
	defer w.close()
	if c.Read, err = w.read(own, readFor); err != nil {
		return c, err
	}
	c.Int8 = w.peak(kernel.PeakInt8, peakFor)
	c.BF16 = w.peak(kernel.PeakBF16, peakFor)
	return c, nil
}

// crew is threads that do the same at once.
type crew struct {
	start   []chan func(tid int)
	arrived atomic.Int64 // threads at the start of passes, over all passes
	spans   chan span
	ended   sync.WaitGroup
}

// span is when a thread worked.
type span struct{ from, to time.Time }

func newCrew(threads int, cpus []int) (*crew, error) {
	w := &crew{start: make([]chan func(int), threads), spans: make(chan span, threads)}
	pinned := make(chan error, threads)
	for tid := range threads {
		c := make(chan func(int), 1)
		w.start[tid] = c
		w.ended.Go(func() {
			var err error
			if len(cpus) > 0 {
				err = machine.Pin(cpus[tid%len(cpus)])
			}
			pinned <- err
			pass := int64(0)
			for work := range c {
				pass++
				w.meet(pass)
				from := time.Now()
				work(tid)
				w.spans <- span{from, time.Now()}
			}
		})
	}
	var err error
	for range threads {
		err = errors.Join(err, <-pinned)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// meet returns when all threads have called it for a pass. Threads that wait keep their processors, so that all have one.
func (w *crew) meet(pass int64) {
	const spins = 1 << 16
	all := pass * int64(len(w.start))
	w.arrived.Add(1)
	for i := 1; w.arrived.Load() < all; i++ {
		if i%spins == 0 {
			runtime.Gosched()
		}
	}
}

// close ends the threads.
func (w *crew) close() {
	for _, c := range w.start {
		close(c)
	}
	w.ended.Wait()
}

// together lets all threads work and returns the time from the first one's start to the last one's end.
func (w *crew) together(work func(tid int)) time.Duration {
	for _, c := range w.start {
		c <- work
	}
	all := <-w.spans
	for range len(w.start) - 1 {
		s := <-w.spans
		if s.from.Before(all.from) {
			all.from = s.from
		}
		if s.to.After(all.to) {
			all.to = s.to
		}
	}
	return all.to.Sub(all.from)
}

// best is the shortest of at least three passes, of as many as fit into a while.
func (w *crew) best(while time.Duration, work func(tid int)) time.Duration {
	const least = 3
	best := w.together(work)
	deadline := time.Now().Add(while)
	for i := 1; i < least || time.Now().Before(deadline); i++ {
		best = min(best, w.together(work))
	}
	return max(best, 1)
}

// read returns the rate at which the threads read memory of their own, in 10^9 bytes per second.
func (w *crew) read(own int, while time.Duration) (float64, error) {
	const page = 4096
	p, err := mmap.Memory(own * len(w.start))
	if err != nil {
		return 0, err
	}
	defer func() { _ = mmap.Free(p) }()
	w.together(func(tid int) {
		for i := tid * own; i < (tid+1)*own; i += page {
			p[i] = 1 // the page comes to be, near the processor of its reader
		}
	})
	best := w.best(while, func(tid int) { kernel.ReadWords(p[tid*own : (tid+1)*own]) })
	return float64(len(p)) / best.Seconds() / 1e9, nil
}

// peak returns how much the threads multiply and add per second.
func (w *crew) peak(multiply func(rounds int) int, while time.Duration) float64 {
	const rounds = 1024
	once := w.together(func(int) { multiply(rounds) })
	calls := 1 + int(peakPass/max(once, 1))
	counts := make([]int, len(w.start))
	best := w.best(while, func(tid int) {
		counts[tid] = 0
		for range calls {
			counts[tid] += multiply(rounds)
		}
	})
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return float64(sum) / best.Seconds()
}
