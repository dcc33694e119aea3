//go:build unix

package source

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"
)

// sequential is a file system whose files have no ReadAt.
type sequential struct{ fs.FS }

func (s sequential) Open(name string) (fs.File, error) {
	f, err := s.FS.Open(name)
	return struct{ fs.File }{f}, err
}

// A pipe that nobody writes to is refused before it is opened, which would wait; a folder, what is not there, and a file system that cannot seek.
func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	in := func(fsys fs.FS, name string) error { _, err := OpenIn(fsys, name); return err }
	at := func(path string) error { _, err := Open(path); return err }
	files := fstest.MapFS{"file": {Data: []byte("text")}}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"pipe": {at(pipe), pipe + ": not a regular file"}, "folder": {at(dir), dir + ": not a regular file"}, "missing": {at(pipe + "s"), pipe + "s: no such file"},
		"sequential": {in(sequential{files}, "file"), "file: its file system cannot read at an offset"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, c.err, c.want)
		}
	}
	if err := at(pipe + "s"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
