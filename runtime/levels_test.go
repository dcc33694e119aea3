package runtime

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	gguf "nibble/gguf/block"
	"nibble/hf"
	"nibble/internal/half"
	"nibble/internal/kernel"
	"nibble/quant"
)

// blocks is a matrix in blocks of a GGUF file; its Matrix is for what is not multiplied by int8.
type blocks struct {
	quant.Linear
	kind gguf.Type
	n, k int
	raw  []byte
}

func (b *blocks) Kind() gguf.Type     { return b.kind }
func (b *blocks) Shape() (n, k int)   { return b.n, b.k }
func (b *blocks) row(r int) []float32 { return b.rows(r, 1) }

func (b *blocks) bytes() int { return b.k / b.kind.Size() * b.kind.Bytes() }

// rows decodes rows.
func (b *blocks) rows(r, n int) []float32 {
	v := make([]float32, n*b.k)
	if err := b.kind.Decode(v, b.raw[r*b.bytes():(r+n)*b.bytes()]); err != nil {
		panic(err)
	}
	return v
}

func (b *blocks) Levels(list []kernel.KRow, codes []uint8, row0 int) error {
	for i := range list {
		b.kind.Levels(&list[i], (*[kernel.KColumns]uint8)(codes[i*kernel.KColumns:]), b.raw[row0*b.bytes()+i*b.kind.Bytes():][:b.kind.Bytes()])
	}
	return nil
}

// randomBlocks makes a matrix of blocks, whose floats are about 2^-8.
func randomBlocks(r *rand.Rand, kind gguf.Type, n, k int) *blocks {
	b := &blocks{kind: kind, n: n, k: k}
	b.raw = make([]byte, n*b.bytes())
	for i := range b.raw {
		b.raw[i] = byte(r.Uint32())
	}
	at := map[gguf.Type][]int{gguf.Q4_K: {0, 2}, gguf.Q5_K: {0, 2}, gguf.Q6_K: {208}, gguf.IQ4_XS: {0}}[kind]
	for i := 0; i < len(b.raw); i += kind.Bytes() {
		for _, off := range at {
			d := half.F16(float32(1+r.Float64()) / 256)
			b.raw[i+off], b.raw[i+off+1] = byte(d), byte(d>>8)
		}
	}
	return b
}

// source is a matrix to read, from row row0 on.
func (b *blocks) source(row0, n int) *source {
	return &source{matrix: &matrix{n: n, k: b.k, per: kernel.PanelRows}, linear: b, row0: row0}
}

var leveledTypes = []gguf.Type{gguf.Q4_K, gguf.Q5_K, gguf.Q6_K, gguf.IQ4_XS}

// A row in panels is the decoder's in every bit, wherever a matrix begins, and products are those of the decoder's weights
// and the activations of the mode, in every set the same, for every token whatever is beside it.
func TestLevels(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	for _, kind := range leveledTypes {
		for _, shape := range [][4]int{{45, 512, 0, 45}, {90, 256, 45, 37}, {33, 768, 1, 32}} {
			b := randomBlocks(r, kind, shape[0], shape[1])
			row0, n, k := shape[2], shape[3], shape[1]
			for _, mode := range []Mode{A8, A8Row} {
				name := fmt.Sprintf("%s %v, mode %d", kind, shape, mode)
				m := layOut(t, &Model{Mode: mode}, b.source(row0, n))[0]
				if m.storage != leveled {
					t.Fatalf("%s: is kept as %d", name, m.storage)
				}
				got := make([]float32, k)
				for i := range n {
					if m.row(got, nil, i); !slices.Equal(got, b.row(row0+i)) {
						t.Fatalf("%s: row %d: %v, want %v", name, i, got, b.row(row0+i))
					}
				}
				multiplyLevels(t, r, name, mode, m, b.rows(row0, n))
			}
		}
	}
}

