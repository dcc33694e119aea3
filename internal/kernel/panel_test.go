package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/x448/float16"

	"nibble/internal/mmap"
)

// The assembly reads the fields of a Product where its generator says they are.
func TestProductOffsets(t *testing.T) {
	var p Product
	for name, at := range map[string][2]uintptr{
		"Codes":   {unsafe.Offsetof(p.Codes), 0},
		"Type":    {unsafe.Offsetof(p.Type), 24},
		"Size":    {unsafe.Offsetof(p.Size), 32},
		"Zeros":   {unsafe.Offsetof(p.Zeros), 40},
		"Biases":  {unsafe.Offsetof(p.Biases), 48},
		"Mid":     {unsafe.Offsetof(p.Mid), 56},
		"Blocks":  {unsafe.Offsetof(p.Blocks), 64},
		"X":       {unsafe.Offsetof(p.X), 88},
		"Stride":  {unsafe.Offsetof(p.Stride), 112},
		"XScales": {unsafe.Offsetof(p.XScales), 120},
		"Sums":    {unsafe.Offsetof(p.Sums), 144},
		"Totals":  {unsafe.Offsetof(p.Totals), 168},
		"Row":     {unsafe.Offsetof(p.Row), 192},
		"Y":       {unsafe.Offsetof(p.Y), 200},
		"Panels":  {unsafe.Offsetof(p.Panels), 224},
		"Parts":   {unsafe.Offsetof(p.Parts), 232},
		"ahead":   {unsafe.Offsetof(p.ahead), 256},
		"block":   {unsafe.Sizeof(Block{}), 8},
	} {
		if at[0] != at[1] {
			t.Errorf("%s at %d, the assembly expects %d", name, at[0], at[1])
		}
	}
}

// panelCase is a product with weights that can be read one by one.
type panelCase struct {
	Product
	bits           int
	levels         bool // codes, which are those of IQ4Levels, are kept as their places there
	k              int
	codes          []uint8   // [32, k] in the order of columns
	scales, biases []byte    // [groups, 32] of Type; no biases: 0
	zeros          []byte    // [groups, 32]; none: Mid
	acts           []int8    // [tokens, k]
	bf16           []float32 // [tokens, k]
}

// randomPanels makes a product of so many tokens over blocks of so many steps, those of a group's other blocks negative.
func randomPanels(r *rand.Rand, bits, tokens int, steps []int, zero string, scale Float) *panelCase {
	c := &panelCase{bits: bits}
	c.Panels, c.Mid = 1, 1<<(bits-1)
	c.Head = NewHead(scale, zero == "integer", zero == "float")
	groups := 0
	for _, n := range steps {
		b := Block{Steps: int32(max(n, -n))}
		if n > 0 {
			b.Begins = -1
			groups++
		}
		c.Blocks = append(c.Blocks, b)
		c.k += int(b.Steps) * PanelStep
	}
	values := func(spread float64) []byte {
		b := make([]byte, groups*PanelRows*scale.Size())
		for i := range groups * PanelRows {
			v := float32(r.NormFloat64() * spread)
			switch scale {
			case Float32:
				binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
			case Float16:
				binary.LittleEndian.PutUint16(b[2*i:], float16.Fromfloat32(v).Bits())
			case BFloat16:
				narrow([]float32{v}, b[2*i:])
			}
		}
		return b
	}
	c.codes = make([]uint8, PanelRows*c.k)
	for i := range c.codes {
		c.codes[i] = uint8(r.IntN(1 << bits))
	}
	c.scales = values(0.02)
	switch zero {
	case "integer":
		c.zeros = make([]byte, groups*PanelRows)
		for i := range c.zeros {
			c.zeros[i] = byte(r.IntN(1 << bits))
		}
	case "float":
		c.biases = values(0.3)
	}
	c.lay()
	c.acts, c.bf16 = make([]int8, tokens*c.k), make([]float32, tokens*c.k)
	for i := range c.acts {
		c.acts[i] = int8(r.IntN(255) - 127)
		c.bf16[i] = roundBF16(float32(r.NormFloat64()))
	}
	c.Row = int64(tokens + MostTokens)
	c.XScales, c.Sums = make([]float32, len(steps)*int(c.Row)), make([]int32, len(steps)*int(c.Row))
	c.Totals = make([]float32, len(steps)*int(c.Row))
	at := 0
	for b, block := range c.Blocks {
		n := int(block.Steps) * PanelStep
		for t := range tokens {
			i := b*int(c.Row) + t
			c.XScales[i] = float32(r.Float64())
			for _, v := range c.acts[t*c.k+at:][:n] {
				c.Sums[i] -= int32(v)
			}
			for _, v := range c.bf16[t*c.k+at:][:n] {
				c.Totals[i] += v
			}
		}
		at += n
	}
	c.Y = make([]float32, (tokens+MostTokens)*PanelRows)
	return c
}

