package hf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Role is what a tensor does in its model.
type Role uint8

// The roles. Those from Q to Down are the linears that are quantized by default.
const (
	Other       Role = iota // carried over: not in the table
	Embedding               // token embedding [vocab, hidden]
	Position                // learned positions
	AttnNorm                // norm before attention; norms have a weight and, LayerNorms, a bias
	AttnOutNorm             // norm of what attention adds to the residual stream
	MLPNorm                 // norm before the MLP
	MLPOutNorm              // norm of what the MLP adds
	FinalNorm               // norm before the head
	QNorm                   // norm of q, of every head or of the whole vector
	KNorm                   // the same of k
	Bias                    // bias of a linear
	Buffer                  // constants that old checkpoints hold and nobody reads
	Router                  // expert choice of a mixture layer
	HeadGate                // per-head output gate of attention
	Q
	K
	V
	QKV // rows q, k, v
	O
	Gate
	Up
	GateUp // rows gate, up
	Down
	Head // output head [vocab, hidden]
)

var roleNames = [...]string{"other", "embedding", "position", "attention norm", "attention output norm",
	"MLP norm", "MLP output norm", "final norm", "q norm", "k norm", "bias", "buffer", "router", "head gate",
	"q", "k", "v", "qkv", "o", "gate", "up", "gate+up", "down", "head"}

// String names the role.
func (r Role) String() string { return roleNames[r] }

// Linear reports whether the tensor is a matrix of attention or MLP, the head not included.
func (r Role) Linear() bool { return r >= Q && r <= Down }

// Matrix reports whether the tensor is a matrix that can be quantized: a linear, the embedding or the head.
func (r Role) Matrix() bool { return r.Linear() || r == Embedding || r == Head }

// Part is a run of rows of a matrix that holds several projections.
type Part struct {
	Module string // name the part has where a loader wants it apart
	Role   Role
	Rows   int
}

// Tensor is one row of an architecture's table and, after Open, the place of its elements.
type Tensor struct {
	Name   string // as the hub checkpoint names it
	Shape  []int  // as the hub checkpoint stores it
	Role   Role
	Layer  int // -1 outside the decoder
	Expert int // -1 outside a mixture

	// Of a matrix only:
	Transposed bool   // stored [in, out] (GPT-2)
	Input      string // module of the norm, or of the linear, whose output it reads; "" where nothing can be folded
	Fused      string // the matrix into which servers fuse it with its neighbours; "" if it stands alone
	Parts      []Part // rows it is made of that servers load apart; nil if none
	PartOf     string // name of the matrix that the hub checkpoint holds it in, for a part stored apart

	optional bool
	stacked  string // tensor that holds the experts of a layer one behind the other, in newer checkpoints
	stack    []int  // shape of that tensor
	at       int64  // first element inside it

	// Where the elements are. Source is "" if the checkpoint holds the matrix quantized.
	Source string
	Offset int64 // of the first element
}

// Module returns the name without ".weight".
func (t *Tensor) Module() string { return strings.TrimSuffix(t.Name, ".weight") }

// Out returns the rows of a linear, its out features.
func (t *Tensor) Out() int {
	if t.Transposed {
		return t.Shape[1]
	}
	return t.Shape[0]
}

// In returns the columns of a linear, its in features.
func (t *Tensor) In() int {
	if t.Transposed {
		return t.Shape[0]
	}
	return t.Shape[1]
}

// Elements returns the number of elements.
func (t *Tensor) Elements() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= int64(d)
	}
	return n
}

// Architecture is the table of one model: its sizes and its tensors, in the order of the forward pass.
type Architecture struct {
	Name         string // "LlamaForCausalLM"
	Hidden       int
	Intermediate int // width of the (dense) MLP
	Layers       int
	Heads        int
	KVHeads      int
	HeadDim      int
	Vocab        int
	Experts      int  // 0: no mixture
	Tied         bool // the config ties the head to the embedding
	Tensors      []Tensor
	Forward
}

// Tensor returns the row with the name, or nil.
func (a *Architecture) Tensor(name string) *Tensor {
	for i := range a.Tensors {
		if a.Tensors[i].Name == name {
			return &a.Tensors[i]
		}
	}
	return nil
}

// naming is one way in which checkpoints prefix the names of a table.
type naming struct{ body, head string }

// table builds an Architecture.
type table struct {
	fields
	Architecture
	naming
	layer  int
	prefix string // of the current layer
}

// maxTensors bounds a table. The largest real models have about a hundred thousand tensors.
const maxTensors = 1 << 20

func (t *table) add(x Tensor) {
	if len(t.Tensors) >= maxTensors {
		t.fail("describes more than %d tensors", maxTensors)
		return
	}
	x.Layer = t.layer
	t.Tensors = append(t.Tensors, x)
}

// common reads the sizes that all architectures but GPT-2 spell alike.
func (t *table) common(vocab int, tied bool) {
	t.Hidden = t.size("hidden_size")
	t.Intermediate = t.size("intermediate_size")
	t.Layers = t.size("num_hidden_layers")
	t.Heads = t.size("num_attention_heads")
	t.KVHeads = t.int(t.Heads, "num_key_value_heads")
	t.HeadDim = t.int(t.Hidden/t.Heads, "head_dim")
	t.Vocab = t.int(vocab, "vocab_size")
	t.Tied = t.bool(tied, "tie_word_embeddings")
	t.checkSizes()
	t.defaults()
}

