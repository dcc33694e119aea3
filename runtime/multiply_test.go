package runtime

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"nibble/internal/half"
	"nibble/quant"
	"nibble/safetensors"
)

// linear is a quantized matrix that is in no file.
type linear struct{ m *quant.Matrix }

func (l linear) Shape() (n, k int) { return l.m.N, l.m.K }
func (l linear) Spec() quant.Spec {
	return quant.Spec{Bits: l.m.Bits, Group: l.m.Group, Zero: l.m.Zero}
}
func (l linear) Tensors() []string { return nil }

// Rows returns a strip, as a file's reader would.
func (l linear) Rows(row0, rows int) (*quant.Matrix, error) {
	s := *l.m
	g := s.Groups()
	s.N = rows
	s.Codes, s.Scales = s.Codes[row0*s.K:(row0+rows)*s.K], s.Scales[row0*g:(row0+rows)*g]
	if s.Zero == quant.Integer {
		s.Zeros = s.Zeros[row0*g : (row0+rows)*g]
	}
	if s.Zero == quant.Float {
		s.Bias = s.Bias[row0*g : (row0+rows)*g]
	}
	return &s, nil
}

// randomMatrix fills a matrix with any codes, scales of either sign and any zero points. With shuffle, columns belong to
// groups in no order, and groups differ in size.
func randomMatrix(r *rand.Rand, n, k, bits, group int, zero quant.Zero, shuffle bool) *quant.Matrix {
	m := quant.NewMatrix(n, k, bits, group, zero)
	for i := range m.Codes {
		m.Codes[i] = uint8(r.IntN(1 << bits))
	}
	for i := range m.Scales {
		m.Scales[i] = float32(r.NormFloat64()) / 64
		switch zero {
		case quant.Integer:
			m.Zeros[i] = uint8(r.IntN(1 << bits))
		case quant.Float:
			m.Bias[i] = float32(r.NormFloat64()) / 4
		}
	}
	if shuffle {
		m.GroupOf = make([]int32, k)
		for i := range m.GroupOf {
			m.GroupOf[i] = int32(r.IntN(m.Groups()))
		}
	}
	return m
}

func eachMatrix(t *testing.T, f func(t *testing.T, r *rand.Rand, q *quant.Matrix)) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, bits := range []int{2, 3, 4, 5, 8} {
		for _, zero := range []quant.Zero{quant.Symmetric, quant.Integer, quant.Float} {
			for _, shape := range [][3]int{{7, 64, 16}, {3, 75, 32}, {300, 33, 8}, {5, 300, 300}, {2, 1, 1}} {
				for _, shuffle := range []bool{false, true} {
					q := randomMatrix(r, shape[0], shape[1], bits, shape[2], zero, shuffle)
					t.Run(fmt.Sprintf("%d-bit/%s/%v/%v", bits, zero, shape, shuffle), func(t *testing.T) { f(t, r, q) })
				}
			}
		}
	}
}

func pack(t *testing.T, q *quant.Matrix) *matrix {
	t.Helper()
	p, err := loadPacked(linear{q})
	if err != nil {
		t.Fatal(err)
	}
	return &matrix{n: q.N, k: q.K, q: p}
}

// A row in memory dequantizes to the bits that its file defines, in the order of columns or, for a lookup, of the file.
func TestPackedRows(t *testing.T) {
	eachMatrix(t, func(t *testing.T, r *rand.Rand, q *quant.Matrix) {
		m := pack(t, q)
		codes, scratch := make([]int8, q.K), make([]float32, q.K)
		want, got, row := make([]float32, q.K), make([]float32, q.K), make([]float32, q.K)
		for n := range q.N {
			q.DequantizeRow(want, n)
			m.natural(got, codes, scratch, n)
			m.row(row, codes, n)
			for i, v := range row {
				col := i
				if m.q.order != nil {
					col = int(m.q.order[i])
				}
				if v != want[col] || got[i] != want[i] {
					t.Fatalf("row %d, place %d: %v and %v, want %v and %v", n, i, v, got[i], want[col], want[i])
				}
			}
		}
	})
}