// roundBF16 rounds to bfloat16 and back.
func roundBF16(v float32) float32 {
	var b [2]byte
	narrow([]float32{v}, b[:])
	return BFloat16.At(b[:], 0)
}

// lay makes the panel as the comment on panels says.
func (c *panelCase) lay() {
	c.Codes = nil
	per := 4
	if c.bits <= 4 || c.levels {
		per = 8
	}
	at, group := 0, 0
	for _, b := range c.Blocks {
		if b.Begins != 0 && c.Size > 0 {
			n := PanelRows * c.Type.Size()
			c.Codes = append(c.Codes, c.scales[group*n:(group+1)*n]...)
			if c.biases != nil {
				c.Codes = append(c.Codes, c.biases[group*n:(group+1)*n]...)
			}
			if c.zeros != nil {
				c.Codes = append(c.Codes, c.zeros[group*PanelRows:(group+1)*PanelRows]...)
			}
			group++
		}
		for end := at + int(b.Steps)*PanelStep; at < end; at += per {
			for r := range PanelRows {
				for j := range 4 {
					code := func(i int) byte {
						v := c.codes[r*c.k+at+i]
						if c.levels {
							v = byte(slices.Index(IQ4Levels[:], v))
						}
						return v
					}
					v := code(j)
					if per == 8 {
						v |= code(4+j) << 4
					}
					c.Codes = append(c.Codes, v)
				}
			}
		}
	}
}

// asInt8 makes the activations int8, in rows with room behind them.
func (c *panelCase) asInt8(tokens int) {
	c.Stride = int64(c.k + 64)
	c.X = make([]byte, (tokens+MostTokens)*int(c.Stride))
	for t := range tokens {
		for i, v := range c.acts[t*c.k : (t+1)*c.k] {
			c.X[t*int(c.Stride)+i] = byte(v)
		}
	}
}

// asPairs makes them bfloat16.
func (c *panelCase) asPairs(tokens int) {
	c.Stride = int64(2*c.k + 64)
	c.X = make([]byte, (tokens+MostTokens)*int(c.Stride))
	for t := range tokens {
		for i := range c.k {
			v := c.bf16[t*c.k+i&^3+pairPlace[i&3]]
			narrow([]float32{v}, c.X[t*int(c.Stride)+2*i:])
		}
	}
}

// exact returns the product of a row in float64, and the sum of the magnitudes of what it adds up.
func (c *panelCase) exact(row, token int, integer bool) (sum, size float64) {
	at, i := 0, row-PanelRows
	for b, block := range c.Blocks {
		i -= int(block.Begins) * PanelRows
		s, z, bias := float64(c.Type.At(c.scales, i)), float64(c.Mid), 0.0
		if c.zeros != nil {
			z = float64(c.zeros[i])
		}
		if c.biases != nil {
			bias = float64(c.Type.At(c.biases, i))
		}
		for j := range int(block.Steps) * PanelStep {
			x := float64(c.bf16[token*c.k+at+j])
			if integer {
				x = float64(c.acts[token*c.k+at+j]) * float64(c.XScales[b*int(c.Row)+token])
			}
			q := float64(c.codes[row*c.k+at+j])
			sum += (s*(q-z) + bias) * x
			size += math.Abs(s*(q-float64(c.Mid))*x) + math.Abs(s*(z-float64(c.Mid))*x) + math.Abs(bias*x)
		}
		at += int(block.Steps) * PanelStep
	}
	return sum, size
}

