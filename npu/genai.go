package npu

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"nibble/internal/version"
	"nibble/npu/onnx"
)

// The folder of ONNX Runtime GenAI: the same graphs, and genai_config.json, a decoder-pipeline. Its host knows token ids, which
// tokens are padding, and positions, and slides the caches of all layers alike: what was there first leaves, what is new stands at
// the end. So Options.Whole gives every layer's cache the whole length, keys and values are uint8 with zero point 128, and one
// more graph, which runs on the host's processor, makes masks and angles:
//
//	in   token_mask [1,C] int32          1 where the cache, and behind it the new tokens, hold a token
//	     position_ids [1,s] int32        of the new tokens
//	out  attention_mask [1,1,s,C] float  hidden where column j is behind the row's own, C-s+i, or holds nothing
//	     attention_mask_wN [1,1,s,C]     also hidden where j is N or more before it
//	     position_ids_cos, _sin          rows of tables, the very angles of the simulation
//
// A prompt is padded at its left to whole windows of the prefill. The token for it is one behind the vocabulary, so that no text
// has it; the graph of the embedding takes it for the last of the vocabulary.
const (
	genaiConfig  = "genai_config.json"
	positionFile = "position.onnx"
	positionData = "position.data"
	tokenMask    = "token_mask"
	positionIDs  = "position_ids"
)

// Ends are the tokens around a text.
type Ends struct {
	Begin int32
	End   []int32
}

// genaiFile is genai_config.json.
type genaiFile struct {
	Model struct {
		Type    string       `json:"type"`
		Begin   int32        `json:"bos_token_id"`
		End     []int32      `json:"eos_token_id"`
		Pad     int          `json:"pad_token_id"`
		Vocab   int          `json:"vocab_size"`
		Context int          `json:"context_length"`
		Decoder genaiDecoder `json:"decoder"`
	} `json:"model"`
	Search genaiSearch `json:"search"`
}

type genaiDecoder struct {
	Session  genaiSession      `json:"session_options"`
	Hidden   int               `json:"hidden_size"`
	HeadDim  int               `json:"head_size"`
	Heads    int               `json:"num_attention_heads"`
	KVHeads  int               `json:"num_key_value_heads"`
	Layers   int               `json:"num_hidden_layers"`
	Window   genaiWindow       `json:"sliding_window"`
	Inputs   map[string]string `json:"inputs"`
	Outputs  map[string]string `json:"outputs"`
	Pipeline []genaiStages     `json:"pipeline"`
}

type genaiSession struct {
	Log       string                         `json:"log_id"`
	Providers []map[string]map[string]string `json:"provider_options"`
}

type genaiWindow struct {
	Size      int    `json:"window_size"`
	Pad       int    `json:"pad_value"`
	Alignment string `json:"alignment"`
	Slide     bool   `json:"slide_key_value_cache"`
}

// genaiStages is a stage by its name. Stages run in the order of the list.
type genaiStages map[string]genaiStage

type genaiStage struct {
	File    string        `json:"filename"`
	Inputs  []string      `json:"inputs"`
	Outputs []string      `json:"outputs"`
	Session *genaiSession `json:"session_options,omitempty"`
	Prompt  bool          `json:"run_on_prompt"`
	Token   bool          `json:"run_on_token_gen"`
}

type genaiSearch struct {
	Sample    bool    `json:"do_sample"`
	MaxLength int     `json:"max_length"`
	Beams     int     `json:"num_beams"`
	Penalty   float64 `json:"repetition_penalty"`
	TopK      int     `json:"top_k"`
}

