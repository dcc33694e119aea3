package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// keep gives a test slices as they are.
func keep[T any](_ *testing.T, x []T) []T { return x }

// someOf returns n values over a wide range, one in twenty of them zero, subnormal, infinite or NaN.
func someOf[T float32 | float64](r *rand.Rand, n int) []T {
	x := make([]T, n)
	for i := range x {
		x[i] = T(r.NormFloat64() * math.Exp2(float64(r.IntN(20)-10)))
		if r.IntN(20) == 0 {
			x[i] = []T{0, T(math.Copysign(0, -1)), T(math.Inf(1)), T(math.Inf(-1)), T(math.NaN()), T(math.Exp2(-140)), T(-math.Exp2(-1060))}[r.IntN(7)]
		}
	}
	return x
}

// sameOf fails a test where numbers differ in bits and are not both NaN.
func sameOf[T float32 | float64](t *testing.T, what string, got, want []T) {
	t.Helper()
	for i, v := range got {
		if w := want[i]; math.Float64bits(float64(v)) != math.Float64bits(float64(w)) && (v == v || w == w) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, v, w)
		}
	}
}

// Tiles of every width have the bits of the plain loop, and nothing beside them is written.
func TestOuter(t *testing.T) {
	underEach(t, func(t *testing.T) {
		testOuter(t, keep[float32])
		testOuter(t, keep[float64])
		testDivide(t, keep[float64])
	})
}

func testOuter[T float32 | float64](t *testing.T, place func(*testing.T, []T) []T) {
	r := rand.New(rand.NewPCG(30, 30))
	o := OuterOf[T]()
	for cols := o.Lanes; cols <= o.Cols; cols += o.Lanes {
		for _, k := range []int{0, 1, 2, 3, 10, 67} {
			for _, packed := range []bool{false, true} {
				ldc, bs, rs, ks := cols+r.IntN(3), cols+r.IntN(3), k+r.IntN(3), 1
				if packed {
					rs, ks = 1, o.Rows+r.IntN(3)
				}
				c := place(t, someOf[T](r, (o.Rows-1)*ldc+cols))
				a := place(t, someOf[T](r, max(0, (o.Rows-1)*rs+(k-1)*ks+1)))
				b := place(t, someOf[T](r, max(0, (k-1)*bs+cols)))
				sum, difference := slices.Clone(c), slices.Clone(c)
				for i := range o.Rows {
					for j := range cols {
						for s := range k {
							p := T(a[i*rs+s*ks] * b[s*bs+j])
							sum[i*ldc+j] += p
							difference[i*ldc+j] -= p
						}
					}
				}
				was := slices.Clone(c)
				what := fmt.Sprintf("%T, %d columns, k %d", T(0), cols, k)
				o.Add(c, ldc, a, rs, ks, b, bs, k, cols)
				sameOf(t, what+", added", c, sum)
				copy(c, was)
				o.Sub(c, ldc, a, rs, ks, b, bs, k, cols)
				sameOf(t, what+", subtracted", c, difference)
			}
		}
	}
}

func testDivide(t *testing.T, place func(*testing.T, []float64) []float64) {
	r := rand.New(rand.NewPCG(31, 31))
	o := OuterOf[float64]()
	for cols := o.Lanes; cols <= o.Cols; cols += o.Lanes {
		for range 20 {
			ldy, ldl := cols+r.IntN(3), o.Rows+r.IntN(3)
			y, l := place(t, someOf[float64](r, (o.Rows-1)*ldy+cols)), place(t, someOf[float64](r, (o.Rows-1)*ldl+o.Rows))
			want := slices.Clone(y)
			for i := range o.Rows {
				for j := range cols {
					for k := range i {
						want[i*ldy+j] -= float64(l[i*ldl+k] * want[k*ldy+j])
					}
					want[i*ldy+j] /= l[i*ldl+i]
				}
			}
			o.Divide(y, ldy, l, ldl, cols)
			sameOf(t, fmt.Sprintf("%d columns", cols), y, want)
		}
	}
}

// What is kept of a value times a factor: rounded to bfloat16, ties to even, between the bounds.
func TestMomentBits(t *testing.T) {
	for _, tt := range []struct{ v, want float32 }{
		{1, 1}, {-3, -3}, {0, 0}, {float32(math.Copysign(0, -1)), 0},
		{0x1.01p0, 0x1p0}, {0x1.03p0, 0x1.04p0}, {0x1.010002p0, 0x1.02p0},
		{0x1p-56, 0x1p-56}, {-0x1.fep-57, 0}, {0x1.ffp-57, 0x1p-56}, {0x1p-149, 0},
		{0x1.fep63, 0x1.fep63}, {0x1.fffffep63, nan}, {-0x1p64, nan}, {inf, nan}, {-inf, nan}, {0x1.02p100, nan}, {nan, nan},
	} {
		if got := math.Float32frombits(momentBits(tt.v)); got != tt.want && (got == got || tt.want == tt.want) ||
			math.Signbit(float64(got)) != math.Signbit(float64(tt.want)) && got == got {
			t.Errorf("%x becomes %x, want %x", tt.v, got, tt.want)
		}
	}
}

// Every value of bfloat16 is packed as it is defined.
func TestMomentPack(t *testing.T) { underEach(t, testMomentPack) }

