//go:build !linux

package slots

import "os"

// reserve makes an empty file size bytes long.
func reserve(f *os.File, size int64) error { return f.Truncate(size) }
