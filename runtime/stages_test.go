package runtime

import (
	"slices"
	"testing"

	"nibble/internal/kernel"
	"nibble/quant"
)

// Stage by stage every layer makes of the residual stream what a forward pass makes of it, bit for bit: inputs of matrices
// are rounded to bfloat16 in both.
func TestStages(t *testing.T) {
	for _, g := range variants(t, true) {
		t.Run(g.Name, func(t *testing.T) {
			b := open(t, g.files(t))
			m := load(t, b, A16, 1)
			s := newState(m, m.team)
			session := newSession(t, m, len(g.Tokens), KVF32)
			for i, id := range g.Tokens {
				s.push(session, id, len(g.Tokens), 0, i, false)
			}
			w, d := s.walkers[0], m.Arch.Hidden
			w.embed()
			w.angles()

			st, err := OpenStages(b, A16, 2)
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			var h []float32
			if err := st.Embed([][]int32{g.Tokens}, func(_ int, x []float32) error { h = x; return nil }); err != nil {
				t.Fatal(err)
			}
			for i := range m.layers {
				if !slices.Equal(h, s.x[:len(h)]) {
					t.Fatalf("the residual stream before layer %d differs", i)
				}
				w.layerStep(&m.layers[i], i)
				if err := st.Enter(i); err != nil {
					t.Fatal(err)
				}
				stageLayer(t, st.Lane(), h, len(h)/d)
			}
			if !slices.Equal(h, s.x[:len(h)]) {
				t.Fatal("the residual stream behind the last layer differs")
			}
		})
	}
}

// stageLayer takes h [n, hidden] through a layer.
func stageLayer(t *testing.T, x *Lane, h []float32, n int) {
	a := x.m.Arch
	in, ctx := make([]byte, 2*len(h)), make([]byte, 2*n*a.Heads*a.HeadDim)
	x.AttentionInput(in, h)
	mass := make([]float32, n)
	x.Attend(nil, mass, in)
	var sum float64
	for _, m := range mass {
		sum += float64(m)
	}
	if d := sum/float64(n) - 1; d > 1e-5 || d < -1e-5 {
		t.Errorf("the mean attention that positions receive is 1%+g", d)
	}
	x.Attend(ctx, nil, in)
	x.AddAttention(h, ctx)
	x.MLPInput(in, h)
	out := make([]float32, len(h))
	if x.l.router == nil {
		_, _, f := x.mlp(-1)
		act := make([]byte, 2*n*f)
		x.Expand(act, -1, in)
		x.Contract(out, -1, act)
		x.AddMLP(h, out)
		return
	}
	chosen, weight := make([]int, n*a.TopK), make([]float32, n*a.TopK)
	x.Route(chosen, weight, in)
	for e := range x.l.experts {
		for i, c := range chosen {
			if c != e {
				continue
			}
			_, _, f := x.mlp(e)
			token := i / a.TopK
			act, part := make([]byte, 2*f), make([]float32, a.Hidden)
			x.Expand(act, e, in[2*token*a.Hidden:2*(token+1)*a.Hidden])
			x.Contract(part, e, act)
			kernel.Axpy(out[token*a.Hidden:(token+1)*a.Hidden], weight[i], part)
		}
	}
	x.AddMLP(h, out)
}

// A matrix that is replaced multiplies as the one of a build does: in a layer whose every matrix is replaced by its own
// quantized form, the residual stream is that of the dequantized weights but for the rounding of those to bfloat16.
func TestStagesReplace(t *testing.T) {
	g := readGolden(t, "llama-llama3")
	b := open(t, g.files(t))
	st, err := OpenStages(b, A16, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	var h []float32
	if err := st.Embed([][]int32{g.Tokens}, func(_ int, x []float32) error { h = x; return nil }); err != nil {
		t.Fatal(err)
	}
	if err := st.Enter(0); err != nil {
		t.Fatal(err)
	}
	linears := map[string]quant.Linear{}
	for i := range b.Tensors {
		x := &b.Tensors[i]
		if x.Layer == 0 && x.Role.Linear() {
			q := quant.NewMatrix(x.Out(), x.In(), 4, x.In(), quant.Symmetric)
			for j := range q.Codes { // ŵ = (q−8)/64 for q that run through all codes
				q.Codes[j] = uint8(j*7) & 15
			}
			for j := range q.Scales {
				q.Scales[j] = 1. / 64
			}
			linears[x.Name] = quant.InMemory(q)
		}
	}
	if err := st.Replace(linears); err != nil {
		t.Fatal(err)
	}
	for i := range b.Tensors {
		x := &b.Tensors[i]
		if x.Layer != 0 || !x.Role.Linear() {
			continue
		}
		m := *st.m.place(x)
		if m.storage != codes4 {
			t.Fatalf("%s is not made of codes", x.Name)
		}
		row, codes := make([]float32, m.k), make([]uint8, m.cols.padded)
		for r := range m.n {
			m.row(row, codes, r)
			for k, w := range row {
				if want := float32(int((r*m.k+k)*7&15)-8) / 64; w != want {
					t.Fatalf("%s: row %d, column %d is %v, want %v", x.Name, r, k, w, want)
				}
			}
		}
	}
	before := slices.Clone(h)
	stageLayer(t, st.Lane(), h, len(g.Tokens))
	if slices.Equal(h, before) {
		t.Error("the layer changed nothing")
	}
	if err := st.Replace(map[string]quant.Linear{}); err == nil {
		t.Error("nothing is replaced without an error")
	}
}