// multiplyLevels holds the products of a matrix against its weights [n, k].
func multiplyLevels(t *testing.T, r *rand.Rand, name string, mode Mode, m *matrix, weights []float32) {
	t.Helper()
	const tokens = 13
	q := &quant.Matrix{N: m.n, K: m.k, Group: kernel.WidestBlock, Bits: 8}
	x := make([]float32, tokens*m.k)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	clear(x[m.k : m.k+m.k/2]) // whole blocks of zeros
	var want []float32
	for _, set := range kernel.Names() {
		kernel.Use(t, set)
		y := make([]float32, tokens*m.n)
		walkerFor(t, mode, tokens, m).times(m, x, y, m.n)
		if want == nil {
			want = y
		}
		for i := range tokens {
			one := make([]float32, m.n)
			walkerFor(t, mode, 1, m).times(m, x[i*m.k:], one, m.n)
			if !slices.Equal(one, want[i*m.n:(i+1)*m.n]) || !slices.Equal(y, want) {
				t.Fatalf("%s, %s: token %d alone: %v, with others %v, first set %v", name, set, i, one, y[i*m.n:(i+1)*m.n], want[i*m.n:(i+1)*m.n])
			}
		}
	}
	for i := range tokens {
		acts := quantized(q, mode, x[i*m.k:(i+1)*m.k])
		for row := range m.n {
			var sum, size float64
			for j, v := range acts {
				w := float64(weights[row*m.k+j])
				sum, size = sum+v*w, size+math.Abs(v)*(math.Abs(w)+64./256)
			}
			if got := float64(want[i*m.n+row]); !(math.Abs(got-sum) <= size*0x1p-20) {
				t.Fatalf("%s: token %d, row %d: %v, want %v", name, i, row, got, sum)
			}
		}
	}
}

// quantized returns the values that the int8 of a mode stand for.
func quantized(q *quant.Matrix, mode Mode, x []float32) []float64 {
	block := q.Group
	if mode == A8Row {
		block = len(x)
	}
	var list []float64
	for part := range slices.Chunk(x, block) {
		codes := make([]int8, len(part))
		s, _ := kernel.QuantizeInt8(codes, part)
		for _, c := range codes {
			list = append(list, float64(s)*float64(c))
		}
	}
	return list
}

// Matrices of several types read the same prepared input, and gate and up share panels.
func TestLevelsTogether(t *testing.T) {
	r := rand.New(rand.NewPCG(43, 44))
	const n, k, tokens = 40, 512, 5
	model := &Model{Mode: A8, Arch: &hf.Architecture{}}
	var list []*matrix
	for _, kind := range leveledTypes {
		list = append(list, layOut(t, model, randomBlocks(r, kind, n, k).source(0, n))[0])
	}
	x := make([]float32, tokens*k)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	g := newGroup(A8, 1, list...)
	if len(g.passes) != 1 {
		t.Fatalf("%d passes", len(g.passes))
	}
	var targets []target
	for range list {
		targets = append(targets, target{make([]float32, tokens*n), n})
	}
	walkerFor(t, A8, tokens, list...).multiply(g, x, tokens, false, targets...)
	for i, m := range list {
		want := make([]float32, tokens*n)
		walkerFor(t, A8, tokens, m).times(m, x, want, n)
		if !slices.Equal(targets[i].y, want) {
			t.Fatalf("matrix %d: %v, want %v", i, targets[i].y, want)
		}
	}
	gate, up := randomBlocks(r, gguf.Q4_K, n, k), randomBlocks(r, gguf.Q4_K, n, k)
	five, four := randomBlocks(r, gguf.Q5_K, n, k).source(0, n), gate.source(0, n)
	layOut(t, model, five)
	layOut(t, model, four)
	if four.twins(five) {
		t.Error("Q4_K and Q5_K share panels")
	}
	both := layOut(t, model, gate.source(0, n), up.source(0, n))
	w := walkerFor(t, A8, tokens, both...)
	w.m.Arch = model.Arch
	got := make([]float32, tokens*n)
	w.multiply(newGated(A8, 1, both[0], both[1]), x, tokens, false, target{got, n})
	a, b := make([]float32, tokens*n), make([]float32, tokens*n)
	apart := []*matrix{layOut(t, model, gate.source(0, n))[0], layOut(t, model, up.source(0, n))[0]}
	walkerFor(t, A8, tokens, apart...).multiply(newGroup(A8, 1, apart...), x, tokens, false, target{a, n}, target{b, n})
	for i, v := range got {
		if want := kernel.SiLU(a[i]) * b[i]; v != want {
			t.Fatalf("result %d is %v, want %v", i, v, want)
		}
	}
}
