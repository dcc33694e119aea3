package kernel

import "encoding/binary"

// ceilings are loops that do one thing as fast as a set can: what the speed of everything else is held against. What they
// return is counted by the very arithmetic that is measured.
type ceilings struct {
	read func(p []byte) uint64 // a multiple of 512 bytes
	int8 func(rounds int) int32
	bf16 func(rounds int) int32
}

var ceilingsGeneric = ceilings{readGeneric, peakInt8Generic, peakBF16Generic}

// ReadWords reads all of p with the widest loads of the set and returns the sum of its little-endian 64-bit words. What
// is behind the last multiple of 512 bytes is not read.
func ReadWords(p []byte) uint64 { return active.read(p[:len(p)&^511]) }

// mostRounds keeps the counts exact in float32 and int32.
const mostRounds = 1 << 16

// PeakInt8 does nothing but multiply int8 and add the products up, from registers where the set is in assembly, and
// returns the number of products; a round has some hundreds of them. More than 65536 rounds are cut to those.
func PeakInt8(rounds int) int { return int(active.int8(min(rounds, mostRounds))) }

// PeakBF16 is PeakInt8 for products in bfloat16; in float32, each product rounded, under sets without such instructions.
func PeakBF16(rounds int) int { return int(active.bf16(min(rounds, mostRounds))) }

func readGeneric(p []byte) (sum uint64) {
	var a, b, c, d uint64
	for ; len(p) >= 32; p = p[32:] {
		a += binary.LittleEndian.Uint64(p)
		b += binary.LittleEndian.Uint64(p[8:])
		c += binary.LittleEndian.Uint64(p[16:])
		d += binary.LittleEndian.Uint64(p[24:])
	}
	return a + b + c + d
}

// peakLength is the number of products in a round of plain Go, which reads its operands from the first cache.
const peakLength = 1024

var (
	onesInt8  [peakLength]int8
	onesBF16  [2 * peakLength]byte
	onesFloat [peakLength]float32
)

func init() {
	for i := range peakLength {
		onesInt8[i], onesFloat[i] = 1, 1
		binary.LittleEndian.PutUint16(onesBF16[2*i:], 0x3f80)
	}
}

func peakInt8Generic(rounds int) (n int32) {
	for range rounds {
		n += dotInt8(onesInt8[:], onesInt8[:])
	}
	return n
}

// dotInt8 returns Σ w[i]·x[i] of slices of the same length, a multiple of 8.
func dotInt8(w, x []int8) int32 {
	var a, b, c, d int32
	for i := 0; i < len(w); i += 8 {
		p, q := (*[8]int8)(w[i:]), (*[8]int8)(x[i:])
		a += int32(p[0])*int32(q[0]) + int32(p[4])*int32(q[4])
		b += int32(p[1])*int32(q[1]) + int32(p[5])*int32(q[5])
		c += int32(p[2])*int32(q[2]) + int32(p[6])*int32(q[6])
		d += int32(p[3])*int32(q[3]) + int32(p[7])*int32(q[7])
	}
	return a + b + c + d
}

func peakBF16Generic(rounds int) (n int32) {
	for range rounds {
		n += int32(dotBF16(onesBF16[:], onesFloat[:]))
	}
	return n
}
