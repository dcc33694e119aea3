//go:build !purego

package kernel

import "unsafe"

var panelsAMX = func() panels {
	p := panelsBF16
	p.tiled = &tiled{
		signed: tileSigned, unsigned: tileUnsigned, unpack: unpackSigned,
		widen: [3]func(dst *float32, src *byte){widenFloat32, widenFloat16, widenBFloat16}, bytes: widenBytes,
	}
	return p
}()

var ceilingsAMX = ceilings{readAVX512, peakInt8AMX, peakBF16}

// peakInt8AMX is PeakInt8 on tiles; a round is one dot product of full tiles.
func peakInt8AMX(rounds int) (n int32) {
	w := newTileWork()
	exact := (*[2][4 * 16 * 16]int32)(unsafe.Pointer(w.args.exact))
	for i := range exact[0] {
		exact[0][i] = 0x01010101
	}
	peakTiles(&w.args, rounds)
	for _, v := range exact[1] {
		n += v
	}
	return n
}

// tileSigned and tileUnsigned multiply what tileArgs says; their tiles are configured when they begin and released when they end.

//go:noescape
func tileSigned(a *tileArgs)

//go:noescape
func tileUnsigned(a *tileArgs)

// peakTiles writes the sums of four tiles, in which rounds dot products of ones were added up, behind the ones.
//
//go:noescape
func peakTiles(a *tileArgs, rounds int)

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
