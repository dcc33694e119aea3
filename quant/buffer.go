package quant

import (
	"slices"
	"sync"
)

// spare are the buffers that wait for the next strip, the smallest first, while somebody wants them kept: a strip takes
// megabytes, which would be allocated and cleared anew for each.
var spare struct {
	mu      sync.Mutex
	keepers int
	buffers []*Buffer
}

// Buffer is memory that is borrowed for the time of one strip.
type Buffer struct{ bytes []byte }

// KeepBuffers makes Return keep buffers for the next Borrow until the function that it returns is called.
func KeepBuffers() (end func()) {
	spare.mu.Lock()
	defer spare.mu.Unlock()
	spare.keepers++
	return func() {
		spare.mu.Lock()
		defer spare.mu.Unlock()
		if spare.keepers--; spare.keepers == 0 {
			spare.buffers = nil
		}
	}
}

// Borrow returns a buffer and n bytes of it, whose contents are undefined.
func Borrow(n int) (*Buffer, []byte) {
	spare.mu.Lock()
	list := spare.buffers
	i, _ := slices.BinarySearchFunc(list, n, func(b *Buffer, n int) int { return len(b.bytes) - n })
	var b *Buffer
	if i < len(list) {
		b = list[i]
		spare.buffers = slices.Delete(list, i, i+1)
	} else if i > 0 { // all are too small: a larger one takes the place of the largest
		spare.buffers = slices.Delete(list, i-1, i)
	}
	spare.mu.Unlock()
	if b == nil {
		b = &Buffer{make([]byte, n)}
	}
	return b, b.bytes[:n:n]
}

// Return gives the buffer back. Its bytes must not be used any more.
func (b *Buffer) Return() {
	spare.mu.Lock()
	defer spare.mu.Unlock()
	if spare.keepers > 0 {
		i, _ := slices.BinarySearchFunc(spare.buffers, len(b.bytes), func(b *Buffer, n int) int { return len(b.bytes) - n })
		spare.buffers = slices.Insert(spare.buffers, i, b)
	}
}
