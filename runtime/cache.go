package runtime

import (
	"fmt"

	"nibble/internal/kernel"
)

// KV is the type in which keys and values of earlier tokens are kept.
type KV uint8

// The types of the cache. Int8 has a float32 scale per token and head.
const (
	KVF32  = KV(kernel.StoredF32)
	KVBF16 = KV(kernel.StoredBF16)
	KVF16  = KV(kernel.StoredF16)
	KVInt8 = KV(kernel.StoredInt8)
)

// KVs maps the names of the command line to types.
var KVs = map[string]KV{"f32": KVF32, "bf16": KVBF16, "f16": KVF16, "int8": KVInt8}

// bytes returns the size of one head's key or value.
func (t KV) bytes(dim int) int { return kernel.Stored(t).Bytes(dim) }

// store writes a vector of one head.
func (t KV) store(dst []byte, x []float32) { kernel.Stored(t).Store(dst, x) }

// Session is one sequence: the tokens so far and what the layers keep of them.
type Session struct {
	m       *Model
	kv      KV
	context int
	tokens  []int32 // capacity: context
	layers  []ring
	call    uint64 // the last forward pass that it took part in
}

// ring holds keys and values of the last tokens of a sequence: all of them, or the window of a sliding layer. Position p
// is in slot p mod size.
type ring struct {
	size         int
	keys, values []byte // [kv heads, size, bytes of a vector]
}

// Limit is the longest sequence that the model is made for. Under a dynamic rope a longer one is possible.
func (m *Model) Limit() int {
	limit := m.Arch.MaxPositions
	if m.positions != nil {
		limit = min(limit, m.positions.n)
	}
	return limit
}

// NewSession makes an empty sequence of at most context tokens; 0 is the model's limit.
func (m *Model) NewSession(context int, kv KV) (*Session, error) {
	if context == 0 {
		context = m.Limit()
	}
	if context < 1 || context > m.Limit() && !m.Arch.Stretches() {
		return nil, fmt.Errorf("runtime: a context of %d tokens: the model has %d", context, m.Limit())
	}
	if kv > KVInt8 {
		return nil, fmt.Errorf("runtime: cache type %d is unknown", kv)
	}
	if n := m.CacheBytes(context, kv); n > mostCache {
		return nil, fmt.Errorf("runtime: a context of %d tokens takes %d GiB, more than any machine has", context, n>>30)
	}
	s := &Session{m: m, kv: kv, context: context, tokens: make([]int32, 0, context), layers: make([]ring, len(m.layers))}
	for i := range s.layers {
		size := context
		if w := m.layers[i].Window; w > 0 {
			size = min(size, w)
		}
		n := size * m.Arch.KVHeads * kv.bytes(m.Arch.HeadDim)
		s.layers[i] = ring{size, make([]byte, n), make([]byte, n)}
	}
	return s, nil
}

// mostCache bounds a session's memory where a config or a caller asks for a context that cannot be.
const mostCache = 1 << 45

// CacheBytes is the memory that a session of the given context takes.
func (m *Model) CacheBytes(context int, kv KV) int64 {
	// In float64, which is exact below 2^53 and does not overflow.
	n := 4 * float64(context)
	for i := range m.layers {
		size := context
		if w := m.layers[i].Window; w > 0 {
			size = min(size, w)
		}
		n += float64(2 * float64(size) * float64(m.Arch.KVHeads) * float64(kv.bytes(m.Arch.HeadDim)))
	}
	return int64(min(n, 1<<62))
}

// Len returns the number of tokens so far.
func (s *Session) Len() int { return len(s.tokens) }

// Context returns the most tokens that the session can hold.
func (s *Session) Context() int { return s.context }

// Reset makes the sequence empty again.
func (s *Session) Reset() { s.tokens = s.tokens[:0] }