// Products are those of the weights that codes, scales and zero points stand for, in every set the same bits.
func TestPanelProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	was := active
	t.Cleanup(func() { active = was })
	for _, bits := range []int{2, 4, 5, 8} {
		for _, steps := range [][]int{{1}, {4, 4}, {16, 16, -16, -3}, {2, 1, 16, 7}} {
			for _, zero := range []string{"symmetric", "integer", "float"} {
				for _, scale := range []Float{Float32, Float16, BFloat16} {
					for _, tokens := range []int{1, 2, 3, 4, 5, 8, 9, 12, 13, 21} {
						c := randomPanels(r, bits, tokens, steps, zero, scale)
						name := fmt.Sprintf("%d bits, steps %v, %s, scales %d, %d tokens", bits, steps, zero, scale, tokens)
						c.asInt8(tokens)
						testProduct(t, name+", int8", c, tokens, true)
						c.asPairs(tokens)
						testProduct(t, name+", bf16", c, tokens, false)
					}
				}
			}
		}
	}
}

// So are those of codes that are kept as places among levels.
func TestLevelProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 17))
	was := active
	t.Cleanup(func() { active = was })
	for _, steps := range [][]int{{4}, {4, 4, 4}, {3, 1, 16, -7}} {
		for _, zero := range []string{"symmetric", "integer", "float"} {
			for _, tokens := range []int{1, 2, 5, 9, 12, 21, 33} {
				c := randomLevels(r, tokens, steps, zero)
				testProduct(t, fmt.Sprintf("steps %v, %s, %d tokens", steps, zero, tokens), c, tokens, true)
			}
		}
	}
}

// randomLevels is randomPanels of such codes.
func randomLevels(r *rand.Rand, tokens int, steps []int, zero string) *panelCase {
	c := randomPanels(r, 8, tokens, steps, zero, Float16)
	c.levels = true
	for i := range c.codes {
		c.codes[i] = IQ4Levels[r.IntN(16)]
	}
	c.lay()
	c.asInt8(tokens)
	return c
}

func testProduct(t *testing.T, name string, c *panelCase, tokens int, integer bool) {
	t.Helper()
	product := func() []float32 {
		for i := range c.Y {
			c.Y[i] = 99
		}
		if c.levels {
			c.Levels4(tokens, make([]byte, 2*len(c.Codes)))
		} else {
			multiply(&c.Product, c.bits, integer, tokens)
		}
		return slices.Clone(c.Y[:tokens*PanelRows])
	}
	active = generic
	want := product()
	for i, v := range want {
		token, row := i/PanelRows, i%PanelRows
		exact, size := c.exact(row, token, integer)
		// Every operation rounds by 2^-24 of what is summed so far; a row of pairs adds up at most 128 of them a block.
		if d := math.Abs(float64(v) - exact); d > size*140*0x1p-24 {
			t.Fatalf("%s: token %d, row %d: %v, want %v", name, token, row, v, exact)
		}
	}
	for _, s := range sets[1:] {
		active = s
		got := product()
		for i := range want {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
				t.Fatalf("%s, %s: result %d is %v, want %v", name, s.name, i, got[i], want[i])
			}
		}
	}
}

// Several panels at once give what they give one by one.
func TestPanelsTogether(t *testing.T) { underEach(t, testPanelsTogether) }

func testPanelsTogether(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 12))
	for panels := 1; panels < 6; panels++ {
		testPanelsOf(t, r, panels)
	}
}

func testPanelsOf(t *testing.T, r *rand.Rand, panels int) {
	for _, bits := range []int{4, 8} {
		for _, zero := range []string{"symmetric", "integer", "float"} {
			for _, integer := range []bool{true, false} {
				var all *panelCase
				var want []float32
				for range panels {
					c := randomPanels(r, bits, 1, []int{4, 16, -16, 3}, zero, Float16)
					if all == nil {
						all = c
						c.asPairs(1)
						if integer {
							c.asInt8(1)
						}
					}
					one := all.Product
					one.Codes = c.Codes
					one.Y = make([]float32, PanelRows)
					multiply(&one, bits, integer, 1)
					want = append(want, one.Y...)
					if c != all {
						all.Codes = append(all.Codes, c.Codes...)
					}
				}
				all.Panels, all.Y = int64(panels), make([]float32, panels*PanelRows)
				multiply(&all.Product, bits, integer, 1)
				if !slices.Equal(all.Y, want) {
					t.Fatalf("%d bits, %s, int8 %v: %v, want %v", bits, zero, integer, all.Y, want)
				}
			}
		}
	}
}

