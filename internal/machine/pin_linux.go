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

// CPUs lists the processors that this process may use; nil if that is not known.
func CPUs() (list []int) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil
	}
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			list = append(list, cpu)
		}
	}
	return list
}
