package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// fused returns x·y + z, rounded once.
func fma(x, y, z float32) float32 {
	exact := func(v float32) *big.Float { return new(big.Float).SetPrec(400).SetFloat64(float64(v)) }
	v, _ := exact(0).Add(exact(0).Mul(exact(x), exact(y)), exact(z)).Float32()
	return v
}

// onTiles is what the set amxbf16 makes of a token and a row, as amx.go says.
func onTiles(c *panelCase, token, row int) (y float32) {
	x, at, i := c.X[token*int(c.Stride):], 0, row-PanelRows
	for b, block := range c.Blocks {
		i -= int(block.Begins) * PanelRows
		pairs := int(block.Steps) * PanelStep / 2
		var sum float32
		for first := 0; first < pairs; first += 16 {
			var even, odd float32
			for k := first; k < min(first+16, pairs); k++ {
				column := at + k/2*4 + k%2
				w0, w1 := c.codes[row*c.k+column], c.codes[row*c.k+column+2]
				pair := x[2*at+4*k:]
				even = float32(float64(BFloat16.At(pair, 0))*float64(int(w0)-int(c.Mid)) + float64(even)) // 16 bits and 24: no double rounding
				odd = float32(float64(BFloat16.At(pair, 1))*float64(int(w1)-int(c.Mid)) + float64(odd))
			}
			sum += even + odd
		}
		total := c.Totals[b*int(c.Row)+token]
		if c.zeros != nil {
			sum = fma(float32(int(c.Mid)-int(c.zeros[i])), total, sum)
		}
		scale := float32(1)
		if c.Size > 0 {
			scale = c.Type.At(c.scales, i)
		}
		y = fma(sum, scale, y)
		if c.biases != nil {
			y = fma(total, c.Type.At(c.biases, i), y)
		}
		at += int(block.Steps) * PanelStep
	}
	return y
}

// Products of bfloat16 on tiles have the bits of their definition, whatever is left over of tokens and columns, and are as close to the exact
// ones as those of other sets: of a block of 128 columns, an operation rounds a product and what it is added to at most 16 times on its
// way through a tile, twice at its end, four times from tile to tile, and three times when it is scaled; then come the other blocks.
func TestPairsOnTiles(t *testing.T) {
	was := active
	t.Cleanup(func() { active = was })
	usable, _ := AMX()
	if err := Select("amxbf16"); (err == nil) != usable {
		t.Fatalf("usable %v: %v", usable, err)
	} else if !usable {
		return
	}
	r := rand.New(rand.NewPCG(50, 50))
	for i, steps := range [][]int{{1}, {4, 4}, {16, 16, 16, 3}, {2, 1, 16, 7}, slices.Repeat([]int{16}, 5), slices.Repeat([]int{1}, tileBlocks+3), {5, 16, 6, 16}} {
		for j, zero := range []string{"symmetric", "integer", "float", "none"} {
			for _, bits := range []int{4, 8} {
				tokens := []int{9, 12, 16, 17, 31, 32, 33, 48, 65}[(4*i+3*j+bits)%9]
				c := randomPanels(r, bits, tokens, steps, zero, Float((i+j)%3))
				if zero == "none" {
					c.Head = Head{}
					c.lay()
				}
				c.asPairs(tokens)
				scratch := make([]byte, 4*len(c.Codes))
				name := fmt.Sprintf("%d bits, steps %v, %s, %d tokens", bits, steps, zero, tokens)
				check := func(name string) {
					t.Helper()
					for k, v := range c.Y[:tokens*PanelRows] {
						token, row := k/PanelRows, k%PanelRows
						if want := onTiles(c, token, row); math.Float32bits(v) != math.Float32bits(want) {
							t.Fatalf("%s: token %d, row %d: %v, want %v", name, token, row, v, want)
						}
						if c.Size > 0 {
							exact, size := c.exact(row, token, false)
							if d := math.Abs(float64(v) - exact); d > size*float64(16+2+4+3+len(steps))*0x1p-24 {
								t.Fatalf("%s: token %d, row %d: %v, want %v", name, token, row, v, exact)
							}
						}
						c.Y[k] = 99
					}
				}
				if bits == 4 {
					c.Codes4Pairs(tokens, scratch)
				} else {
					c.Codes8Pairs(tokens, scratch)
				}
				check(name)
				// The same panel as pairs.
				kept := formPairs4
				if bits == 8 {
					kept = formPairs8
				}
				c.widen(kept, scratch)
				c.Codes = scratch
				c.Pairs(tokens)
				check(name + ", kept as pairs")
			}
		}
	}
}

// A NaN reaches the results of its token and no others, and so does an infinity.
func TestPairsOnTilesNonFinite(t *testing.T) {
	was := active
	t.Cleanup(func() { active = was })
	if Select("amxbf16") != nil {
		return // TestPairsOnTiles says whether it should be there
	}
	r := rand.New(rand.NewPCG(51, 51))
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
		const tokens = 20
		c := randomPanels(r, 4, tokens, []int{16, 5}, "float", Float16)
		c.asPairs(tokens)
		at := r.IntN(tokens)
		binary.LittleEndian.PutUint16(c.X[at*int(c.Stride)+2*r.IntN(c.k):], uint16(math.Float32bits(bad)>>16))
		c.Codes4Pairs(tokens, make([]byte, 4*len(c.Codes)))
		for k, v := range c.Y[:tokens*PanelRows] {
			if finite := !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0); finite == (k/PanelRows == at) {
				t.Errorf("%v for token %d: token %d has %v", bad, at, k/PanelRows, v)
			}
		}
	}
}