func testMomentPack(t *testing.T) {
	m := MomentBF16()
	const cols, rows, width = 256, 256, 257
	x := make([]byte, 2*cols*rows)
	for i := range cols * rows {
		binary.LittleEndian.PutUint16(x[2*i:], uint16(i))
	}
	for _, s := range []float32{1, 0, 0.7071, 1.5, 1e-20, 1e30, inf, nan} {
		w := make([]float32, rows)
		for i := range w {
			w[i] = s
		}
		got := make([]float32, rows/2*m.Steps*width)
		for i := range got {
			got[i] = 7
		}
		want := slices.Clone(got)
		m.Pack(got, x, 2*cols, w, cols-1, width)
		if m.Steps == 1 {
			packMomentPairs(want, x, 2*cols, w, cols-1, width)
		} else {
			packMoments(want, x, 2*cols, w, cols-1, width)
		}
		for i, v := range got {
			// The payload of a NaN may differ.
			if g, w := math.Float32bits(v), math.Float32bits(want[i]); !sameBF16(g>>16, w>>16) || !sameBF16(g&0xffff, w&0xffff) {
				t.Fatalf("factor %v: element %d is %08x, want %08x", s, i, g, w)
			}
		}
	}
}

// sameBF16 reports whether two bfloat16 have the same bits or are NaN both.
func sameBF16(x, y uint32) bool { return x == y || x&0x7fff > 0x7f80 && y&0x7fff > 0x7f80 }

// Sums of rows are those of the specification: of float32 with products rounded, of bfloat16 the second of a pair first.
func TestMomentTiles(t *testing.T) {
	underEach(t, func(t *testing.T) { testMomentTiles(t, keep[float32], keep[float64], keep[byte]) })
}

func testMomentTiles(t *testing.T, place func(*testing.T, []float32) []float32, place64 func(*testing.T, []float64) []float64,
	placeBytes func(*testing.T, []byte) []byte) {
	r := rand.New(rand.NewPCG(32, 32))
	for _, rows := range []int{0, 2, 4, 8, 34, 136} {
		for _, bf16 := range []bool{false, true} {
			m, steps := Moment32(), rows
			if bf16 {
				m = MomentBF16()
				steps = rows / 2 * m.Steps
			}
			if m.Across && (rows == 0 || rows%8 > 0) {
				continue // it takes four steps and their multiples
			}
			for cols := m.Lanes; cols <= m.Cols; cols += m.Lanes {
				x, raw := random(r, rows*cols)
				panel := place(t, make([]float32, steps*cols))
				if bf16 {
					w := make([]float32, rows)
					for i := range w {
						w[i] = 1
					}
					m.Pack(panel, placeBytes(t, raw), 2*cols, place(t, w), cols, cols)
				} else {
					copy(panel, x)
				}
				ldc := cols + r.IntN(3)
				c := place64(t, someOf[float64](r, (m.Rows-1)*ldc+cols))
				want := slices.Clone(c)
				for i := range m.Rows {
					for j := range cols {
						var sum float32
						for s := range rows {
							if bf16 {
								s ^= 1
							}
							sum += float32(x[s*cols+i] * x[s*cols+j])
						}
						if m.Across {
							sum = sumOnTiles(x, cols, rows, i, j)
						}
						want[i*ldc+j] += float64(sum)
					}
				}
				a, ks := panel, cols
				if m.Across {
					a, ks = place(t, make([]float32, len(panel))), steps
					TransposeBetween(Bytes(a), Bytes(panel), steps, cols, 4*ks, 4*cols)
				}
				m.Add(c, ldc, a, ks, panel, cols, steps, cols)
				sameOf(t, fmt.Sprintf("bfloat16 %v, %d rows, %d columns", bf16, rows, cols), c, want)
			}
		}
	}
}

// sumOnTiles is Σ x[t,i]·x[t,j] as amx_moment.go says: of each 32 rows even and odd ones apart, fused, then both, then those of 128 rows, then all.
func sumOnTiles(x []float32, cols, rows, i, j int) (y float32) {
	for block := 0; block < rows; block += 128 {
		var s float32
		for tile := block; tile < min(block+128, rows); tile += 32 {
			var parts [2]float32
			for t := tile; t < min(tile+32, rows); t++ {
				parts[t&1] = fma(x[t*cols+i], x[t*cols+j], parts[t&1])
			}
			s += parts[0] + parts[1]
		}
		y += s
	}
	return y
}

func BenchmarkOuter(b *testing.B) {
	const k = 512
	benchmarkOuter[float32](b, k)
	benchmarkOuter[float64](b, k)
	m := MomentBF16()
	x, c := make([]float32, k*m.Cols), make([]float64, m.Rows*m.Cols)
	b.Run("bf16", func(b *testing.B) {
		for b.Loop() {
			m.Add(c, m.Cols, x, m.Cols, x, m.Cols, k, m.Cols)
		}
		b.ReportMetric(float64(m.Rows*m.Cols*k*2/m.Steps)*float64(b.N)/1e9/b.Elapsed().Seconds(), "GMAC/s")
	})
}

func benchmarkOuter[T float32 | float64](b *testing.B, k int) {
	o := OuterOf[T]()
	x, y, c := make([]T, o.Rows*(k+16)), make([]T, k*o.Cols), make([]T, o.Rows*o.Cols)
	b.Run(fmt.Sprintf("%T", T(0)), func(b *testing.B) {
		for b.Loop() {
			o.Add(c, o.Cols, x, k+16, 1, y, o.Cols, k, o.Cols)
		}
		b.ReportMetric(float64(o.Rows*o.Cols*k)*float64(b.N)/1e9/b.Elapsed().Seconds(), "GMAC/s")
	})
}