// WriteGenAI writes what ONNX Runtime GenAI needs beside the graphs.
func (x *Export) WriteGenAI(dir string, ends Ends) error {
	if err := x.writePositions(dir); err != nil {
		return err
	}
	m, o := x.Model, x.Options
	var f genaiFile
	f.Model.Type, f.Model.Begin, f.Model.End, f.Model.Pad = "decoder-pipeline", ends.Begin, ends.End, m.Vocab
	f.Model.Vocab, f.Model.Context = m.Vocab, o.Context
	session := genaiSession{"onnxruntime-genai", []map[string]map[string]string{}}
	d := &f.Model.Decoder
	*d = genaiDecoder{Session: session, Hidden: m.Hidden, HeadDim: m.HeadDim, Heads: m.Heads, KVHeads: m.KVHeads, Layers: m.Layers,
		Window: genaiWindow{Size: o.Prefill, Pad: 128, Alignment: "right", Slide: true},
		Inputs: map[string]string{"input_ids": "input_ids", "attention_mask": tokenMask, "position_ids": positionIDs,
			"past_key_names": "past_key_%d_in", "past_value_names": "past_value_%d_in"},
		Outputs: map[string]string{"logits": "logits", "present_key_names": "past_key_%d_out", "present_value_names": "past_value_%d_out"}}
	d.Pipeline = []genaiStages{
		{"embedding": {File: embeddingFile, Inputs: []string{"input_ids"}, Outputs: []string{"input_embeds"}, Prompt: true, Token: true}},
		{"position-processor": {File: positionFile, Inputs: []string{tokenMask, positionIDs}, Outputs: x.hostInputs(), Prompt: true, Token: true}},
	}
	npu := session
	npu.Providers = []map[string]map[string]string{{"qnn": {"backend_type": "htp", "htp_performance_mode": "burst", "enable_htp_shared_memory_allocator": "1"}}}
	for _, s := range x.stages {
		prompt := s.graph.Tokens > 1
		stage := genaiStage{File: s.file, Session: &npu, Prompt: prompt, Token: !prompt}
		for _, v := range s.graph.Inputs {
			stage.Inputs = append(stage.Inputs, inputName(v))
		}
		for _, v := range s.graph.Outputs {
			stage.Outputs = append(stage.Outputs, v.Out)
		}
		d.Pipeline = append(d.Pipeline, genaiStages{strings.TrimSuffix(s.file, ".onnx"): stage})
	}
	f.Search = genaiSearch{MaxLength: o.Context, Beams: 1, Penalty: 1, TopK: 1}
	return x.AddJSON(dir, genaiConfig, f)
}