// checkSizes refuses sizes that no model has.
func (t *table) checkSizes() {
	if t.Heads < 1 || t.KVHeads < 1 || t.HeadDim < 1 || t.Heads%max(t.KVHeads, 1) != 0 {
		t.fail("%d heads of %d with %d key/value heads cannot be", t.Heads, t.HeadDim, t.KVHeads)
	}
	if t.Hidden < 1 || t.Intermediate < 1 || t.Vocab < 1 {
		t.fail("hidden size %d, MLP width %d, vocabulary %d cannot be", t.Hidden, t.Intermediate, t.Vocab)
	}
	if t.Layers > maxTensors {
		t.fail("num_hidden_layers is %d, more than any model has", t.Layers)
		t.Layers = 1
	}
}

// enter starts layer i.
func (t *table) enter(i int, group string) {
	t.layer, t.prefix = i, t.body+group+strconv.Itoa(i)+"."
}

// leave ends the layers.
func (t *table) leave() { t.layer, t.prefix = -1, t.body }

func (t *table) embedding(name string) {
	t.leave()
	t.add(Tensor{Name: t.body + name + ".weight", Shape: []int{t.Vocab, t.Hidden}, Role: Embedding, Expert: -1})
}

// output adds the final norm and the head.
func (t *table) output() {
	t.leave()
	t.norm(FinalNorm, "norm", t.Hidden)
	t.add(Tensor{Name: t.head + ".weight", Shape: []int{t.Vocab, t.Hidden}, Role: Head, Expert: -1,
		Input: t.body + "norm", optional: t.Tied})
}

func (t *table) norm(role Role, name string, dim int) {
	t.add(Tensor{Name: t.prefix + name + ".weight", Shape: []int{dim}, Role: role, Expert: -1})
}

// buffer adds a constant that may be there.
func (t *table) buffer(name string, shape ...int) {
	t.add(Tensor{Name: t.prefix + name, Shape: shape, Role: Buffer, Expert: -1, optional: true})
}

// linear is a matrix to add to a layer; names are relative to the layer.
type linear struct {
	name    string
	role    Role
	out, in int
	input   string // norm or linear that feeds it
	fused   string
	bias    bool
	expert  int // one more than its index; 0 outside a mixture
}

// linear adds a matrix and, if it has one, its bias.
func (t *table) linear(l linear) *Tensor {
	x := Tensor{Name: t.prefix + l.name + ".weight", Shape: []int{l.out, l.in}, Role: l.role, Expert: l.expert - 1}
	if l.input != "" {
		x.Input = t.prefix + l.input
	}
	if l.fused != "" {
		x.Fused = t.prefix + l.fused
	}
	t.add(x)
	if t.err != nil {
		return &x
	}
	i := len(t.Tensors) - 1
	if l.bias {
		t.add(Tensor{Name: t.prefix + l.name + ".bias", Shape: []int{l.out}, Role: Bias, Expert: l.expert - 1})
	}
	return &t.Tensors[i]
}

// attention describes the four projections of a layer in the Llama skeleton.
type attention struct {
	input        string // norm that feeds q, k and v
	bias, oBias  bool
	qNorm, kNorm int // length of the weights of q_norm and k_norm; 0 for none
}

func (t *table) attention(a attention) {
	q, kv := t.Heads*t.HeadDim, t.KVHeads*t.HeadDim
	const fused = "self_attn.qkv_proj"
	t.linear(linear{name: "self_attn.q_proj", role: Q, out: q, in: t.Hidden, input: a.input, fused: fused, bias: a.bias})
	t.linear(linear{name: "self_attn.k_proj", role: K, out: kv, in: t.Hidden, input: a.input, fused: fused, bias: a.bias})
	t.linear(linear{name: "self_attn.v_proj", role: V, out: kv, in: t.Hidden, input: a.input, fused: fused, bias: a.bias})
	if a.qNorm > 0 {
		t.norm(QNorm, "self_attn.q_norm", a.qNorm)
		t.norm(KNorm, "self_attn.k_norm", a.kNorm)
	}
	t.linear(linear{name: "self_attn.o_proj", role: O, out: t.Hidden, in: q, input: "self_attn.v_proj", bias: a.oBias})
}

// mlp adds the gated MLP of the Llama skeleton.
func (t *table) mlp(input string, bias bool) {
	d, f := t.Hidden, t.Intermediate
	const fused = "mlp.gate_up_proj"
	t.linear(linear{name: "mlp.gate_proj", role: Gate, out: f, in: d, input: input, fused: fused, bias: bias})
	t.linear(linear{name: "mlp.up_proj", role: Up, out: f, in: d, input: input, fused: fused, bias: bias})
	t.linear(linear{name: "mlp.down_proj", role: Down, out: d, in: f, input: "mlp.up_proj", bias: bias})
}

