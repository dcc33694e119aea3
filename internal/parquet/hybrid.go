package parquet

import "encoding/binary"

// hybrid reads values of width bits from runs; the package comment has the encoding.
type hybrid struct {
	b      []byte
	width  int
	same   uint64 // values left in a run of one
	value  uint32
	packed []byte // groups of eight that are left
	bit    int    // in packed, where the next value starts
}

// next returns a value.
func (h *hybrid) next() (uint32, error) {
	for h.same == 0 && h.bit >= 8*len(h.packed) {
		if err := h.run(); err != nil {
			return 0, err
		}
	}
	if h.same > 0 {
		h.same--
		return h.value, nil
	}
	var v uint64
	first, shift := h.bit/8, h.bit%8
	for i := first; i < len(h.packed) && 8*(i-first) < shift+h.width; i++ {
		v |= uint64(h.packed[i]) << (8 * (i - first))
	}
	h.bit += h.width
	return uint32(v >> shift & (1<<h.width - 1)), nil
}

// run reads the header of a run.
func (h *hybrid) run() error {
	head, n := binary.Uvarint(h.b)
	if n <= 0 {
		return corrupt("a run of levels or numbers lacks its header")
	}
	h.b = h.b[n:]
	if head&1 == 0 {
		bytes := (h.width + 7) / 8
		if len(h.b) < bytes {
			return corrupt("a run lacks its value")
		}
		h.value = 0
		for i := range bytes {
			h.value |= uint32(h.b[i]) << (8 * i)
		}
		if uint64(h.value)>>h.width != 0 {
			return corrupt("a run's value %d has more than %d bits", h.value, h.width)
		}
		h.b, h.same = h.b[bytes:], head>>1
		return nil
	}
	groups := head >> 1
	if h.width == 0 {
		h.value, h.same = 0, 8*min(groups, 1<<32)
		return nil
	}
	if groups > uint64(len(h.b)/h.width) {
		return corrupt("a run of %d groups of %d bytes, %d bytes are left", groups, h.width, len(h.b))
	}
	size := int(groups) * h.width
	h.packed, h.b, h.bit = h.b[:size], h.b[size:], 0
	return nil
}
