package metal

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"nibble/internal/kernel/amx/tile"
)

// What the emulator takes for AMX is what Bochs takes for it, and the products of the set amx are what their definitions say when Bochs
// runs them. BOCHS is the folder that install.sh has filled.
func TestBochs(t *testing.T) {
	bochs, err := filepath.Abs(os.Getenv("BOCHS"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(bochs, "bochs")); os.Getenv("BOCHS") == "" || err != nil {
		t.Fatalf("BOCHS=%q has no Bochs: install.sh FOLDER makes one", os.Getenv("BOCHS"))
	}
	dir, m := t.TempDir(), &machine{memory: make([]byte, 512), functions: map[string]uint64{}}
	start := m.boot(t, dir)
	m.kernel(t, dir)
	r := rand.New(rand.NewPCG(60, 60))
	m.integers(t, r)
	m.bfloat16(t, r)
	m.exceptions(t)
	m.products(r)
	m.run(t, bochs, dir, start)
}

// shaped is a configuration with the tiles of shapes, rows and bytes of each.
func shaped(shapes ...[2]int) *[64]byte {
	b := &[64]byte{0: 1}
	for i, s := range shapes {
		b[48+i] = byte(s[0])
		le.PutUint16(b[16+2*i:], uint16(s[1]))
	}
	return b
}

// vector adds a dot product of random shape; what it leaves in C is what package tile makes of it, and nothing behind its rows.
func (m *machine) vector(t *testing.T, r *rand.Rand, name string, dot func(s *tile.State) error, a, b, c func() uint32) {
	t.Helper()
	rows, n, k := 1+r.IntN(16), 1+r.IntN(16), 1+r.IntN(16)
	config := shaped([2]int{rows, 4 * n}, [2]int{rows, 4 * k}, [2]int{k, 4 * n})
	var tiles [3][1024]byte
	var s tile.State
	if err := s.Configure(config); err != nil {
		t.Fatal(err)
	}
	for i, fill := range []func() uint32{c, a, b} {
		for at := 0; at < 1024; at += 4 {
			le.PutUint32(tiles[i][at:], fill())
		}
		count, _, _ := s.Shape(i)
		for row := range count {
			copy(s.Row(i, row), tiles[i][64*row:])
		}
	}
	where := m.put(tiles[0][:])
	arguments := []uint64{m.put(config[:]), m.put(tiles[1][:]), m.put(tiles[2][:]), where}
	if err := dot(&s); err != nil {
		t.Fatal(err)
	}
	for row := range rows {
		copy(tiles[0][64*row:], s.Row(0, row))
	}
	m.call(fmt.Sprintf("%s, %dx%dx%d", name, rows, n, k), name, 0, wants(int(where-base), tiles[0][:]), arguments...)
}

// integers adds the four dot products of int8. Operands that are signed stay below 128.
func (m *machine) integers(t *testing.T, r *rand.Rand) {
	any, small := r.Uint32, func() uint32 { return r.Uint32() & 0x7f7f7f7f }
	few := func() uint32 { return []uint32{0, 0x7f7f7f7f, 0x7f007f00, 0x01017f7f}[r.IntN(4)] }
	for range 40 {
		for _, c := range []func() uint32{r.Uint32, func() uint32 { return 0x7fffff00 }} {
			m.vector(t, r, "tdpbuud", func(s *tile.State) error { return s.Dot(0, 1, 2, false, false) }, any, any, c)
			m.vector(t, r, "tdpbusd", func(s *tile.State) error { return s.Dot(0, 1, 2, false, true) }, any, small, c)
			m.vector(t, r, "tdpbsud", func(s *tile.State) error { return s.Dot(0, 1, 2, true, false) }, few, any, c)
			m.vector(t, r, "tdpbssd", func(s *tile.State) error { return s.Dot(0, 1, 2, true, true) }, small, few, c)
		}
	}
}

// bfloat16 adds TDPBF16PS of numbers near 1, of many magnitudes, beyond the largest, and around the smallest that are no zeros; of those,
// all products and sums of a vector have one sign.
func (m *machine) bfloat16(t *testing.T, r *rand.Rand) {
	for _, c := range []struct {
		exponent, spread int
		signs            bool
	}{{120, 12, true}, {70, 110, true}, {180, 30, true}, {55, 20, false}, {0, 70, false}} {
		for range 60 {
			sign := uint32(r.IntN(2))
			random := func(sign uint32) uint32 {
				if c.signs {
					return uint32(r.IntN(2))
				}
				return sign
			}
			value := func(sign uint32) uint32 {
				e := c.exponent + r.IntN(c.spread)
				if r.IntN(16) == 0 {
					e = 0 // a zero or subnormal
				}
				return random(sign)<<15 | uint32(e)<<7 | uint32(r.IntN(128))
			}
			m.vector(t, r, "tdpbf16ps", func(s *tile.State) error { return s.DotBF16(0, 1, 2) },
				func() uint32 { return value(sign) | value(sign)<<16 },
				func() uint32 { return value(0) | value(0)<<16 },
				func() uint32 {
					e := min(254, max(0, 2*c.exponent-127+r.IntN(2*c.spread)))
					return random(sign)<<31 | uint32(e)<<23 | r.Uint32()&(1<<23-1)
				})
		}
	}
}

// exceptions adds what must end with one. Package tile refuses the same.
func (m *machine) exceptions(t *testing.T) {
	full := [2]int{16, 64}
	buffer := m.put(make([]byte, 1024))
	for _, c := range []struct {
		name      string
		exception uint64
		change    func(b *[64]byte)
	}{
		{"nothing", 0, func(*[64]byte) {}},
		{"palette 2", generalProtection, func(b *[64]byte) { b[0] = 2 }},
		{"65 bytes", generalProtection, func(b *[64]byte) { b[22], b[51] = 65, 1 }},
		{"17 rows", generalProtection, func(b *[64]byte) { b[22], b[51] = 4, 17 }},
		{"bytes and no rows", generalProtection, func(b *[64]byte) { b[22] = 4 }},
		{"rows of no bytes", generalProtection, func(b *[64]byte) { b[51] = 4 }},
		{"a reserved byte", generalProtection, func(b *[64]byte) { b[2] = 1 }},
		{"a ninth tile", generalProtection, func(b *[64]byte) { b[32], b[56] = 4, 1 }},
		{"rows of a ninth tile", generalProtection, func(b *[64]byte) { b[57] = 1 }},
		{"K of A and B", invalidOpcode, func(b *[64]byte) { b[50] = 15 }},
		{"rows of A and C", invalidOpcode, func(b *[64]byte) { b[49] = 15 }},
		{"bytes of B and C", invalidOpcode, func(b *[64]byte) { b[20] = 60 }},
		{"no A", invalidOpcode, func(b *[64]byte) { b[49], b[18] = 0, 0 }},
		{"palette 0", invalidOpcode, func(b *[64]byte) { b[0] = 0 }},
		{"rows of 62 bytes", invalidOpcode, func(b *[64]byte) { b[16], b[20] = 62, 62 }},
	} {
		config := shaped(full, full, full)
		c.change(config)
		var s tile.State
		err := s.Configure(config)
		if (err != nil) != (c.exception == generalProtection) {
			t.Errorf("%s: package tile configures with %v", c.name, err)
		}
		if err == nil && (s.Dot(0, 1, 2, false, false) != nil) != (c.exception == invalidOpcode) {
			t.Errorf("%s: package tile multiplies with %v", c.name, s.Dot(0, 1, 2, false, false))
		}
		m.call(c.name, "tdpbuud", c.exception, nil, m.put(config[:]), buffer, buffer, buffer)
	}
	config := m.put(shaped(full, full, full)[:])
	m.call("a tile twice", "twice", invalidOpcode, nil, config)
	m.call("released", "released", invalidOpcode, nil)
	m.call("a configuration that is not there", "tdpbuud", pageFault, nil, noPage-32, buffer, buffer, buffer)
	m.call("a row that is not there", "tdpbuud", pageFault, nil, config, noPage-512, buffer, buffer)
	m.call("rows to nowhere", "zero", pageFault, nil, config, noPage-512)
	where := m.room(1024, 64)
	for i := range 1024 {
		m.memory[where+i] = 0xee
	}
	want := slices.Repeat([]byte{0xee}, 1024)
	for row := range 5 {
		clear(want[64*row:][:12])
	}
	m.call("zeros", "zero", 0, wants(where, want), m.put(shaped([2]int{5, 12})[:]), base+uint64(where))
}

// words are numbers as they lie in memory.
func words(n int, bits func(i int) uint32) []byte {
	b := make([]byte, 0, 4*n)
	for i := range n {
		b = le.AppendUint32(b, bits(i))
	}
	return b
}

// products adds calls of the assembly itself, as Go would make them: whole blocks, what is left over of columns and tokens, with biases and
// without.
func (m *machine) products(r *rand.Rand) {
	for i, steps := range [][]int{{16}, {16, 16, 3}, {4, 4}, {1, 11, 8}, {9}} {
		for j, function := range []string{"tileSigned", "tileUnsigned", "tilePairs"} {
			tokens := []int{9, 16, 17, 32, 33, 50}[(2*i+j)%6]
			m.product(r, function, steps, tokens, i%2 == 1 && function != "tilePairs")
		}
	}
}

// product adds one. A line of 128 bytes has four columns, or two of bfloat16, of 32 rows.
func (m *machine) product(r *rand.Rand, function string, steps []int, tokens int, biased bool) {
	const rows = 32
	lines, perStep := 0, 2
	if function == "tilePairs" {
		perStep = 4
	}
	for _, n := range steps {
		lines += perStep * n
	}
	float := func(v float32) uint32 { return math.Float32bits(v) }
	element := func() uint32 { return r.Uint32() & 0x7f7f7f7f }
	code := element
	switch function {
	case "tileUnsigned":
		code = r.Uint32
	case "tilePairs": // of both signs, 1/8 to 16 in magnitude
		element = func() uint32 {
			return uint32(r.IntN(2)<<15|(124+r.IntN(8))<<7|r.IntN(128)) | uint32(r.IntN(2)<<31|(124+r.IntN(8))<<23|r.IntN(128)<<16)
		}
		code = element
	}
	codes, x := words(lines*rows, func(int) uint32 { return code() }), words(tokens*lines, func(int) uint32 { return element() })
	n := len(steps)
	scales := words(n*rows, func(int) uint32 { return float(float32(math.Exp2(float64(r.IntN(9) - 6)))) })
	zeros, biases := make([]byte, 4*n*rows), make([]byte, 4*n*rows)
	xscales, sums := words(n*tokens, func(int) uint32 { return float(r.Float32()) }), make([]byte, 4*n*tokens)
	if function == "tileUnsigned" {
		zeros = words(n*rows, func(int) uint32 { return uint32(r.IntN(256)) })
	}
	if biased {
		biases = words(n*rows, func(int) uint32 { return float(r.Float32() - 0.5) })
	}
	var blocks []byte
	for _, s := range steps {
		blocks = le.AppendUint64(blocks, uint64(s))
	}

	y := make([]float32, tokens*rows)
	at := 0
	word := func(b []byte, i int) uint32 { return le.Uint32(b[4*i:]) }
	value := func(b []byte, i int) float32 { return math.Float32frombits(word(b, i)) }
	for b, s := range steps {
		for t := range tokens {
			token := func(line int) uint32 { return word(x, t*lines+at+line) }
			var negative int32
			for line := range perStep * s {
				v := token(line)
				negative -= int32(v&255 + v>>8&255 + v>>16&255 + v>>24)
			}
			le.PutUint32(sums[4*(b*tokens+t):], uint32(negative))
			for row := range rows {
				weights := func(line int) uint32 { return word(codes, (at+line)*rows+row) }
				scale, to := value(scales, b*rows+row), &y[t*rows+row]
				if function == "tilePairs" {
					*to = float32(*to + float32(scale*dotPairs(perStep*s, token, weights))) // exact products: scales are powers of two
					continue
				}
				var sum int32
				for line := range perStep * s {
					for v, w := token(line), weights(line); v != 0; v, w = v>>8, w>>8 {
						sum += int32(v&255) * int32(w&255)
					}
				}
				v := float32(float32(sum+negative*int32(word(zeros, b*rows+row))) * scale)
				v -= float32(float32(negative) * value(biases, b*rows+row))
				*to += float32(v * value(xscales, b*tokens+t))
			}
		}
		at += perStep * s
	}
	result := m.put(make([]byte, 4*len(y)))
	bias := m.put(biases)
	if !biased && function != "tilePairs" {
		bias = 0
	}
	arguments := []uint64{m.put(codes), m.put(x), uint64(4 * lines), result, uint64(tokens), m.put(blocks), uint64(n), m.put(scales), m.put(zeros), bias,
		m.put(xscales), m.put(sums), uint64(4 * tokens), 1, m.put(make([]byte, 8192)), m.put(make([]byte, 64))}
	var fields []byte
	for _, v := range arguments {
		fields = le.AppendUint64(fields, v)
	}
	m.call(fmt.Sprintf("%s, steps %v, %d tokens, biases %v", function, steps, tokens, biased), function, 0,
		wants(int(result-base), words(len(y), func(i int) uint32 { return float(y[i]) })), m.put(append(fields, make([]byte, 18*8)...)))
}

// dotPairs adds lines of pairs up as tiles of 16 of them do. Nothing here is as small as what they flush.
func dotPairs(lines int, token, weights func(line int) uint32) (sum float32) {
	for first := 0; first < lines; first += 16 {
		var even, odd float32
		for line := first; line < min(first+16, lines); line++ {
			v, w := token(line), weights(line)
			wide := func(u uint32) float64 { return float64(math.Float32frombits(u)) }
			even = float32(wide(v<<16)*wide(w<<16) + float64(even))
			odd = float32(wide(v&0xffff0000)*wide(w&0xffff0000) + float64(odd))
		}
		sum += even + odd
	}
	return sum
}
