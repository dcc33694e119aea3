//go:build unix

package mmap

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestOpen(t *testing.T) {
	for name, content := range map[string][]byte{
		"empty":            {},
		"one byte":         {7},
		"more than a page": bytes.Repeat([]byte("0123456789abcdef"), 1<<12),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(f.Bytes(), content) {
				t.Errorf("%d bytes are not the file's %d", len(f.Bytes()), len(content))
			}
			got := make([]byte, len(content)+1)
			if n, err := f.ReadAt(got, 0); n != len(content) || err != io.EOF {
				t.Errorf("ReadAt: %d, %v", n, err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			if f.Bytes() != nil {
				t.Error("bytes after Close")
			}
		})
	}
}

func TestOpenFails(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
	if _, err := Open(dir); err == nil {
		t.Error("a folder opens")
	}
}
