package runtime

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"nibble/hf"
	"nibble/internal/half"
	"nibble/internal/kernel"
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

// pack lays a matrix out in memory, as the matrices of a model of its own.
func pack(t *testing.T, q *quant.Matrix) *matrix { return packInto(t, &Model{}, q) }

func packInto(t *testing.T, m *Model, q *quant.Matrix) *matrix {
	t.Helper()
	t.Cleanup(m.weights.close)
	return layOut(t, m, &source{matrix: &matrix{n: q.N, k: q.K, per: kernel.PanelRows}, linear: linear{q}})[0]
}

// layOut reads quantized matrices, as one job.
func layOut(t *testing.T, m *Model, list ...*source) (x []*matrix) {
	t.Helper()
	l := &reader{m: m, threads: 2}
	for _, s := range list {
		if err := l.probe(s); err != nil {
			t.Fatal(err)
		}
		x = append(x, s.matrix)
	}
	if err := l.lay(list...); err != nil {
		t.Fatal(err)
	}
	return x
}

// A row in memory dequantizes to the bits that its file defines, in the order of columns or, for a lookup, of the file.
func TestPackedRows(t *testing.T) {
	eachMatrix(t, func(t *testing.T, r *rand.Rand, q *quant.Matrix) {
		m := pack(t, q)
		codes, scratch := make([]uint8, m.cols.padded), make([]float32, q.K)
		want, got, row := make([]float32, q.K), make([]float32, q.K), make([]float32, q.K)
		for n := range q.N {
			q.DequantizeRow(want, n)
			m.natural(got, scratch, codes, n)
			m.row(row, codes, n)
			for i, v := range row {
				col := i
				if m.order != nil {
					col = int(m.order[i])
				}
				if v != want[col] || got[i] != want[i] {
					t.Fatalf("row %d, place %d: %v and %v, want %v and %v", n, i, v, got[i], want[col], want[i])
				}
			}
		}
	})
}

// Rows of a fused matrix begin anywhere.
func TestPackedPart(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	q := randomMatrix(r, 90, 48, 4, 16, quant.Float, false)
	model := &Model{}
	t.Cleanup(model.weights.close)
	m := layOut(t, model, &source{matrix: &matrix{n: 37, k: q.K, per: kernel.PanelRows}, linear: linear{q}, row0: 45})[0]
	want, got := make([]float32, q.K), make([]float32, q.K)
	for n := range m.n {
		q.DequantizeRow(want, 45+n)
		if m.row(got, make([]uint8, m.cols.padded), n); !slices.Equal(got, want) {
			t.Fatalf("row %d: %v, want %v", n, got, want)
		}
	}
}

// Scales are kept in the smallest type that holds all of them exactly.
func TestSmallest(t *testing.T) {
	for _, tt := range []struct {
		values []float32
		want   kernel.Float
	}{
		{[]float32{1, 0.5, -3}, kernel.BFloat16},
		{[]float32{1, 1 + 1.0/1024}, kernel.Float16},
		{[]float32{1 + 1.0/1024, 1e6}, kernel.Float32},
		{[]float32{1 + 1.0/4096}, kernel.Float32},
		{[]float32{1e6, 1}, kernel.Float32},
	} {
		if got := smallest(tt.values); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.values, got, tt.want)
		}
	}
}

// Scales are kept in a type that holds them all, also where the rows that are seen first would do with a smaller one, or with another of the same size.
func TestScalesFit(t *testing.T) {
	const n, k, group = 80, 64, 32
	for _, tt := range []struct {
		later []float32 // scales of rows 32 and 79
		want  kernel.Float
	}{
		{[]float32{0.5, -3}, kernel.BFloat16},
		{[]float32{1 + 1.0/1024, 1}, kernel.Float16},
		{[]float32{1, 1 + 1.0/4096}, kernel.Float32},
		{[]float32{1 + 1.0/1024, 1e6}, kernel.Float32},
	} {
		q := randomMatrix(rand.New(rand.NewPCG(16, 16)), n, k, 4, group, quant.Float, false)
		for i := range q.Scales {
			q.Scales[i], q.Bias[i] = float32(1+i%2), float32(i%3)
		}
		q.Scales[32*q.Groups()], q.Bias[79*q.Groups()+1] = tt.later[0], tt.later[1]
		m := &Model{Mode: A8}
		parts := layOut(t, m, &source{matrix: &matrix{n: n, k: k, per: kernel.PanelRows}, name: "w", linear: linear{q}})
		if got := parts[0].head.Type; got != tt.want {
			t.Errorf("%v: type %d, want %d", tt.later, got, tt.want)
		}
		want, got := make([]float32, k), make([]float32, k)
		for r := range n {
			q.DequantizeRow(want, r)
			parts[0].row(got, make([]uint8, parts[0].cols.padded), r)
			for i := range want {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("%v: row %d, column %d: %v, want %v", tt.later, r, i, got[i], want[i])
				}
			}
		}
	}
}