// walkerFor makes one thread that can multiply.
func walkerFor(t *testing.T, mode Mode, n int, list ...*matrix) *walker {
	t.Helper()
	m := &Model{Mode: mode, team: startTeam(1)}
	t.Cleanup(m.Close)
	s := &state{m: m, n: n}
	k, blocks := 0, 1
	for _, x := range list {
		k = max(k, x.k)
		if x.q != nil {
			blocks = max(blocks, len(x.q.blocks))
			x.q.cuts = m.cut(x.q.blocks)
		}
	}
	s.acts = newActs(mode, k, blocks)
	return &walker{s: s, m: m, team: m.team, row: make([]float32, k), codes: make([]int8, k)}
}

// reference multiplies in float64 by the definition of the modes, from the matrix as the file has it.
func reference(q *quant.Matrix, mode Mode, x []float32, bias float32, row int) float64 {
	w := make([]float32, q.K)
	q.DequantizeRow(w, row)
	group := func(i int) int {
		if q.GroupOf != nil {
			return int(q.GroupOf[i])
		}
		return i / q.Group
	}
	var sum float64
	switch mode {
	case F32, A16:
		for i, v := range x {
			if mode == A16 {
				v, w[i] = half.RoundBF16(v), half.RoundBF16(w[i])
			}
			sum += float64(v) * float64(w[i])
		}
		return sum + float64(bias)
	}
	// Steps of the whole row, or of every 128 columns of a group.
	steps := map[[2]int]float64{}
	seen := map[int]int{}
	block := make([][2]int, q.K)
	for i, v := range x {
		g := group(i)
		block[i] = [2]int{g, seen[g] / widestBlock}
		if mode == A8Row {
			block[i] = [2]int{}
		}
		seen[g]++
		steps[block[i]] = max(steps[block[i]], math.Abs(float64(v)))
	}
	for i, v := range x {
		if step := float64(float32(steps[block[i]]) / 127); step > 0 {
			sum += math.RoundToEven(float64(v/float32(step))) * step * float64(w[i])
		}
	}
	return sum + float64(bias)
}

// Every mode multiplies as it is defined, whatever the format, with error bounds of float32 sums.
func TestMultiply(t *testing.T) {
	const tokens = 3
	eachMatrix(t, func(t *testing.T, r *rand.Rand, q *quant.Matrix) {
		m := pack(t, q)
		m.bias = make([]float32, q.N)
		x := make([]float32, tokens*q.K)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		clear(x[q.K : q.K+q.K/2]) // whole blocks of zeros
		for i := range m.bias {
			m.bias[i] = float32(r.NormFloat64())
		}
		for _, mode := range []Mode{F32, A16, A8, A8Row} {
			w := walkerFor(t, mode, tokens, m)
			y := make([]float32, tokens*(q.N+2))
			w.multiply(m, x, y, q.N+2)
			for i := range tokens {
				in := x[i*q.K : (i+1)*q.K]
				for n := 0; n < q.N; n += 1 + q.N/7 {
					got, want := float64(y[i*(q.N+2)+n]), reference(q, mode, in, m.bias[n], n)
					// A weight may be as large as its whole row's codes are off centre.
					tol := 1e-6 * float64(q.K+10) * (1 + math.Abs(want))
					if !(math.Abs(got-want) <= tol) {
						t.Fatalf("mode %d, token %d, row %d: %v, want %v", mode, i, n, got, want)
					}
				}
			}
		}
	})
}