// mixture describes the experts of a layer.
type mixture struct {
	block          string // "mlp", "block_sparse_moe"
	gate, up, down string // names inside an expert
	experts, width int
	input          string
}

// mixture adds router and experts. Newer checkpoints hold an expert's matrices in two stacked tensors, gate rows before
// up rows; the hub's hold them one by one.
func (t *table) mixture(m mixture) {
	d, f, e := t.Hidden, m.width, m.experts
	router := Tensor{Name: t.prefix + m.block + ".gate.weight", Shape: []int{e, d}, Role: Router, Expert: -1, Input: t.prefix + m.input}
	if m.block != "mlp" {
		router.stacked, router.stack = t.prefix+"mlp.gate.weight", router.Shape
	}
	t.add(router)
	gateUp, down := t.prefix+"mlp.experts.gate_up_proj", t.prefix+"mlp.experts.down_proj"
	for i := range e {
		if t.err != nil {
			return
		}
		name := m.block + ".experts." + strconv.Itoa(i) + "."
		fused := m.block + ".experts"
		at := int64(i) * 2 * int64(f) * int64(d)
		x := t.linear(linear{name: name + m.gate, role: Gate, out: f, in: d, input: m.input, fused: fused, expert: i + 1})
		x.stacked, x.stack, x.at = gateUp, []int{e, 2 * f, d}, at
		x = t.linear(linear{name: name + m.up, role: Up, out: f, in: d, input: m.input, fused: fused, expert: i + 1})
		x.stacked, x.stack, x.at = gateUp, []int{e, 2 * f, d}, at+int64(f)*int64(d)
		x = t.linear(linear{name: name + m.down, role: Down, out: d, in: f, input: name + m.up, fused: fused, expert: i + 1})
		x.stacked, x.stack, x.at = down, []int{e, d, f}, int64(i)*int64(d)*int64(f)
	}
}

// tables maps an entry of "architectures" to the function that fills its table.
var tables = map[string]func(*table){
	"LlamaForCausalLM":               llama,
	"MistralForCausalLM":             mistral,
	"MixtralForCausalLM":             mixtral,
	"Qwen2ForCausalLM":               qwen2,
	"Qwen3ForCausalLM":               qwen3,
	"Qwen3MoeForCausalLM":            qwen3moe,
	"Gemma2ForCausalLM":              gemma2,
	"Gemma3ForCausalLM":              gemma3,
	"Gemma3ForConditionalGeneration": gemma3,
	"Phi3ForCausalLM":                phi3,
	"SmolLM3ForCausalLM":             smollm3,
	"GraniteForCausalLM":             granite,
	"Olmo2ForCausalLM":               olmo2,
	"Olmo3ForCausalLM":               olmo2,
	"GPT2LMHeadModel":                gpt2,
	"Spark2_5ForCausalLM":            spark,
}

// modelTypes names the architecture of configs that state only a model_type.
var modelTypes = map[string]string{
	"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "mixtral": "MixtralForCausalLM",
	"qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM",
	"gemma2": "Gemma2ForCausalLM", "gemma3_text": "Gemma3ForCausalLM", "gemma3": "Gemma3ForConditionalGeneration",
	"phi3": "Phi3ForCausalLM", "smollm3": "SmolLM3ForCausalLM", "granite": "GraniteForCausalLM",
	"olmo2": "Olmo2ForCausalLM", "olmo3": "Olmo3ForCausalLM", "gpt2": "GPT2LMHeadModel",
	"spark2_5": "Spark2_5ForCausalLM",
}

// Architectures returns the names of the architectures that have a table, sorted.
func Architectures() []string {
	var names []string
	for name := range tables {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// UnknownArchitecture is the error for a config without a table.
type UnknownArchitecture struct{ Name string }

// Error names the architecture, those there are, and the way round.
func (e *UnknownArchitecture) Error() string {
	return fmt.Sprintf("hf: config.json: architecture %q is unknown (known: %s); --arch generic quantizes every 2-D *.weight it recognises",
		e.Name, strings.Join(Architectures(), ", "))
}

// describe fills the table of a config's architecture under one naming.
func describe(c *Config, n naming) (*Architecture, error) {
	name := c.Architecture()
	if name == "" {
		name = modelTypes[c.get("model_type").String()]
	}
	fill, ok := tables[name]
	if !ok {
		return nil, &UnknownArchitecture{name}
	}
	t := &table{fields: fields{c: c}, naming: n}
	t.Name = name
	fill(t)
	if len(t.Blocks) != t.Layers && t.err == nil {
		t.uniform(0, t.rope("", nil, 10000))
	}
	if t.err != nil {
		return nil, t.err
	}
	t.checkForward()
	return &t.Architecture, nil
}

// Stack returns the stacked tensor that newer checkpoints hold the tensor in, its shape and the first element of this
// one inside it. The name is "" for what is never stacked.
func (t *Tensor) Stack() (name string, shape []int, at int64) { return t.stacked, t.stack, t.at }

// Describe returns the table of a config, with the names that the hub's checkpoints have.
func Describe(c *Config) (*Architecture, error) { return describe(c, namings(c)[0]) }