// walkerFor makes one thread that can multiply.
func walkerFor(t *testing.T, mode Mode, n int, list ...*matrix) *walker {
	t.Helper()
	m := &Model{Mode: mode, team: startTeam(1)}
	t.Cleanup(m.Close)
	s := &state{m: m, n: n}
	s.acts = newActs(mode, n, func(f func(m *matrix)) {
		for _, x := range list {
			f(x)
		}
	})
	return walkerOf(s, m.team, 0, list...)
}

func walkerOf(s *state, team *team, tid int, list ...*matrix) *walker {
	w := &walker{s: s, m: s.m, team: team, tid: tid}
	k, wide := 0, 0
	for _, x := range list {
		k = max(k, x.k)
		if x.cols != nil {
			k, wide = max(k, x.cols.padded), max(wide, x.wideBytes())
		}
	}
	w.wide = make([]float32, kernel.PanelRows*(k+widePad))
	w.row, w.codes, w.whole, w.unpacked = make([]float32, k), make([]uint8, k), make([]int8, k), make([]byte, wide)
	w.product.Y = make([]float32, (s.n+kernel.MostTokens)*kernel.PanelRows)
	return w
}

// times multiplies n inputs by one matrix.
func (w *walker) times(m *matrix, x, y []float32, ld int) {
	w.multiply(newGroup(w.m.Mode, w.team.size, m), x, w.s.n, false, target{y, ld})
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
				v = half.RoundBF16(v)
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
		block[i] = [2]int{g, seen[g] / kernel.WidestBlock}
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
			w.times(m, x, y, q.N+2)
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

// Matrices of one group read the same input, each prepared in its own way: other blocks, though as many of them; another
// order of columns; int8 for one and bfloat16 for the other. Several threads give the bits of one.
func TestGroup(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const k, tokens = 176, 5
	model := &Model{}
	var list []*matrix
	for i, q := range []*quant.Matrix{
		randomMatrix(r, 50, k, 4, 128, quant.Integer, false), // blocks of 128 and 48
		randomMatrix(r, 37, k, 4, 88, quant.Float, false),    // blocks of 88 and 88
		randomMatrix(r, 70, k, 4, 88, quant.Symmetric, false),
		randomMatrix(r, 5, k, 4, 88, quant.Symmetric, true),
		randomMatrix(r, 33, k, 8, 16, quant.Symmetric, true),
		nil,
		randomMatrix(r, 18, k, 4, 128, quant.Symmetric, false),
	} {
		if q == nil {
			raw := make([]byte, 2*5*k)
			for i := range 5 * k {
				half.EncodeBF16(raw[2*i:], []float32{float32(r.NormFloat64())})
			}
			list = append(list, &matrix{n: 5, k: k, per: kernel.PanelRows, dtype: safetensors.BF16, raw: raw})
			continue
		}
		list = append(list, packInto(t, model, q))
		if i == 4 {
			list[i].bias = make([]float32, q.N)
			list[i].bias[7] = 3
		}
	}
	if list[0].cols == list[1].cols || list[1].cols != list[2].cols || list[0].cols != list[6].cols {
		t.Fatal("divisions into blocks are mistaken for one another")
	}
	x := make([]float32, tokens*k)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	for _, mode := range []Mode{F32, A16, A8, A8Row} {
		if mode != F32 {
			list[5] = pairsOf(t, model, list[5])
		}
		results := func() (to []target) {
			for _, m := range list {
				to = append(to, target{make([]float32, tokens*m.n), m.n})
			}
			return to
		}
		want := results()
		for i, m := range list {
			walkerFor(t, mode, tokens, m).times(m, x, want[i].y, m.n)
		}
		for _, size := range []int{1, 3, 16} {
			team := startTeam(size)
			first := walkerFor(t, mode, tokens, list...)
			g := newGroup(mode, size, list...)
			for range 10 {
				got := results()
				team.run(func(tid int) {
					walkerOf(first.s, team, tid, list...).multiply(g, x, tokens, false, got...)
					team.barrier()
				})
				for i := range list {
					if !slices.Equal(got[i].y, want[i].y) {
						t.Fatalf("mode %d, %d threads: matrix %d differs from what it is alone", mode, size, i)
					}
				}
			}
			team.close()
		}
	}
}

// Gate and up that share panels give what they give apart, with and without biases, in a panel that is not full, too.
func TestGated(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	const n, k = 43, 96
	for _, zero := range []quant.Zero{quant.Symmetric, quant.Integer, quant.Float} {
		model := &Model{Arch: &hf.Architecture{}}
		gate, up := randomMatrix(r, n, k, 4, 32, zero, false), randomMatrix(r, n, k, 4, 32, zero, false)
		of := func(q *quant.Matrix) *source {
			return &source{matrix: &matrix{n: n, k: k, per: kernel.PanelRows}, linear: linear{q}}
		}
		both := layOut(t, model, of(gate), of(up))
		apart := []*matrix{layOut(t, model, of(gate))[0], layOut(t, model, of(up))[0]}
		if newGated(A8, 1, apart[0], apart[1]) != nil || both[0].bytes()+both[1].bytes() != int64(len(both[0].raw)) {
			t.Fatal("panels are not shared, or counted twice")
		}
		bias := make([]float32, n)
		for i := range bias {
			bias[i] = float32(r.NormFloat64())
		}
		for _, biased := range []bool{false, true} {
			if biased {
				both[0].bias, apart[0].bias, both[1].bias, apart[1].bias = bias, bias, bias[:n], bias[:n]
			}
			for _, mode := range []Mode{F32, A16, A8, A8Row} {
				for _, tokens := range []int{1, 3, 14} {
					x := make([]float32, tokens*k)
					for i := range x {
						x[i] = float32(r.NormFloat64())
					}
					w := walkerFor(t, mode, tokens, append(both, apart...)...)
					w.m.Arch = model.Arch
					got, g, u := make([]float32, tokens*n), make([]float32, tokens*n), make([]float32, tokens*n)
					w.multiply(newGated(mode, 1, both[0], both[1]), x, tokens, false, target{got, n})
					w.multiply(newGroup(mode, 1, apart...), x, tokens, false, target{g, n}, target{u, n})
					for i, v := range got {
						if want := kernel.SiLU(g[i]) * u[i]; v != want {
							t.Fatalf("%s, mode %d, %d tokens: result %d is %v, want %v", zero, mode, tokens, i, v, want)
						}
					}
				}
			}
		}
	}
}

// pairsOf lays a matrix of floats out as pairs.
func pairsOf(t *testing.T, model *Model, m *matrix) *matrix {
	t.Helper()
	if m.storage == pairs {
		return m
	}
	p := &matrix{n: m.n, k: m.k, per: kernel.PanelRows, bias: m.bias, storage: pairs, cols: model.share(newColumns([]int{0, m.k}))}
	p.raw = make([]byte, p.panels()*p.panelBytes())
	row, raw := make([]float32, m.k), make([]byte, 2*p.cols.padded)
	for r := range m.n {
		m.row(row, nil, r)
		half.EncodeBF16(raw, row)
		p.packPairs(r, raw)
	}
	back := make([]float32, m.k)
	for r := range m.n {
		m.row(row, nil, r)
		if p.row(back, nil, r); m.dtype == safetensors.BF16 && !slices.Equal(row, back) {
			t.Fatalf("row %d of pairs is %v, want %v", r, back, row)
		}
	}
	return p
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
			m := &matrix{n: n, k: k, per: kernel.PanelRows, dtype: d, raw: make([]byte, n*k*d.Bits()/8)}
			quant.EncodeFloats(m.raw, w, d)
			for _, tokens := range []int{1, 3} {
				y := make([]float32, tokens*n)
				if mode != F32 {
					m = pairsOf(t, &Model{}, m)
				}
				walkerFor(t, mode, tokens, m).times(m, x[:tokens*k], y, n)
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