// multiply runs the product for codes of so many bits and int8 or bfloat16 activations.
func multiply(p *Product, bits int, integer bool, tokens int) {
	scratch := make([]byte, 4*len(p.Codes))
	switch {
	case integer && bits <= 4:
		p.Codes4(tokens, scratch)
	case integer:
		p.Codes8(tokens)
	case bits <= 4:
		p.Codes4Pairs(tokens, scratch)
	default:
		p.Codes8Pairs(tokens, scratch)
	}
}

// The ends of the ranges: codes of 0 and 255, activations of ±127 and -128, zero points of 0 and 255.
func TestPanelExtremes(t *testing.T) { underEach(t, testPanelExtremes) }

func testPanelExtremes(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for _, bits := range []int{4, 8} {
		for _, code := range []uint8{0, uint8(1<<bits - 1)} {
			for _, zero := range []byte{0, byte(1<<bits - 1)} {
				for _, act := range []int8{-128, -127, 127} {
					const tokens = 12
					c := randomPanels(r, bits, tokens, []int{16, 16}, "integer", Float32)
					for i := range c.codes {
						c.codes[i] = code
					}
					for i := range c.zeros {
						c.zeros[i] = zero
						binary.LittleEndian.PutUint32(c.scales[4*i:], math.Float32bits(1))
					}
					c.lay()
					for i := range c.acts {
						c.acts[i] = act
					}
					for i := range c.Sums {
						c.Sums[i], c.XScales[i] = -128*int32(act), 1
					}
					c.asInt8(tokens)
					if bits == 4 {
						c.Codes4(tokens, make([]byte, 4*len(c.Codes)))
					} else {
						c.Codes8(tokens)
					}
					want := 2 * 128 * (float32(code) - float32(zero)) * float32(act)
					for i, v := range c.Y[:tokens*PanelRows] {
						if v != want {
							t.Fatalf("%d bits, code %d, zero %d, activation %d: result %d is %v, want %v", bits, code, zero, act, i, v, want)
						}
					}
				}
			}
		}
	}
}

// A scale that is no number, as QuantizeInt8 gives for activations that are none, makes its token's results none, and no other's.
func TestPanelNonFinite(t *testing.T) { underEach(t, testPanelNonFinite) }

func testPanelNonFinite(t *testing.T) {
	const tokens, bad = 12, 5
	c := randomPanels(rand.New(rand.NewPCG(7, 7)), 4, tokens, []int{4, 4}, "float", BFloat16)
	c.asInt8(tokens)
	c.XScales[int(c.Row)+bad] = float32(math.NaN())
	c.Codes4(tokens, make([]byte, 4*len(c.Codes)))
	for i, v := range c.Y[:tokens*PanelRows] {
		if (v != v) != (i/PanelRows == bad) {
			t.Fatalf("token %d: %v", i/PanelRows, v)
		}
	}
}

// RoundPairs rounds each value as narrow does, puts it in its place, and adds the rounded values up in the order of Dot.
func TestRoundPairs(t *testing.T) { underEach(t, testRoundPairs) }

func testRoundPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	special := []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
		math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, 0x1p-126, math.Float32frombits(0x7f800001),
		math.Float32frombits(0x3f808000), math.Float32frombits(0x3f818000), math.Float32frombits(0xffffffff)}
	for n := range 70 {
		for trial := range 20 {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(r.NormFloat64())
				if trial > 15 {
					x[i] = special[r.IntN(len(special))]
				}
			}
			dst, want := make([]byte, 2*n+8), make([]byte, 2*n+8)
			rounded, ones := make([]float32, n), make([]float32, n)
			for i := range x {
				to := want[2*(i&^3+pairPlace[i&3]):]
				narrow(x[i:i+1], to)
				rounded[i], ones[i] = BFloat16.At(to, 0), 1
			}
			got, sum := RoundPairs(dst, x), sixteen(rounded, ones)
			if math.Float32bits(got) != math.Float32bits(sum) && (got == got || sum == sum) {
				t.Fatalf("%v: sum %v, want %v", x, got, sum)
			}
			if !slices.Equal(dst, want) {
				t.Fatalf("%v: %x, want %x", x, dst, want)
			}
		}
	}
}

