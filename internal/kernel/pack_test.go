package kernel

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

func randomCodes(r *rand.Rand, n int) []uint8 {
	codes := make([]uint8, n)
	for i := range codes {
		codes[i] = uint8(r.IntN(16))
	}
	return codes
}

// Nibbles stand where the comment says, at every length, and come back.
func TestNibbles(t *testing.T) { underEach(t, testNibbles) }

func testNibbles(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for n := 0; n < 300; n += 2 {
		codes := randomCodes(r, n)
		p := make([]byte, n/2+1)
		JoinNibbles(p, codes)
		for i, c := range codes {
			if p[i/2]>>(i%2*4)&15 != c {
				t.Fatalf("length %d: code %d", n, i)
			}
		}
		back := make([]uint8, n)
		SplitNibbles(back, p)
		if p[n/2] != 0 || !bytes.Equal(back, codes) {
			t.Fatalf("length %d: %v, want %v", n, back, codes)
		}
	}
}

// Nibble i of a word belongs to row 0, 2, 4, 6, 1, 3, 5, 7.
func TestWeave(t *testing.T) { underEach(t, testWeave) }

func testWeave(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for k := range 140 {
		codes := randomCodes(r, 8*k)
		p := make([]byte, 4*k+1)
		Weave(p, codes, k)
		for i := range k {
			word := binary.LittleEndian.Uint32(p[4*i:])
			for nibble, row := range []int{0, 2, 4, 6, 1, 3, 5, 7} {
				if uint8(word>>(4*nibble))&15 != codes[row*k+i] {
					t.Fatalf("%d columns: row %d, column %d", k, row, i)
				}
			}
		}
		back := make([]uint8, 8*k)
		Unweave(back, p, k)
		if p[4*k] != 0 || !bytes.Equal(back, codes) {
			t.Fatalf("%d columns do not come back", k)
		}
	}
}

func TestTranspose32(t *testing.T) { underEach(t, testTranspose32) }

func testTranspose32(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for range 300 {
		rows, cols := 1+r.IntN(50), 1+r.IntN(50)
		to, from := 4*rows+r.IntN(2)*r.IntN(40), 4*cols+r.IntN(2)*r.IntN(40) // also inside larger matrices
		src, dst := make([]byte, from*(rows-1)+4*cols), make([]byte, to*(cols-1)+4*rows)
		for i := range src {
			src[i] = byte(r.Uint32())
		}
		for i := range dst {
			dst[i] = 0xaa
		}
		if to == 4*rows && from == 4*cols {
			Transpose32(dst, src, rows, cols)
		} else {
			TransposeBetween(dst, src, rows, cols, to, from)
		}
		for y := range rows {
			for x := range cols {
				if !bytes.Equal(dst[x*to+4*y:][:4], src[y*from+4*x:][:4]) {
					t.Fatalf("%d rows, %d columns, rows %d and %d bytes apart: row %d, column %d", rows, cols, from, to, y, x)
				}
			}
		}
		for i, b := range dst {
			if i%to >= 4*rows && b != 0xaa {
				t.Fatalf("%d rows, %d columns, rows %d and %d bytes apart: byte %d was written", rows, cols, from, to, i)
			}
		}
	}
}

// Byte j of row r in step i has the low four bits of column 8i+j low and of column 8i+4+j high; before the steps stand the bits above, those of
// column 4i+j in byte j. Nothing between or behind rows is touched.
func TestPlaces(t *testing.T) { underEach(t, testPlaces) }

func testPlaces(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 11))
	for rows := range 33 {
		for cols := 0; cols <= WidestBlock; cols += PanelStep {
			from := cols + r.IntN(2)*r.IntN(40) // also inside larger matrices
			codes := make([]uint8, max(rows-1, 0)*from+cols)
			for i := range codes {
				codes[i] = uint8(r.Uint32())
			}
			dst := bytes.Repeat([]byte{0xaa}, StepBytes*WidestBlock/PanelStep)
			want := bytes.Clone(dst)
			for row := range rows {
				for c := range cols {
					at := c/8*StepBytes + 4*row + c%4
					want[at] = want[at]&^(15<<(c&4)) | codes[row*from+c]&15<<(c&4)
				}
			}
			if Lows(dst, codes, rows, cols, from); !bytes.Equal(dst, want) {
				t.Fatalf("%d rows, %d columns, %d apart: %x, want %x", rows, cols, from, dst, want)
			}
			for high := 1; high <= 2; high++ {
				if 32/high > cols || rows == 0 {
					continue
				}
				dst, want := bytes.Repeat([]byte{0xaa}, StepBytes), bytes.Repeat([]byte{0xaa}, StepBytes)
				clear(want[:4*rows])
				for row := range rows {
					for c := range 32 / high {
						want[4*row+c%4] |= codes[row*from+c] >> 4 & (1<<high - 1) << (high * (c / 4))
					}
				}
				if packHighs(dst, codes, rows, high, from); !bytes.Equal(dst, want) {
					t.Fatalf("%d rows, %d high bits, %d apart: %x, want %x", rows, high, from, dst, want)
				}
			}
		}
	}
}

func BenchmarkPacks(b *testing.B) {
	const n, k = 128, 2048
	r := rand.New(rand.NewPCG(10, 10))
	codes, words, turned := randomCodes(r, n*k), make([]byte, n*k/2), make([]byte, n*k/2)
	run := func(name string, f func()) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(n * k) // codes
			for b.Loop() {
				f()
			}
		})
	}
	run("join", func() { JoinNibbles(words, codes) })
	run("split", func() { SplitNibbles(codes, words) })
	run("weave", func() {
		for i := range n / 8 {
			Weave(words[4*i*k:], codes[8*i*k:], k)
		}
	})
	run("unweave", func() {
		for i := range n / 8 {
			Unweave(codes[8*i*k:], words[4*i*k:], k)
		}
	})
	run("transpose", func() { Transpose32(turned, words, n/8, k) })
	run("lows", func() {
		for i := 0; i < n; i += PanelRows {
			Lows(turned[i*k/2:], codes[i*k:], PanelRows, k, k)
		}
	})
}
