//go:build !purego

package kernel

import (
	"math"
	"unsafe"
)

var panelsAMX = func() panels {
	p := panelsBF16
	p.tiled = &tiled{
		signed: tileSigned, unsigned: tileUnsigned, unpack: unpackSigned,
		widen: [3]func(dst *float32, src *byte){widenFloat32, widenFloat16, widenBFloat16}, bytes: widenBytes,
	}
	return p
}()

var panelsAMXBF16 = func() panels {
	p := panelsAMX
	t := *p.tiled
	t.pairs, p.tiled = tilePairs, &t
	return p
}()

var (
	ceilingsAMX     = ceilings{readAVX512, peakInt8AMX, peakBF16}
	ceilingsAMXBF16 = ceilings{readAVX512, peakInt8AMX, peakBF16AMX}
)

// peakInt8AMX is PeakInt8 on tiles; a round is one dot product of full tiles.
func peakInt8AMX(rounds int) (n int32) {
	for _, v := range peakAMX(peakInt8Tiles, 0x01010101, rounds) {
		n += v
	}
	return n
}

// peakBF16AMX is PeakBF16 likewise.
func peakBF16AMX(rounds int) (n int32) {
	for _, v := range peakAMX(peakBF16Tiles, 0x3f803f80, rounds) {
		n += int32(math.Float32frombits(uint32(v)))
	}
	return n
}

// peakAMX returns the sums of four tiles after so many dot products of ones.
func peakAMX(run func(a *tileArgs, rounds int), ones int32, rounds int) *[4 * 16 * 16]int32 {
	w := newTileWork()
	exact := (*[2][4 * 16 * 16]int32)(unsafe.Pointer(w.args.exact))
	for i := range exact[0] {
		exact[0][i] = ones
	}
	run(&w.args, rounds)
	return &exact[1]
}

// tileSigned, tileUnsigned and tilePairs multiply what tileArgs says; their tiles are configured when they begin and released when they end.

//go:noescape
func tileSigned(a *tileArgs)

//go:noescape
func tileUnsigned(a *tileArgs)

//go:noescape
func tilePairs(a *tileArgs)

// These write the sums of four tiles, in which rounds dot products of ones were added up, behind the ones.

//go:noescape
func peakInt8Tiles(a *tileArgs, rounds int)

//go:noescape
func peakBF16Tiles(a *tileArgs, rounds int)

// unpackSigned makes 8-bit codes of steps of 4-bit codes, as unpack8 does, and takes a zero point of at most 128 off each row.
//
//go:noescape
func unpackSigned(dst, src, zeros *byte, steps int)

// These make 32 values of a type float32, or int32.

//go:noescape
func widenFloat32(dst *float32, src *byte)

//go:noescape
func widenFloat16(dst *float32, src *byte)

//go:noescape
func widenBFloat16(dst *float32, src *byte)

//go:noescape
func widenBytes(dst *int32, src *[PanelRows]byte)
