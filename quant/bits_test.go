package quant_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"nibble/quant"
)

func TestPackBits(t *testing.T) {
	codes := []uint8{0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 7}
	p := make([]byte, quant.StreamBytes(len(codes), 3))
	quant.PackBits(p, codes, 3)
	// 11 codes of 3 bits: code 10 occupies bits 30 to 32.
	if got := fmt.Sprintf("% x", p); got != "88 c6 fa c8 01 00 00 00" {
		t.Error(got)
	}
}

func TestPackBitsInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(2, 8).Draw(t, "width")
		codes := rapid.SliceOfN(rapid.Uint8Max(uint8(1<<width-1)), 0, 100).Draw(t, "codes")
		p := slices.Repeat([]byte{0xff}, quant.StreamBytes(len(codes), width))
		quant.PackBits(p, codes, width)
		got := make([]uint8, len(codes))
		quant.UnpackBits(got, p, width)
		if !slices.Equal(got, codes) {
			t.Fatalf("got %v, want %v", got, codes)
		}
		for bit := len(codes) * width; bit < 8*len(p); bit++ {
			if p[bit/8]>>(bit%8)&1 != 0 {
				t.Fatalf("bit %d behind the codes is set", bit)
			}
		}
	})
}
