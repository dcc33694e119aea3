package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/x448/float16"

	"nibble/internal/mmap"
)

// kinds are all kinds by their names.
var kinds = map[string]KBlock{"q4_k": Q4K, "q5_k": Q5K, "q6_k": Q6K, "iq4_xs": IQ4XS}

// kCase is a product of one panel with weights that can be read one by one.
type kCase struct {
	Product
	kind KBlock
	rows [][PanelRows]kTestRow // of every record
	acts []int8                // [tokens, k]
}

// kTestRow is a row of a record with its codes.
type kTestRow struct {
	KRow
	Codes [KColumns]uint8
}

// randomK makes a product of so many tokens and records. fill says what rows and activations are like.
func randomK(r *rand.Rand, kind KBlock, tokens, records int) *kCase {
	c := &kCase{kind: kind, rows: make([][PanelRows]kTestRow, records), acts: make([]int8, tokens*records*KColumns)}
	bits := 4 + kblocks[kind].high
	for i := range c.rows {
		for j := range c.rows[i] {
			row := &c.rows[i][j]
			row.D, row.DMin = float16.Fromfloat32(float32(r.NormFloat64())).Bits(), float16.Fromfloat32(float32(r.NormFloat64())).Bits()
			for g := range row.Scales {
				row.Scales[g], row.Mins[g] = int8(r.IntN(256)), uint8(r.IntN(64))
			}
			for q := range row.Codes {
				row.Codes[q] = uint8(r.IntN(1 << bits))
			}
		}
	}
	for i := range c.acts {
		c.acts[i] = int8(r.IntN(256))
	}
	c.lay(r, tokens)
	return c
}

// lay puts rows and activations in their places.
func (c *kCase) lay(r *rand.Rand, tokens int) {
	k, size := len(c.rows)*KColumns, c.kind.KBytes()
	c.Panels, c.Codes = 1, make([]byte, len(c.rows)*size)
	for i := range c.rows {
		var rows []KRow
		var codes []uint8
		for j := range c.rows[i] {
			rows, codes = append(rows, c.rows[i][j].KRow), append(codes, c.rows[i][j].Codes[:]...)
		}
		c.kind.Place(c.Codes[i*size:], 0, PanelRows, rows, 1, codes, KColumns)
	}
	c.Blocks = make([]Block, 2*len(c.rows))
	c.Row, c.Stride = int64(tokens+MostTokens), int64(k+64)
	c.X = make([]byte, int(c.Row*c.Stride))
	c.XScales, c.Sums = make([]float32, len(c.Blocks)*int(c.Row)), make([]int32, len(c.Blocks)*int(c.Row))
	c.Parts = make([]int16, len(c.Blocks)*int(c.Row)*KParts)
	for t := range tokens {
		row := Int8s(c.X[t*int(c.Stride):])
		copy(row, c.acts[t*k:(t+1)*k])
		for b := range c.Blocks {
			at := b*int(c.Row) + t
			c.XScales[at] = float32(r.Float64())
			PartSums((*[KParts]int16)(c.Parts[at*KParts:]), (*[WidestBlock]int8)(row[b*WidestBlock:]))
		}
	}
	c.Y = make([]float32, (tokens+MostTokens)*PanelRows)
}

// exact returns the product of a row in float64, and the sum of the magnitudes of what it adds up.
func (c *kCase) exact(row, token int) (sum, size float64) {
	x := &kblocks[c.kind]
	for i := range c.rows {
		w := &c.rows[i][row]
		d, least := float64(float16.Frombits(w.D).Float32()), float64(float16.Frombits(w.DMin).Float32())
		for j, q := range w.Codes {
			act := float64(c.acts[token*len(c.rows)*KColumns+i*KColumns+j])
			act *= float64(c.XScales[(2*i+j/WidestBlock)*int(c.Row)+token])
			code := int(q)
			if x.table != nil {
				code = int(x.table[q])
			}
			v := d * float64(w.Scales[j/x.group]) * float64(code-int(x.mid)) * act
			sum, size = sum+v, size+math.Abs(v)
			if x.mins {
				v = -least * float64(w.Mins[j/x.group]) * act
				sum, size = sum+v, size+math.Abs(v)
			}
		}
	}
	return sum, size
}

