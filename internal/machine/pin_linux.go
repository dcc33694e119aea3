package machine

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Pin keeps the calling goroutine on one processor from here on.
func Pin(cpu int) error {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("thread on processor %d: %w", cpu, err)
	}
	return nil
}