// Matrices that read the same input prepare it once, but never share what is prepared differently: other blocks, though
// as many of them; another order of columns; int8 for one and bfloat16 for the other.
func TestPreparedInputs(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const k, tokens = 176, 2
	var list []*matrix
	for _, q := range []*quant.Matrix{
		randomMatrix(r, 5, k, 4, 128, quant.Integer, false), // blocks of 128 and 48
		randomMatrix(r, 5, k, 4, 88, quant.Float, false),    // blocks of 88 and 88
		randomMatrix(r, 5, k, 4, 88, quant.Symmetric, false),
		randomMatrix(r, 5, k, 4, 88, quant.Symmetric, true),
		randomMatrix(r, 5, k, 8, 16, quant.Symmetric, true),
	} {
		list = append(list, pack(t, q))
	}
	raw := make([]byte, 2*5*k)
	for i := range 5 * k {
		half.EncodeBF16(raw[2*i:], []float32{float32(r.NormFloat64())})
	}
	list = append(list, &matrix{n: 5, k: k, dtype: safetensors.BF16, raw: raw})
	x := make([]float32, tokens*k)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	for _, mode := range []Mode{F32, A16, A8, A8Row} {
		shared := walkerFor(t, mode, tokens, list...)
		if list[0].q.cuts == list[1].q.cuts || list[1].q.cuts != list[2].q.cuts {
			t.Fatal("divisions into blocks are mistaken for one another")
		}
		for range 20 {
			m := list[r.IntN(len(list))]
			got, want := make([]float32, tokens*5), make([]float32, tokens*5)
			shared.multiply(m, x, got, 5)
			walkerFor(t, mode, tokens, list...).multiply(m, x, want, 5)
			if !slices.Equal(got, want) {
				t.Errorf("mode %d: %v after another matrix, %v alone", mode, got, want)
			}
		}
	}
}

// Threads that multiply one matrix after another wait for each other before the prepared input is replaced.
func TestPreparedInputsOfThreads(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	const n, k, tokens, size = 40, 512, 4, 3
	list := []*matrix{pack(t, randomMatrix(r, n, k, 4, 128, quant.Integer, false)), pack(t, randomMatrix(r, n, k, 4, 100, quant.Float, false)),
		pack(t, randomMatrix(r, n, k, 8, 32, quant.Symmetric, true))}
	x := make([]float32, tokens*k)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	for _, mode := range []Mode{F32, A16, A8, A8Row} {
		alone := walkerFor(t, mode, tokens, list...)
		want, got := make([][]float32, len(list)), make([][]float32, len(list))
		for i, m := range list {
			want[i], got[i] = make([]float32, tokens*n), make([]float32, tokens*n)
			alone.multiply(m, x, want[i], n)
		}
		team := startTeam(size)
		first := walkerFor(t, mode, tokens, list...)
		for range 20 {
			team.run(func(tid int) {
				w := &walker{s: first.s, m: first.m, team: team, tid: tid, row: make([]float32, k), codes: make([]int8, k)}
				for i, m := range list {
					w.multiply(m, x, got[i], n)
				}
				team.barrier()
			})
			for i := range list {
				if !slices.Equal(got[i], want[i]) {
					t.Fatalf("mode %d, matrix %d differs from one thread's", mode, i)
				}
			}
		}
		team.close()
	}
}

// Every float type of weights is read alike, by one token and by several.
func TestFloatWeights(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	const n, k = 4, 37
	w := make([]float32, n*k)
	for i := range w {
		w[i] = float32(r.IntN(255)-127) / 16 // exact in every type
	}
	x := make([]float32, 3*k)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	for _, mode := range []Mode{F32, A16, A8, A8Row} {
		var want []float32
		for _, d := range []safetensors.DType{safetensors.F32, safetensors.F16, safetensors.BF16} {
			m := &matrix{n: n, k: k, dtype: d, raw: make([]byte, n*k*d.Bits()/8)}
			quant.EncodeFloats(m.raw, w, d)
			for _, tokens := range []int{1, 3} {
				y := make([]float32, tokens*n)
				walkerFor(t, mode, tokens, m).multiply(m, x[:tokens*k], y, n)
				if want == nil {
					want = y
				}
				if !slices.Equal(y[:n], want[:n]) {
					t.Errorf("mode %d, %s, %d tokens: %v, want %v", mode, d, tokens, y[:n], want[:n])
				}
			}
		}
	}
}

// transpose turns rows into columns for every size of element.
func TestTranspose(t *testing.T) {
	for _, size := range []int{2, 4} {
		src := make([]byte, 3*5*size)
		for i := range src {
			src[i] = byte(i)
		}
		dst := transpose(src, 3, 5, size)
		for r := range 3 {
			for c := range 5 {
				a, b := src[(r*5+c)*size:][:size], dst[(c*3+r)*size:][:size]
				if !slices.Equal(a, b) {
					t.Fatalf("size %d: row %d, column %d", size, r, c)
				}
			}
		}
		if !slices.Equal(transpose(dst, 5, 3, size), src) {
			t.Errorf("size %d: twice is not the same", size)
		}
	}
}
