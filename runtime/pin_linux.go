package runtime

import (
	"fmt"
	goruntime "runtime"

	"golang.org/x/sys/unix"
)

// pin keeps the calling goroutine on one processor from here on.
func pin(cpu int) error {
	goruntime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("runtime: thread on processor %d: %w", cpu, err)
	}
	return nil
}
