//go:build unix

package hf_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"nibble/hf"
	"nibble/internal/testmodel"
)

// Only regular files are opened, for a pipe would wait for its writer; what is left is named.
func TestOddFiles(t *testing.T) {
	dir := testmodel.Golden(t, "llama-plain").Write(t)
	if err := unix.Mkfifo(filepath.Join(dir, "pipe.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "dangling")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"extra.safetensors", "README.md"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	m, err := open(t, dir, hf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	carry, skipped := m.Carry()
	slices.Sort(skipped)
	if !slices.Equal(carry, []string{"README.md"}) || !slices.Equal(skipped, []string{"dangling", "extra.safetensors", "pipe.json", "sub"}) {
		t.Errorf("carried %v, left %v", carry, skipped)
	}
}
