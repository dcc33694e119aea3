package kernel

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// The sum is that of the words, at every length, and what is behind the last 512 bytes is not read.
func TestReadWords(t *testing.T) { underEach(t, testReadWords) }

func testReadWords(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	p := make([]byte, 512*5+100)
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	var want uint64
	for n := range len(p) {
		if n%512 == 0 && n > 0 {
			for i := n - 512; i < n; i += 8 {
				want += binary.LittleEndian.Uint64(p[i:])
			}
		}
		if got := ReadWords(p[:n]); got != want {
			t.Fatalf("%d bytes: %#x, want %#x", n, got, want)
		}
	}
}

// A round has registers times lanes times products of an instruction; the arithmetic itself has counted them.
func TestPeaks(t *testing.T) { underEach(t, testPeaks) }

func testPeaks(t *testing.T) {
	want := map[string][2]int{ // int8, bf16
		"generic":    {1024, 1024},
		"avx2":       {8 * 8 * 4, 8 * 8},
		"avx512":     {16 * 16 * 4, 16 * 16},
		"avx512vnni": {16 * 16 * 4, 16 * 16},
		"avx512bf16": {16 * 16 * 4, 16 * 16 * 2},
		"amx":        {16 * 16 * 64, 16 * 16 * 2},
		"amxbf16":    {16 * 16 * 64, 16 * 16 * 32},
	}[active.name]
	for _, rounds := range []int{0, 1, 2, 77} {
		if n := PeakInt8(rounds); n != rounds*want[0] {
			t.Errorf("int8, %d rounds: %d, want %d each", rounds, n, want[0])
		}
		if n := PeakBF16(rounds); n != rounds*want[1] {
			t.Errorf("bf16, %d rounds: %d, want %d each", rounds, n, want[1])
		}
	}
}

func BenchmarkReadWords(b *testing.B) {
	p := make([]byte, 256<<20)
	for i := 0; i < len(p); i += 4096 {
		p[i] = 1
	}
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		ReadWords(p)
	}
}

func BenchmarkPeak(b *testing.B) {
	const rounds = 4096
	b.Run("int8", func(b *testing.B) {
		n := 0
		for b.Loop() {
			n += PeakInt8(rounds)
		}
		b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e9, "G/s")
	})
	b.Run("bf16", func(b *testing.B) {
		n := 0
		for b.Loop() {
			n += PeakBF16(rounds)
		}
		b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e9, "G/s")
	})
}
