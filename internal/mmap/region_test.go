package mmap

import (
	"path/filepath"
	"testing"
)

// A region is zero at first, is there again when its file is opened again, and is not opened with another size.
func TestRegion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "region")
	r, err := Create(path, 4096+4)
	if err != nil {
		t.Fatal(err)
	}
	f := r.Floats()
	if len(f) != 1025 || f[0] != 0 || f[1024] != 0 {
		t.Fatalf("%d floats, the first %v, the last %v", len(f), f[0], f[1024])
	}
	f[1024] = 1.5
	if err := r.Sync(); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Reopen(path, 4096); err == nil {
		t.Error("a region of another size opens")
	}
	if r, err = Reopen(path, 4096+4); err != nil {
		t.Fatal(err)
	}
	if b := r.Bytes(); string(b[4096:]) != "\x00\x00\xc0\x3f" {
		t.Errorf("the last float is % x", b[4096:])
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Create(filepath.Join(t.TempDir(), "too large"), 1<<62); err == nil {
		t.Error("a region that no disk has room for")
	}
}
