// Package names says what the tensors and settings of a checkpoint are called in GGUF.
//
// A tensor's name follows from its role in the model: blk.3.attn_q.weight is q of layer 3. What a role does not say is in
// one table of architectures. A tensor is rarely stored otherwise than in the checkpoint; the exceptions are fields of
// [Tensor]: the experts of a layer are stacked, [experts, out, in]; GPT-2's matrices are transposed; norms that multiply
// by 1 + weight are stored as 1 + weight; and architectures whose rotation turns neighbouring dimensions have the rows of
// q and k in another order. With d dimensions a head, row 2j + b of a head, b 0 or 1, is row j + b·d/2 of the checkpoint.
//
// Some tensors are computed: rope_freqs.weight and rope_factors_long.weight and rope_factors_short.weight have what the
// frequencies of a rotation are divided by.
//
// [Settings] and [Tokenizer] make the metadata. They refuse what a file cannot say, so that llama.cpp would read another
// model than the one that was converted.
package names

import (
	"fmt"
	"strings"

	"nibble/hf"
)

// Tensor is a tensor of a GGUF file and where its elements come from.
type Tensor struct {
	Name  string
	Shape []int
	F32   bool // llama.cpp reads it as float32 only: vectors, and the router

	Sources []*hf.Tensor // one or, of a mixture, the matrices of all experts; none if the tensor is computed
	Heads   int          // rows of each of so many heads are reordered; 0: none are
	PlusOne bool         // 1 is added to every element
	Values  []float32    // the elements of a computed tensor
}

// Row returns the row of the source that is row r of the tensor, or of its part of a stack. A vector has rows of one
// element. rows is the number of the source's.
func (t *Tensor) Row(r, rows int) int {
	if t.Heads == 0 {
		return r
	}
	d := rows / t.Heads
	in := r % d
	return r - in + in/2 + in%2*(d/2)
}

// Place is the inverse of Row: the row of the tensor that is row r of the source.
func (t *Tensor) Place(r, rows int) int {
	if t.Heads == 0 {
		return r
	}
	d := rows / t.Heads
	in := r % d
	return r - in + 2*(in%(d/2)) + in/(d/2)
}

// roles has the name of each role; layers' are preceded by "blk.N.".
var roles = map[hf.Role]string{
	hf.Embedding: "token_embd", hf.Position: "position_embd", hf.FinalNorm: "output_norm", hf.Head: "output",
	hf.AttnNorm: "attn_norm", hf.AttnOutNorm: "post_attention_norm", hf.MLPNorm: "ffn_norm", hf.MLPOutNorm: "post_ffw_norm",
	hf.QNorm: "attn_q_norm", hf.KNorm: "attn_k_norm", hf.Router: "ffn_gate_inp", hf.HeadGate: "attn_gate",
	hf.Q: "attn_q", hf.K: "attn_k", hf.V: "attn_v", hf.QKV: "attn_qkv", hf.O: "attn_output",
	hf.Gate: "ffn_gate", hf.Up: "ffn_up", hf.GateUp: "ffn_up", hf.Down: "ffn_down",
}

// norms are the roles of norms.
var norms = map[hf.Role]bool{hf.AttnNorm: true, hf.AttnOutNorm: true, hf.MLPNorm: true, hf.MLPOutNorm: true,
	hf.FinalNorm: true, hf.QNorm: true, hf.KNorm: true}

// Tensors returns the tensors of the file for a model, in the order of its table, and the names of the checkpoint's
// tensors that have no place in it.
func Tensors(m *hf.Model) (tensors []Tensor, left []string, err error) {
	a, err := lookup(m.Arch)
	if err != nil {
		return nil, nil, err
	}
	byModule := map[string]hf.Role{}
	for i := range m.Tensors {
		byModule[m.Tensors[i].Module()] = m.Tensors[i].Role
	}
	at := map[string]int{} // index of a name in tensors
	for i := range m.Tensors {
		source := &m.Tensors[i]
		t, ok := a.tensor(m.Arch, source, byModule)
		if !ok {
			if source.Role != hf.Buffer {
				left = append(left, source.Name)
			}
			continue
		}
		if j, ok := at[t.Name]; ok && source.Expert > 0 {
			tensors[j].Sources = append(tensors[j].Sources, source)
			tensors[j].Shape[0]++
			continue
		}
		at[t.Name] = len(tensors)
		tensors = append(tensors, t)
	}
	if _, ok := at["output.weight"]; !ok && a.ownHead {
		head := Tensor{Name: "output.weight", Sources: []*hf.Tensor{m.Row(hf.Embedding)}}
		if head.Sources[0] != nil {
			head.Shape = head.Sources[0].Shape
			tensors = append(tensors, head)
		}
	}
	return append(tensors, a.divisors(m.Arch)...), left, nil
}

// tensor names one tensor. byModule has the role of the matrix that a bias belongs to.
func (a *arch) tensor(m *hf.Architecture, source *hf.Tensor, byModule map[string]hf.Role) (t Tensor, ok bool) {
	role, kind := source.Role, source.Name[strings.LastIndexByte(source.Name, '.')+1:]
	if role == hf.Bias {
		role = byModule[strings.TrimSuffix(source.Name, ".bias")]
	}
	name, ok := roles[role]
	if !ok || kind != "weight" && kind != "bias" {
		return Tensor{}, false
	}
	t = Tensor{Sources: []*hf.Tensor{source}, Shape: source.Shape, PlusOne: m.NormPlusOne && norms[role] && kind == "weight"}
	if source.Transposed {
		t.Shape = []int{source.Out(), source.In()}
	}
	if source.Expert >= 0 {
		name += "_exps"
		t.Shape = append([]int{1}, t.Shape...)
	}
	if source.Layer >= 0 {
		name = fmt.Sprintf("blk.%d.%s", source.Layer, name)
	}
	t.Name = name + "." + kind
	t.F32 = len(t.Shape) == 1 || role == hf.Router
	switch {
	case a.neighbours && role == hf.Q:
		t.Heads = m.Heads
	case a.neighbours && role == hf.K:
		t.Heads = m.KVHeads
	}
	return t, true
}

// divisors returns the tensors that scale a rotation.
func (a *arch) divisors(m *hf.Architecture) []Tensor {
	r, _ := ropes(m)
	if r == nil {
		return nil
	}
	computed := func(name string, length int) Tensor {
		t := Tensor{Name: name, Shape: []int{r.Dim / 2}, F32: true}
		for _, d := range r.Divisors(length) {
			t.Values = append(t.Values, float32(d))
		}
		return t
	}
	switch r.Type {
	case "llama3":
		return []Tensor{computed("rope_freqs.weight", 0)}
	case "longrope":
		return []Tensor{computed("rope_factors_long.weight", r.Orig+1), computed("rope_factors_short.weight", r.Orig)}
	}
	return nil
}