func BenchmarkPanel(b *testing.B) {
	for _, bits := range []int{4, 8} {
		for _, group := range []int{32, 128} {
			for _, tokens := range []int{1, 8, 120} {
				steps := slices.Repeat([]int{group / PanelStep}, 2048/group)
				c := randomPanels(rand.New(rand.NewPCG(8, 8)), bits, tokens, steps, "integer", Float16)
				scratch := make([]byte, 4*len(c.Codes))
				run := func(name string, f func()) {
					b.Run(fmt.Sprintf("%s-%dbit-g%d/tokens=%d", name, bits, group, tokens), func(b *testing.B) {
						b.SetBytes(int64(len(c.Codes)))
						for b.Loop() {
							f()
						}
						macs := float64(PanelRows*c.k*tokens) * float64(b.N)
						b.ReportMetric(macs/1e9/b.Elapsed().Seconds(), "GMAC/s")
					})
				}
				c.asInt8(tokens)
				if bits == 4 {
					run("int8", func() { c.Codes4(tokens, scratch) })
				} else {
					run("int8", func() { c.Codes8(tokens) })
				}
				c.asPairs(tokens)
				if bits == 4 {
					run("bf16", func() { c.Codes4Pairs(tokens, scratch) })
				} else {
					run("bf16", func() { c.Codes8Pairs(tokens, scratch) })
				}
			}
		}
	}
}

// Decoding reads panels from memory, one after the other.
func BenchmarkPanelStream(b *testing.B) {
	memory, err := mmap.Memory(256 << 20) // more than any cache
	if err != nil {
		b.Fatal(err)
	}
	defer mmap.Free(memory)
	for i := range memory {
		memory[i] = byte(i * 7)
	}
	const k, together = 2048, 16
	for _, bits := range []int{4, 8} {
		for _, group := range []int{128, 64, 32} {
			for _, zero := range []string{"symmetric", "integer", "float"} {
				c := randomPanels(rand.New(rand.NewPCG(8, 8)), bits, 1, slices.Repeat([]int{group / PanelStep}, k/group), zero, Float16)
				whole := together * len(c.Codes)
				count := len(memory) / whole
				c.Panels, c.Y = together, make([]float32, together*PanelRows)
				run := func(name string, f func()) {
					b.Run(fmt.Sprintf("%s-%dbit-g%d/%s", name, bits, group, zero), func(b *testing.B) {
						b.SetBytes(int64(count * whole))
						for b.Loop() {
							for i := range count {
								c.Codes = memory[i*whole : (i+1)*whole]
								f()
							}
						}
					})
				}
				c.asInt8(1)
				if bits == 8 {
					run("int8", func() { c.Codes8(1) })
					continue
				}
				run("int8", func() { c.Codes4(1, nil) })
				if !Unpacks(1) {
					c.asPairs(1)
					run("bf16", func() { c.Codes4Pairs(1, nil) })
				}
			}
		}
	}
	for _, group := range []int{128, 32} { // eight sequences together
		const tokens = 8
		c := randomPanels(rand.New(rand.NewPCG(8, 8)), 4, tokens, slices.Repeat([]int{group / PanelStep}, k/group), "symmetric", Float16)
		whole := len(c.Codes)
		c.asInt8(tokens)
		b.Run(fmt.Sprintf("int8-4bit-g%d/tokens=%d", group, tokens), func(b *testing.B) {
			b.SetBytes(int64(len(memory) / whole * whole))
			for b.Loop() {
				for at := 0; at+whole <= len(memory); at += whole {
					c.Codes = memory[at : at+whole]
					c.Codes4(tokens, nil)
				}
			}
		})
	}
	b.Run("read", func(b *testing.B) {
		b.SetBytes(int64(len(memory)))
		for b.Loop() {
			ReadWords(memory)
		}
	})
}
