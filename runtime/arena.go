package runtime

import "nibble/internal/mmap"

// arena hands out memory for weights, outside the heap that the garbage collector walks.
type arena struct {
	slabs [][]byte
	free  []byte // of the last slab
}

const (
	slab = 64 << 20 // what is not touched takes no memory
	line = 64       // of a cache
)

// take returns n bytes of zeros that begin a cache line.
func (a *arena) take(n int) ([]byte, error) {
	size := (n + line - 1) &^ (line - 1)
	if size > len(a.free) {
		b, err := mmap.Memory(max(size, slab))
		if err != nil && size < slab { // what is not touched takes address space
			b, err = mmap.Memory(size)
		}
		if err != nil {
			return nil, err
		}
		a.slabs, a.free = append(a.slabs, b), b
	}
	b := a.free[:n:n]
	a.free = a.free[size:]
	return b, nil
}

// close gives the memory back.
func (a *arena) close() {
	for _, b := range a.slabs {
		_ = mmap.Free(b) // cannot fail: the slab is what Memory returned
	}
	*a = arena{}
}
