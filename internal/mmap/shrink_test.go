//go:build unix

package mmap

import (
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
)

// A file that became shorter is an error for who reads it, which is what every command does. Who looks at the mapping can have the
// fault as a panic, with the address that was lost, instead of the end of the program.
func TestShrinks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	page := os.Getpagesize()
	if err := os.WriteFile(path, make([]byte, 3*page), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Truncate(path, int64(page)); err != nil {
		t.Fatal(err)
	}
	if n, err := f.ReadAt(make([]byte, 2*page), 0); n != page || err != io.EOF {
		t.Errorf("ReadAt: %d bytes, %v", n, err)
	}
	var sum byte
	touch := func(i int) (fault any) {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer func() { fault = recover() }()
		sum += f.Bytes()[i]
		return nil
	}
	if fault := touch(page - 1); fault != nil {
		t.Errorf("what the file still has: %v", fault)
	}
	if addressed, ok := touch(page).(interface{ Addr() uintptr }); !ok || addressed.Addr()%uintptr(page) != 0 {
		t.Errorf("what the file has lost: %v", addressed)
	}
	if sum != 0 {
		t.Errorf("the byte is %d", sum)
	}
}
