//go:build !linux

package runtime

import "errors"

func pin(int) error {
	return errors.New("runtime: threads can be pinned to processors on Linux only")
}
