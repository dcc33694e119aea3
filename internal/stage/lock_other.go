//go:build !unix

package stage

import (
	"math"
	"os"
)

// lock opens the folder. These systems have no advisory locks on folders.
func lock(dir string) (*os.File, error) { return os.Open(dir) }

// lockFile does nothing for the same reason.
func lockFile(*os.File) error { return nil }

// keepLock has nothing to keep.
func keepLock(*os.File) func() { return func() {} }

// Free cannot be known here; running out is found when the files are reserved.
func Free(string) (int64, error) { return math.MaxInt64, nil }
