//go:build unix

package kernel

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// guarded returns memory of n bytes between two pages that must not be touched, at their end or at their start.
func guarded(t *testing.T, n int, atEnd bool) []byte {
	t.Helper()
	page := unix.Getpagesize()
	pages := (n + page - 1) / page
	m, err := unix.Mmap(-1, 0, (pages+2)*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(m) })
	for _, guard := range [][]byte{m[:page], m[(pages+1)*page:]} {
		if err := unix.Mprotect(guard, unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	if atEnd {
		return m[(pages+1)*page-n : (pages+1)*page]
	}
	return m[page : page+n]
}

func floatsOf(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

func int8sOf(b []byte) []int8 {
	return unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(b))), len(b))
}

// No operation touches a byte outside its slices: it would be the end of the test.
func TestGuardPages(t *testing.T) { underEach(t, testGuardPages) }

func testGuardPages(t *testing.T) {
	const most = 200
	for _, atEnd := range []bool{true, false} {
		x, y := guarded(t, 4*most, atEnd), guarded(t, 4*most, atEnd)
		part := func(b []byte, n int) []byte {
			if atEnd {
				return b[len(b)-n:]
			}
			return b[:n:n]
		}
		for n := 1; n <= most; n++ {
			a, b := floatsOf(part(x, 4*n)), floatsOf(part(y, 4*n))
			for i := range a {
				a[i], b[i] = 1, 2
			}
			if got := Dot(a, b); got != float32(2*n) {
				t.Fatalf("length %d: %v", n, got)
			}
			Axpy(b, 3, a)
			if b[0] != 5 || b[n-1] != 5 {
				t.Fatalf("length %d: %v", n, b)
			}
			w := part(x, 2*n)
			for i := range n {
				w[2*i], w[2*i+1] = 0x80, 0x3f // 1
			}
			if got := DotBF16(w, b); got != float32(5*n) {
				t.Fatalf("bf16, length %d: %v", n, got)
			}
		}
	}
}