// hostInputs lists masks and angles, which all graphs take.
func (x *Export) hostInputs() []string {
	names := map[string]bool{}
	for _, s := range x.stages {
		for _, v := range s.graph.Inputs {
			if v.Class == byRange && !v.coded() && v.Name != "input_embeds" {
				names[v.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// positions is the graph that makes masks and angles, with the tables of the angles.
type positions struct {
	onnx.Graph
	tables [][]float32
	size   int64 // of their file
}

// writePositions writes it.
func (x *Export) writePositions(dir string) error {
	context := x.Options.Context
	p := &positions{Graph: onnx.Graph{Name: "position-processor", Inputs: []onnx.ValueInfo{
		{Name: tokenMask, Type: onnx.Int32, Rank: true, Shape: []int64{1, int64(context)}},
		{Name: positionIDs, Type: onnx.Int32, Rank: true, Shape: []int64{1, -1}}}}}
	p.rows(context, x.Quantizer.Hidden)
	g := &graph{Model: x.Model, Tokens: context, length: context}
	for _, name := range x.hostInputs() {
		width := context
		if window, ok := strings.CutPrefix(name, "attention_mask"); ok {
			if err := p.mask(name, window); err != nil {
				return err
			}
		} else {
			width = p.angles(name, g)
		}
		p.Outputs = append(p.Outputs, onnx.ValueInfo{Name: name, Type: onnx.Float, Rank: true, Shape: []int64{1, 1, -1, int64(width)}})
	}
	f := &onnx.Model{IR: ir, Producer: "nibble", ProducerVersion: version.Number(), Opsets: []onnx.Opset{{Version: opset}}, Graph: p.Graph}
	if err := x.file(dir, positionFile, f.Encode()); err != nil {
		return err
	}
	return x.stream(dir, positionData, p.size, func(w io.WriterAt) error {
		var at int64
		for _, t := range p.tables {
			if _, err := w.WriteAt(floatBytes(t), at); err != nil {
				return err
			}
			at += aligned(t)
		}
		return nil
	})
}

// aligned is the size of a table in the file.
func aligned(t []float32) int64 { return (int64(4*len(t)) + page - 1) / page * page }

// add adds a node that is named by what it makes.
func (p *positions) add(op, out string, in ...string) {
	p.Nodes = append(p.Nodes, onnx.Node{Name: out + ".make", Op: op, In: in, Out: []string{out}})
}

// number adds a constant, of no dimension or of one.
func (p *positions) number(name string, n int, dims ...int64) string {
	p.Initializers = append(p.Initializers, onnx.Tensor{Name: name, Type: onnx.Int64, Dims: dims, Raw: binary.LittleEndian.AppendUint64(nil, uint64(n))})
	return name
}

// rows makes known [s, C]: which columns hold tokens, and not later ones. The s rows are the last of the context.
func (p *positions) rows(context int, hidden float32) {
	p.Initializers = append(p.Initializers, onnx.Tensor{Name: "seen", Type: onnx.Float, Raw: floatBytes([]float32{0})},
		onnx.Tensor{Name: "hidden", Type: onnx.Float, Raw: floatBytes([]float32{hidden})})
	zero, one, all := p.number("zero", 0), p.number("one", 1), p.number("context", context)
	first, second := p.number("axis.0", 0, 1), p.number("axis.1", 1, 1)
	p.Nodes = append(p.Nodes,
		onnx.Node{Name: "new.count", Op: "Shape", In: []string{positionIDs}, Out: []string{"count"}, Attributes: []onnx.Attribute{onnx.Int("start", 1), onnx.Int("end", 2)}},
		onnx.Node{Name: "held.make", Op: "Cast", In: []string{tokenMask}, Out: []string{"held"}, Attributes: []onnx.Attribute{onnx.Int("to", int64(onnx.Bool))}})
	p.add("Squeeze", "new", "count", first)
	p.add("Sub", "past", all, "new")
	p.add("Range", "rows", "past", all, one)
	p.add("Unsqueeze", "row", "rows", second) // [s, 1]
	p.add("Range", "column", zero, all, one)  // [C]
	p.add("LessOrEqual", "before", "column", "row")
	p.add("And", "known", "before", "held")
	p.add("Sub", "distance", "row", "column")
}

// mask makes a mask; window is "" or _wN.
func (p *positions) mask(name, window string) error {
	visible := "known"
	if window != "" {
		n, err := strconv.Atoi(strings.TrimPrefix(window, "_w"))
		if err != nil {
			return fmt.Errorf("npu: %s: %w", name, err)
		}
		p.add("Less", name+".near", "distance", p.number(name+".window", n))
		visible = name + ".visible"
		p.add("And", visible, "known", name+".near")
	}
	p.add("Where", name+".flat", visible, "seen", "hidden")
	p.add("Unsqueeze", name+".row", name+".flat", "axis.0")
	p.add("Unsqueeze", name, name+".row", "axis.0")
	return nil
}

// angles makes cosines or sines of a rotary embedding, and returns their number.
func (p *positions) angles(name string, g *graph) int {
	index := 0
	for cos, sin := g.angleNames(0); name != cos && name != sin; cos, sin = g.angleNames(index) {
		index++
	}
	pairs := g.Model.ropes[index].Dim / 2
	table := make([]float32, g.Tokens*pairs)
	g.angles(table, index, 0, strings.Contains(name, "_sin"))
	p.Initializers = append(p.Initializers, onnx.Tensor{Name: name + ".table", Type: onnx.Float, Dims: []int64{int64(g.Tokens), int64(pairs)},
		External: &onnx.External{Location: positionData, Offset: p.size, Length: int64(4 * len(table))}})
	p.tables, p.size = append(p.tables, table), p.size+aligned(table)
	p.add("Gather", name+".rows", name+".table", positionIDs)
	p.add("Unsqueeze", name, name+".rows", "axis.1")
	return pairs
}
