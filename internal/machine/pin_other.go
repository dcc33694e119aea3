//go:build !linux

package machine

import "errors"

// Pin returns an error: only Linux can do it.
func Pin(int) error { return errors.New("threads can be pinned to processors on Linux only") }

// CPUs returns nil: only Linux says.
func CPUs() []int { return nil }