// holds fails unless every set gives the bits of the plain code, and that is near the exact product.
func (c *kCase) holds(t *testing.T, name string, tokens int) {
	t.Helper()
	was := active
	defer func() { active = was }()
	var want []float32
	for _, s := range sets {
		active = s
		for i := range c.Y {
			c.Y[i] = 99
		}
		c.KBlocks(c.kind, tokens, make([]byte, 2*len(c.rows)*KColumns*PanelRows))
		got := c.Y[:tokens*PanelRows]
		if want == nil {
			want = slices.Clone(got)
			for i, v := range want {
				exact, size := c.exact(i%PanelRows, i/PanelRows)
				if d := math.Abs(float64(v) - exact); d > size*float64(4+len(c.Blocks))*0x1p-24 {
					t.Fatalf("%s: token %d, row %d: %v, want %v", name, i/PanelRows, i%PanelRows, v, exact)
				}
			}
		}
		for i := range want {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
				t.Fatalf("%s, %s: result %d is %v, want %v", name, s.name, i, got[i], want[i])
			}
		}
	}
}

// Products are those of the weights that the records stand for, in every set the same bits.
func TestKBlockProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 31))
	for name, kind := range kinds {
		for _, records := range []int{1, 2, 5} {
			for _, tokens := range []int{1, 2, 3, 4, 5, 8, 9, 12, 17} {
				randomK(r, kind, tokens, records).holds(t, fmt.Sprintf("%s, %d records, %d tokens", name, records, tokens), tokens)
			}
		}
	}
}

// The ends of the ranges: codes of 0 and all bits, scales of ±127 and -128, minimums of 0 and 63, activations of ±127 and -128.
func TestKBlockExtremes(t *testing.T) {
	r := rand.New(rand.NewPCG(32, 32))
	const tokens = 9
	for name, kind := range kinds {
		for _, code := range []uint8{0, uint8(1<<(4+kblocks[kind].high) - 1)} {
			for _, scale := range []int8{-128, 127} {
				for _, act := range []int8{-128, -127, 127} {
					c := randomK(r, kind, tokens, 2)
					for i := range c.rows {
						for j := range c.rows[i] {
							row := &c.rows[i][j]
							for g := range row.Scales {
								row.Scales[g], row.Mins[g] = scale, 63*(code&1)
							}
							for q := range row.Codes {
								row.Codes[q] = code
							}
						}
					}
					for i := range c.acts {
						c.acts[i] = act
					}
					c.lay(r, tokens)
					c.holds(t, fmt.Sprintf("%s, code %d, scale %d, activation %d", name, code, scale, act), tokens)
				}
			}
		}
	}
}

// What is put into a record comes back.
func TestKBlockPlace(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 33))
	for name, kind := range kinds {
		c := randomK(r, kind, 1, 1)
		x := &kblocks[kind]
		for row := range PanelRows {
			var got kTestRow
			kind.Take(&got.KRow, &got.Codes, c.Codes, row)
			want := c.rows[0][row]
			if !x.mins {
				want.DMin, want.Mins = 0, [16]uint8{}
			}
			clear(want.Scales[KColumns/x.group:])
			clear(want.Mins[KColumns/x.group:])
			if x.table != nil {
				for i, q := range want.Codes {
					want.Codes[i] = x.table[q]
				}
			}
			if got != want {
				t.Fatalf("%s, row %d: %v, want %v", name, row, got, want)
			}
		}
	}
}

// A record is as large as the table of docs/kernels.md says: 4.625, 5.625, 6.5625 and 4.3125 bits for a weight.
func TestKBlockSizes(t *testing.T) {
	for kind, want := range map[KBlock]float64{Q4K: 4.625, Q5K: 5.625, Q6K: 6.5625, IQ4XS: 4.3125} {
		if got := float64(kind.KBytes()) * 8 / (KColumns * PanelRows); got != want {
			t.Errorf("kind %d: %v bits for a weight, want %v", kind, got, want)
		}
	}
}

