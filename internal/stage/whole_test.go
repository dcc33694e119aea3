package stage

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// A file appears whole, what a killed run left beside it goes, and what is no file that a run can have left stays.
func TestWriteWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report")
	left := filepath.Join(filepath.Dir(path), ".report"+Suffix)
	write(t, left)
	for _, s := range []string{"one", "another"} {
		if err := WriteWhole(path, text(s)); err != nil {
			t.Fatal(err)
		}
		if raw, err := os.ReadFile(path); err != nil || string(raw) != s {
			t.Errorf("%q, %v", raw, err)
		}
		if _, err := os.Lstat(left); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("beside it: %v", err)
		}
	}
	if err := WriteWhole(path, func(w io.Writer) error {
		_, _ = io.WriteString(w, "half")
		return io.ErrClosedPipe
	}); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	if raw, err := os.ReadFile(path); err != nil || string(raw) != "another" {
		t.Errorf("after an error: %q, %v", raw, err)
	}
	precious := filepath.Join(t.TempDir(), "precious")
	write(t, precious)
	if err := os.Symlink(precious, left); err != nil {
		t.Fatal(err)
	}
	if err := WriteWhole(path, text("x")); err == nil || !strings.Contains(err.Error(), "is in the way") {
		t.Errorf("a link where the unfinished file goes: %v", err)
	}
	if raw, err := os.ReadFile(precious); err != nil || string(raw) != "x" {
		t.Errorf("behind the link: %q, %v", raw, err)
	}
}

// Every step that fails fails the whole, and nothing is left but what was there before.
func TestFault(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report")
	for _, op := range []Op{Create, Write, Sync, Close, Rename} {
		write(t, path)
		Fault = func(o Op, _ string, size int) (int, error) {
			if o == op {
				return size / 2, syscall.ENOSPC
			}
			return 0, nil
		}
		err := WriteWhole(path, text("longer"))
		Fault = nil
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: %v", op, err)
		}
		entries, err := os.ReadDir(filepath.Dir(path))
		if raw, e := os.ReadFile(path); err != nil || e != nil || len(entries) != 1 || string(raw) != "x" {
			t.Errorf("%s: %d files, %q, %v, %v", op, len(entries), raw, err, e)
		}
	}
}

// A file that another run is writing is not taken for left over.
func TestWriteWholeTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report")
	err := WriteWhole(path, func(w io.Writer) error {
		if err := WriteWhole(path, text("second")); !errors.Is(err, ErrInUse) {
			t.Errorf("a second run: %v", err)
		}
		return text("first")(w)
	})
	if raw, e := os.ReadFile(path); err != nil || e != nil || string(raw) != "first" {
		t.Errorf("%q, %v, %v", raw, err, e)
	}
}

// The lock of a file is held until the file has its name: after the file is closed and before it is renamed too.
func TestLockOutlivesClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report")
	w, err := CreateWhole(path)
	if err != nil {
		t.Fatal(err)
	}
	release := keepLock(w.file)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := CreateWhole(path); !errors.Is(err, ErrInUse) {
		t.Errorf("while it is kept: %v", err)
	}
	release()
	again, err := CreateWhole(path)
	if err != nil {
		t.Fatalf("after that: %v", err)
	}
	if err := again.Abort(); err != nil {
		t.Error(err)
	}
}
