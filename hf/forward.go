package hf

import (
	"fmt"
	"math"
	"slices"

	"github.com/tidwall/gjson"
)

// Forward is what the forward pass of an architecture needs besides tensors and their sizes.
type Forward struct {
	Eps           float32 // of the norms
	LayerNorm     bool    // norms subtract the mean and have a bias
	NormPlusOne   bool    // norms multiply by 1 + weight
	Activation    Activation
	EmbedScale    float32 // factor on the embedding
	AttnScale     float32 // factor on q·k
	ScaleByLayer  bool    // AttnScale is divided by the number of the layer, from 1
	AttnSoftcap   float32 // scores become cap·tanh(score/cap); 0: they do not
	FinalSoftcap  float32 // the same of the logits
	ResidualScale float32 // factor on what a block adds to the residual stream
	LogitScale    float32 // factor on the logits
	GateSiLU      bool    // the head gate is SiLU instead of a sigmoid
	TopK          int     // experts per token
	NormTopK      bool    // their weights are made to sum to 1
	MaxPositions  int
	Blocks        []Block // one per layer

	Refused error // why the runtime cannot run a model with this config; the converters can
}

// Block is what differs between the layers of a model.
type Block struct {
	Window int   // tokens that a token sees, itself included; 0: all before it
	Rope   *Rope // nil: none
}

// Ropes returns the different rotary embeddings, in the order in which layers first have them.
func (f *Forward) Ropes() (list []*Rope) {
	for _, b := range f.Blocks {
		if b.Rope != nil && !slices.Contains(list, b.Rope) {
			list = append(list, b.Rope)
		}
	}
	return list
}

// Stretches reports whether the angles of a rotary embedding stretch with the sequence, which may then be longer than MaxPositions.
func (f *Forward) Stretches() bool {
	return slices.ContainsFunc(f.Ropes(), func(r *Rope) bool { return r.Type == "dynamic" })
}

// Activation is the function in the MLP.
type Activation uint8

// The activations.
const (
	SiLU     Activation = iota // x·sigmoid(x)
	GELUTanh                   // the tanh approximation
	GELUErf                    // x·Φ(x)
)

var activations = map[string]Activation{
	"silu": SiLU, "swish": SiLU, "gelu": GELUErf,
	"gelu_pytorch_tanh": GELUTanh, "gelu_new": GELUTanh, "gelu_fast": GELUTanh,
}

// sliding is the layer type of layers with a window.
const sliding = "sliding_attention"

// defaults fills in what most architectures have. Sizes must be known.
func (t *table) defaults() {
	t.Eps = t.float(1e-6, "rms_norm_eps")
	t.EmbedScale, t.ResidualScale, t.LogitScale = 1, 1, 1
	t.AttnScale = float32(1 / math.Sqrt(float64(t.HeadDim)))
	t.MaxPositions = t.int(2048, "max_position_embeddings")
	t.activation("hidden_act", "silu")
}

// refuse notes why the runtime cannot run the model.
func (t *table) refuse(format string, args ...any) {
	if t.Refused == nil {
		t.Refused = fmt.Errorf("hf: config.json: "+format, args...)
	}
}

// checkForward refuses factors with which no forward pass makes sense.
func (t *table) checkForward() {
	if !(t.Eps >= 0) {
		t.refuse("the epsilon of the norms is %g", t.Eps)
	}
	for name, v := range map[string]float32{"attention": t.AttnScale, "embedding": t.EmbedScale, "logits": t.LogitScale, "residuals": t.ResidualScale} {
		if v == 0 || math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			t.refuse("the factor on %s is %g", name, v)
		}
	}
	if t.MaxPositions < 1 {
		t.refuse("the model is made for %d positions", t.MaxPositions)
	}
	if !(t.AttnSoftcap >= 0) || !(t.FinalSoftcap >= 0) {
		t.refuse("soft caps of %g and %g", t.AttnSoftcap, t.FinalSoftcap)
	}
}

func (t *table) activation(key, def string) {
	name := t.c.get(key).String()
	if name == "" {
		name = def
	}
	act, ok := activations[name]
	if !ok {
		t.refuse("%s %q is unknown", key, clip(name))
	}
	t.Activation = act
}

// float reads a number; null and absent are def.
func (t *table) float(def float32, key string) float32 {
	switch r := t.c.get(key); r.Type {
	case gjson.Null:
		return def
	case gjson.Number:
		return float32(r.Num)
	default:
		t.fail("%s is %s, want a number", key, clip(r.Raw))
		return def
	}
}

// window reads sliding_window: null is none, absent is def.
func (t *table) window(def int) int {
	if r := t.c.get("sliding_window"); r.Exists() && r.Type == gjson.Null {
		return 0
	}
	return t.int(def, "sliding_window")
}

// layerTypes reads the list that newer configs have, nil if there is none.
func (t *table) layerTypes() []string {
	r := t.c.get("layer_types")
	if !r.IsArray() {
		return nil
	}
	var list []string
	for _, e := range r.Array() {
		list = append(list, e.String())
	}
	if len(list) != t.Layers {
		t.refuse("layer_types has %d entries for %d layers", len(list), t.Layers)
	}
	return list
}

// blocks fills in all layers.
func (t *table) blocks(f func(i int) Block) {
	t.Blocks = make([]Block, t.Layers)
	for i := range t.Blocks {
		t.Blocks[i] = f(i)
	}
}

// uniform is blocks for layers that are all alike.
func (t *table) uniform(window int, rope *Rope) {
	t.blocks(func(int) Block { return Block{window, rope} })
}

// twoRopes reads the embeddings of full and of sliding layers. In old configs the scaling belongs to the full layers,
// and so does rope_theta.
func (t *table) twoRopes(full, local float64) (*Rope, *Rope) {
	types := []string{"full_attention", sliding}
	if _, nested, _ := t.ropeDict("", types); nested {
		return t.rope(types[0], types, full), t.rope(types[1], types, local)
	}
	return t.rope("", nil, full), t.plainRope(local)
}