// Sums of parts are the sums of what is in them, at the ends of the range too.
func TestPartSums(t *testing.T) {
	r := rand.New(rand.NewPCG(34, 34))
	for trial := range 50 {
		var x [WidestBlock]int8
		for i := range x {
			x[i] = []int8{-128, 127, int8(r.IntN(256))}[min(trial, 2)]
		}
		var got, want [KParts]int16
		PartSums(&got, &x)
		for i, v := range x {
			want[i/16] += int16(v)
			want[8+i/32] += int16(v)
		}
		if got != want {
			t.Fatalf("%v: %v, want %v", x, got, want)
		}
	}
}

// Several panels at once give what they give one by one.
func TestKBlocksTogether(t *testing.T) { underEach(t, testKBlocksTogether) }

func testKBlocksTogether(t *testing.T) {
	r := rand.New(rand.NewPCG(35, 35))
	for name, kind := range kinds {
		all := randomK(r, kind, 1, 3)
		all.KBlocks(kind, 1, nil)
		want := slices.Clone(all.Y[:PanelRows])
		for range 3 {
			c := randomK(r, kind, 1, 3)
			one := all.Product
			one.Codes, one.Panels, one.Y = c.Codes, 1, make([]float32, PanelRows)
			one.KBlocks(kind, 1, nil)
			want = append(want, one.Y...)
			all.Codes = append(all.Codes, c.Codes...)
		}
		all.Panels = 4
		all.KBlocks(kind, 1, nil)
		if !slices.Equal(all.Y[:4*PanelRows], want) {
			t.Fatalf("%s: %v, want %v", name, all.Y[:4*PanelRows], want)
		}
	}
}

// Whatever rows, scales and tokens, every set gives the bits of the plain code.
func FuzzKBlocks(f *testing.F) {
	f.Add(uint64(1), uint8(0), uint8(1), uint8(1))
	f.Add(uint64(2), uint8(1), uint8(8), uint8(2))
	f.Add(uint64(3), uint8(2), uint8(13), uint8(3))
	f.Add(uint64(4), uint8(3), uint8(5), uint8(1))
	f.Fuzz(func(t *testing.T, seed uint64, kind, tokens, records uint8) {
		n, k := 1+int(tokens)%20, KBlock(1+kind%4)
		c := randomK(rand.New(rand.NewPCG(seed, 2)), k, n, 1+int(records)%4)
		c.holds(t, fmt.Sprintf("kind %d, %d tokens", k, n), n)
	})
}

func BenchmarkKBlocks(b *testing.B) {
	for name, kind := range kinds {
		for _, tokens := range []int{1, 8, 120} {
			b.Run(fmt.Sprintf("%s/tokens=%d", name, tokens), func(b *testing.B) {
				c := randomK(rand.New(rand.NewPCG(8, 8)), kind, tokens, 8)
				scratch := make([]byte, 2*len(c.rows)*KColumns*PanelRows)
				b.SetBytes(int64(len(c.Codes)))
				for b.Loop() {
					c.KBlocks(kind, tokens, scratch)
				}
				b.ReportMetric(float64(PanelRows*8*KColumns*tokens)*float64(b.N)/1e9/b.Elapsed().Seconds(), "GMAC/s")
			})
		}
	}
}

// Decoding reads panels from memory, one after the other.
func BenchmarkKBlocksStream(b *testing.B) {
	memory, err := mmap.Memory(256 << 20) // more than any cache
	if err != nil {
		b.Fatal(err)
	}
	defer mmap.Free(memory)
	for i := range memory {
		memory[i] = byte(i * 7)
	}
	for name, kind := range kinds {
		b.Run(name, func(b *testing.B) {
			c := randomK(rand.New(rand.NewPCG(8, 8)), kind, 1, 8)
			size := 16 * len(c.Codes)
			c.Panels, c.Y = 16, make([]float32, 16*PanelRows)
			b.SetBytes(int64(len(memory) / size * size))
			for b.Loop() {
				for at := 0; at+size <= len(memory); at += size {
					c.Codes = memory[at : at+size]
					c.KBlocks(kind, 1, nil)
				}
			}
		})
	}
}
