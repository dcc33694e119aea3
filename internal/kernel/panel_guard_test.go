//go:build unix

package kernel

import (
	"math/rand/v2"
	"testing"
	"unsafe"
)

// moved returns a copy of x that ends where memory must not be touched.
func moved[T any](t *testing.T, x []T) []T {
	if len(x) == 0 {
		return x
	}
	size := int(unsafe.Sizeof(x[0]))
	b := guarded(t, size*len(x), true)
	y := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(x))
	copy(y, x)
	return y
}

// Products read and write what belongs to their panels and tokens, and the room for MostTokens behind the activations.
func TestPanelGuardPages(t *testing.T) { underEach(t, testPanelGuardPages) }

func testPanelGuardPages(t *testing.T) {
	r := rand.New(rand.NewPCG(20, 20))
	for _, bits := range []int{4, 8} {
		for _, zero := range []string{"symmetric", "integer", "float"} {
			for _, scale := range []Float{Float32, Float16, BFloat16} {
				for _, tokens := range []int{1, 2, 5, 12, 13} {
					c := randomPanels(r, bits, tokens, []int{16, 1}, zero, scale)
					c.Codes = moved(t, c.Codes)
					c.XScales, c.Sums, c.Totals = moved(t, c.XScales), moved(t, c.Sums), moved(t, c.Totals)
					c.Blocks, c.Y = moved(t, c.Blocks), moved(t, c.Y)
					scratch := moved(t, make([]byte, 4*len(c.Codes)))
					for _, integer := range []bool{true, false} {
						if c.asPairs(tokens); integer {
							c.asInt8(tokens)
						}
						c.X = moved(t, c.X)
						switch {
						case integer && bits == 4:
							c.Codes4(tokens, scratch)
						case integer:
							c.Codes8(tokens)
						case bits == 4:
							c.Codes4Pairs(tokens, scratch)
						default:
							c.Codes8Pairs(tokens, scratch)
						}
					}
				}
			}
		}
	}
}

// So do those of codes of levels.
func TestLevelGuardPages(t *testing.T) {
	underEach(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(23, 23))
		for _, tokens := range []int{1, 2, 13} {
			c := randomLevels(r, tokens, []int{4, 3}, "integer")
			c.Codes, c.X, c.Y, c.Blocks = moved(t, c.Codes), moved(t, c.X), moved(t, c.Y), moved(t, c.Blocks)
			c.XScales, c.Sums = moved(t, c.XScales), moved(t, c.Sums)
			c.Levels4(tokens, moved(t, make([]byte, 2*len(c.Codes))))
		}
	})
}

// So do those of scales in two levels.
func TestKBlockGuardPages(t *testing.T) { underEach(t, testKBlockGuardPages) }

func testKBlockGuardPages(t *testing.T) {
	r := rand.New(rand.NewPCG(22, 22))
	for _, kind := range kinds {
		for _, tokens := range []int{1, 2, 5, 12, 13} {
			c := randomK(r, kind, tokens, 2)
			c.Codes, c.X, c.Y, c.Blocks = moved(t, c.Codes), moved(t, c.X), moved(t, c.Y), moved(t, c.Blocks)
			c.XScales, c.Sums, c.Parts = moved(t, c.XScales), moved(t, c.Sums), moved(t, c.Parts)
			c.KBlocks(kind, tokens, moved(t, make([]byte, 2*2*KColumns*PanelRows)))
		}
	}
}

// So do rounding to pairs and the products of rows in float32.
func TestRowsGuardPages(t *testing.T) { underEach(t, testRowsGuardPages) }

func testRowsGuardPages(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 21))
	for n := 1; n < 70; n++ {
		x, _ := random(r, n)
		RoundPairs(moved(t, make([]byte, 2*((n+3)&^3))), moved(t, x))
	}
	for _, k := range []int{1, 16, 48, 50} {
		for rows := 1; rows < 7; rows++ {
			for tokens := 1; tokens < 9; tokens++ {
				w, _ := random(r, (rows-1)*(k+3)+k)
				x, _ := random(r, tokens*k)
				y := make([]float32, (tokens-1)*rows+rows)
				DotRows(moved(t, y), rows, moved(t, w), moved(t, x), rows, tokens, k+3, k)
			}
		}
	}
}
