package quant

import "sync"

// buffers are those that layouts have given back: a strip takes megabytes, which would be cleared anew for each.
var buffers sync.Pool

// Buffer is memory that a layout borrows for the time of one strip.
type Buffer struct{ bytes []byte }

// Borrow returns a buffer and n bytes of it, whose contents are undefined.
func Borrow(n int) (*Buffer, []byte) {
	b, ok := buffers.Get().(*Buffer)
	if !ok {
		b = new(Buffer)
	}
	if cap(b.bytes) < n {
		b.bytes = make([]byte, n)
	}
	return b, b.bytes[:n]
}

// Return gives the buffer back. Its bytes must not be used any more.
func (b *Buffer) Return() { buffers.Put(b) }
