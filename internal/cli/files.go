package cli

import (
	"bufio"
	"cmp"
	"io"
	"os"
	"path/filepath"

	"nibble/internal/stage"
)

// writeAtomic makes a file that appears whole or not at all. What is there and no file, like a pipe or a device, is written
// to; through a link the file behind it is replaced.
func writeAtomic(path string, fill func(io.Writer) error) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return cmp.Or(fill(f), f.Close())
	}
	return stage.WriteWhole(path, func(f io.Writer) error {
		w := bufio.NewWriterSize(f, 1<<20)
		return cmp.Or(fill(w), w.Flush())
	})
}

// writeWhole is writeAtomic for what is in memory.
func writeWhole(path string, raw []byte) error {
	return writeAtomic(path, func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	})
}
