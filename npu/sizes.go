package npu

import (
	"encoding/binary"
	"math"

	"nibble/hf"
	"nibble/internal/half"
	"nibble/safetensors"
)

// Parameters is the number of the model's weights; a head that is the embedding counts once.
func (m *Model) Parameters() int64 {
	var n int64
	for i := range m.Tensors {
		t := &m.Tensors[i]
		if t.Role != hf.Buffer && (t.Role != hf.Head || !m.Tied) {
			n += t.Elements()
		}
	}
	return n
}

// Rope is what a host needs for the inputs with cosines and sines of one kind of layers: of position·InvFreq, times Factor.
type Rope struct {
	InvFreq []float32 `json:"inv_freq"`
	Factor  float32   `json:"factor"`
}

// Ropes lists those of a context, in the order of the inputs.
func (m *Model) Ropes(context int) []Rope {
	list := []Rope{}
	for _, r := range m.ropes {
		freq, factor := r.InvFreq(context)
		list = append(list, Rope{freq, factor})
	}
	return list
}

// Memory is about what a simulation of so many sequences takes: scores, masks and caches of one run of the prompt's graph for
// each, the widest activations, and the logits.
func (m *Model) Memory(o Options, lanes int) int64 {
	c, s := float64(o.Context), float64(o.Prefill)
	perRun := float64(6*float64(m.Heads)*s*c) + float64(8*float64(m.KVHeads*m.HeadDim)*c)
	tokens := 4 * s * float64(lanes)
	widths := float64(4*m.Intermediate + 6*m.Hidden + 4*m.Heads*m.HeadDim + m.Layers*2*m.KVHeads*m.HeadDim)
	return int64(min(4*(float64(float64(lanes)*perRun)+float64(tokens*widths)+float64(2*(s+headTokens)*float64(m.Vocab))), math.MaxInt64/2))
}

// Encode returns a safetensors file with tokens [n], prompt [1], float [n, vocab], codes [n, vocab], and the codes of every
// tensor of the first run as I32.
func (t *Trace) Encode() ([]byte, error) {
	n, vocab := len(t.Tokens), len(t.Float[0])
	specs := []safetensors.Spec{
		{Name: "tokens", DType: safetensors.I32, Shape: []int{n}},
		{Name: "prompt", DType: safetensors.I32, Shape: []int{1}},
		{Name: "float", DType: safetensors.F32, Shape: []int{n, vocab}},
		{Name: "codes", DType: safetensors.F32, Shape: []int{n, vocab}},
	}
	integers := map[string][]int32{"tokens": t.Tokens, "prompt": {int32(t.Prompt)}}
	rows := map[string][][]float32{"float": t.Float, "codes": t.Codes}
	for _, x := range t.Tensors {
		name := "tensor:" + x.Name
		specs = append(specs, safetensors.Spec{Name: name, DType: safetensors.I32, Shape: []int{len(x.Codes)}})
		integers[name] = x.Codes
	}
	plan, err := safetensors.NewPlan(specs, nil, 0)
	if err != nil {
		return nil, err
	}
	file := plan.Files[0]
	raw := make([]byte, file.Size)
	start := copy(raw, file.Header)
	for _, x := range file.Tensors {
		at := raw[start+int(x.Begin) : start+int(x.End)]
		for i, v := range integers[x.Name] {
			binary.LittleEndian.PutUint32(at[4*i:], uint32(v))
		}
		for i, row := range rows[x.Name] {
			half.EncodeF32(at[4*i*vocab:4*(i+1)*vocab], row)
		}
	}
	return raw, nil
}
