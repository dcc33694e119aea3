package bench

import (
	"errors"
	"sync"
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

// How much is read, so that caches do not count: by all threads, in last-level caches, and by each.
const (
	readCaches = 8
	readTotal  = 256 << 20
	readPart   = 64 << 20
)

// Seconds for the passes of a ceiling, and how long a pass of a peak is.
const (
	readFor  = time.Second
	peakFor  = 300 * time.Millisecond
	peakPass = 10 * time.Millisecond
)

// Measure finds the ceilings of threads, pinned to processors in turn if any are named.
func Measure(threads int, cpus []int) (c Ceilings, err error) {
	w, err := newCrew(threads, cpus)
	if err != nil {
		return c, err
	}
	defer w.close()
	total := readTotal
	if cache, known := machine.LastLevelCache(); known {
		total = max(total, readCaches*int(cache))
	}
	if c.Read, err = w.read(max(total/threads, readPart), readFor); err != nil {
		return c, err
	}
	c.Int8 = w.peak(kernel.PeakInt8, peakFor)
	c.BF16 = w.peak(kernel.PeakBF16, peakFor)
	return c, nil
}

// crew is threads that do the same at once.
type crew struct {
	start []chan func(tid int)
	spans chan span
	ended sync.WaitGroup
}

// span is when a thread worked.
type span struct{ from, to time.Time }

func newCrew(threads int, cpus []int) (*crew, error) {
	w := &crew{spans: make(chan span, threads)}
	pinned := make(chan error, threads)
	for tid := range threads {
		c := make(chan func(int), 1)
		w.start = append(w.start, c)
		w.ended.Go(func() {
			var err error
			if len(cpus) > 0 {
				err = machine.Pin(cpus[tid%len(cpus)])
			}
			pinned <- err
			for work := range c {
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

// read returns the rate at which the threads read memory of their own, part bytes each, in 10^9 bytes per second.
func (w *crew) read(part int, while time.Duration) (float64, error) {
	const page = 4096
	p, err := mmap.Memory(part * len(w.start))
	if err != nil {
		return 0, err
	}
	defer func() { _ = mmap.Free(p) }()
	own := func(tid int) []byte { return p[tid*part : (tid+1)*part] }
	w.together(func(tid int) {
		for p := own(tid); len(p) > 0; p = p[min(page, len(p)):] {
			p[0] = 1 // the page comes to be, near the processor of its reader
		}
	})
	best := w.best(while, func(tid int) { kernel.ReadWords(own(tid)) })
	return float64(part) * float64(len(w.start)) / best.Seconds() / 1e9, nil
}

// peak returns how much the threads multiply and add per second.
func (w *crew) peak(multiply func(rounds int) int, while time.Duration) float64 {
	const rounds = 1024
	calls := 1
	once := w.together(func(int) { multiply(rounds) })
	calls += int(peakPass / max(once, 1))
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
