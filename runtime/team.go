package runtime

import (
	"errors"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"time"

	"nibble/internal/machine"
)

// team is a pool of threads that walk through a step together. It starts once; a step creates no goroutine.
type team struct {
	size    int
	crowded bool // there are fewer processors than threads
	work    func(tid int)
	own     bool            // thread 0 is the caller of run
	wake    []chan struct{} // of the other threads
	done    chan struct{}

	arrived atomic.Int32
	round   atomic.Uint32
	parked  atomic.Int32 // threads that sleep in the barrier
	mu      sync.Mutex
	cond    *sync.Cond // the round has changed
	closed  bool
}

// newTeam starts the threads. The caller of run is the first of them, unless they are pinned to processors, in turn.
func newTeam(size int, cpus []int) (*team, error) {
	t := &team{size: size, own: len(cpus) == 0, done: make(chan struct{}, size)}
	t.cond = sync.NewCond(&t.mu)
	t.crowded = size > goruntime.GOMAXPROCS(0)
	first := 0
	if t.own {
		first = 1
	}
	failed := make(chan error, size)
	for tid := first; tid < size; tid++ {
		c := make(chan struct{}, 1)
		t.wake = append(t.wake, c)
		go func() {
			var err error
			if !t.own {
				err = machine.Pin(cpus[tid%len(cpus)])
			}
			failed <- err
			for range c {
				t.work(tid)
				t.done <- struct{}{}
			}
		}()
	}
	var err error
	for range t.wake {
		err = errors.Join(err, <-failed)
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// run lets every thread call work with its number, and returns when all have.
func (t *team) run(work func(tid int)) {
	t.work = work
	for _, c := range t.wake {
		c <- struct{}{}
	}
	if t.own {
		work(0)
	}
	for range t.wake {
		<-t.done
	}
}

// close ends the goroutines.
func (t *team) close() {
	if t.closed {
		return
	}
	t.closed = true
	for _, c := range t.wake {
		close(c)
	}
}

// A thread looks for the others for a while, then yields times lets the scheduler run something else between two looks,
// then sleeps: another process may have the processor that the others need. Sleeping threads take tens of microseconds to
// come back, so the while is long; where some of the others have no processor, there is none.
const (
	patience = 500 * time.Microsecond
	looks    = 1 << 10 // between two looks at the clock
	yields   = 1 << 6
)

// spin looks for the end of a round, and reports whether it has come.
func (t *team) spin(round uint32) bool {
	if t.crowded {
		return false
	}
	start := time.Now()
	for time.Since(start) < patience {
		for range looks {
			if t.round.Load() != round {
				return true
			}
		}
	}
	return false
}

// barrier returns when every thread of the team has called it.
func (t *team) barrier() {
	if t.size == 1 {
		return
	}
	round := t.round.Load()
	if int(t.arrived.Add(1)) == t.size {
		t.arrived.Store(0)
		t.round.Add(1)
		if t.parked.Load() > 0 { // a thread that parks later sees the new round
			t.mu.Lock()
			t.cond.Broadcast()
			t.mu.Unlock()
		}
		return
	}
	if t.spin(round) {
		return
	}
	for range yields {
		if t.round.Load() != round {
			return
		}
		goruntime.Gosched()
	}
	t.mu.Lock()
	t.parked.Add(1)
	for t.round.Load() == round {
		t.cond.Wait()
	}
	t.parked.Add(-1)
	t.mu.Unlock()
}

// share returns the part of n items that falls to a thread, in runs of unit.
func (t *team) share(tid, n, unit int) (lo, hi int) {
	units := (n + unit - 1) / unit
	return min(units*tid/t.size*unit, n), min(units*(tid+1)/t.size*unit, n)
}
