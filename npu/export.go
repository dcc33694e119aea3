package npu

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nibble/internal/stage"
	"nibble/npu/onnx"
)

// Export is an output folder to be written.
type Export struct {
	Model     *Model
	Options   Options
	Quantizer *Quantizer
	Shards    int // parts of every graph; 0: as many as keep each below mostWeights
	Threads   int
	Progress  func(done, all int)

	Files   []File
	Losses  []Loss // of the matrices
	Weights int64  // bytes of matrices that a decoding step reads
	Parts   int

	scales map[string][]float32 // of the output channels
	stages []drawn              // the graphs that were written, in the order in which a token meets them
}

// drawn is a graph, or a part of one, by the name of its file.
type drawn struct {
	file  string
	graph *graph
}

// File is a file of the output.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256,omitempty"`
}

// mostWeights is how many bytes of weights one graph may have: what is made of it on the device must stay below 2 GiB.
const mostWeights = 1900 << 20

// The files.
const (
	weightsFile   = "model.data"
	embeddingFile = "embedding.onnx"
	embeddingData = "embedding.data"
	// ReportFile is the name of the report.
	ReportFile = "export_report.json"
)

// graphs returns the graphs by the names of their files.
func (x *Export) graphs() []*graph {
	var list []*graph
	if x.Options.Prefill > 1 {
		list = append(list, newGraph(x.Model, "prefill", x.Options, x.Options.Prefill))
	}
	return append(list, newGraph(x.Model, "decode", x.Options, 1))
}

// Write writes graphs, weights and the embedding into a folder.
func (x *Export) Write(dir string) error {
	graphs := x.graphs()
	store := newStore(graphs[len(graphs)-1], x.Quantizer, weightsFile)
	x.Weights, x.Parts = store.Weights, x.Shards
	if x.Parts == 0 {
		x.Parts = int((store.Weights + mostWeights - 1) / mostWeights)
	}
	for _, g := range graphs {
		parts := g.split(x.Parts, func(p *param) int64 { return p.bytes(x.Quantizer.bits(p)) })
		for i, part := range parts {
			name := g.Name + ".onnx"
			if len(parts) > 1 {
				name = fmt.Sprintf("%s_%d_of_%d.onnx", g.Name, i+1, len(parts))
			}
			raw := emit(part, store, metadata(part, x.Quantizer)).Encode()
			if err := x.file(dir, name, raw); err != nil {
				return err
			}
			x.stages = append(x.stages, drawn{name, part})
		}
	}
	if !x.Options.Inside {
		if err := x.embedding(dir); err != nil {
			return err
		}
	}
	err := x.stream(dir, weightsFile, store.Size, func(w io.WriterAt) error { return store.write(w, x.Threads, x.Progress) })
	x.Losses, x.scales = store.losses, store.scales
	return err
}

// Has reports whether a file was written.
func (x *Export) Has(name string) bool {
	return slices.ContainsFunc(x.Files, func(f File) bool { return f.Name == name })
}

// quantized reports whether a file is a graph with quantizers.
func (x *Export) quantized(name string) bool {
	return name != embeddingFile && name != positionFile && !strings.HasSuffix(name, floatSuffix)
}

// file writes a file whose bytes are there.
func (x *Export) file(dir, name string, raw []byte) error {
	sum := sha256.Sum256(raw)
	x.Files = append(x.Files, File{name, int64(len(raw)), hex.EncodeToString(sum[:])})
	return stage.WriteFile(filepath.Join(dir, name), raw)
}

// Add writes another file.
func (x *Export) Add(dir, name string, raw []byte) error { return x.file(dir, name, raw) }

// AddJSON writes an object.
func (x *Export) AddJSON(dir, name string, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	return x.file(dir, name, b.Bytes())
}

// stream writes a file piece by piece.
func (x *Export) stream(dir, name string, size int64, write func(io.WriterAt) error) error {
	f, err := stage.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Reserve(size); err != nil {
		return err
	}
	if err := write(f); err != nil {
		return err
	}
	x.Files = append(x.Files, File{Name: name, Bytes: size})
	return f.Close()
}

// embedding writes the table of the embedding as it is, and the graph that looks rows up on the host's processor.
func (x *Export) embedding(dir string) error {
	m := x.Model
	t, _ := m.set.Lookup(m.embed.Source)
	kind := map[string]onnx.Type{"BF16": onnx.BFloat16, "F16": onnx.Float16, "F32": onnx.Float}[t.DType.String()]
	rowBytes := int64(m.Hidden) * int64(kind.Bits()/8)
	size := rowBytes * int64(m.Vocab)
	err := x.stream(dir, embeddingData, size, func(w io.WriterAt) error {
		const rows = 256
		b := make([]byte, rows*rowBytes)
		for at := int64(0); at < size; at += int64(len(b)) {
			b = b[:min(int64(len(b)), size-at)]
			if err := m.set.ReadAt(m.embed.Source, b, m.embed.Offset*int64(kind.Bits()/8)+at); err != nil {
				return err
			}
			if _, err := w.WriteAt(b, at); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	f := &onnx.Model{IR: ir, Producer: "nibble", Opsets: []onnx.Opset{{Version: opset}}}
	g := &f.Graph
	g.Name = "embedding"
	hidden := int64(m.Hidden)
	g.Inputs = []onnx.ValueInfo{{Name: "input_ids", Type: onnx.Int32, Rank: true, Shape: []int64{1, -1}}}
	g.Outputs = []onnx.ValueInfo{{Name: "input_embeds", Type: onnx.Float, Rank: true, Shape: []int64{1, -1, hidden}}}
	g.Initializers = []onnx.Tensor{
		{Name: "table", Type: kind, Dims: []int64{int64(m.Vocab), hidden}, External: &onnx.External{Location: embeddingData, Length: size}},
		{Name: "scale", Type: onnx.Float, Raw: floatBytes([]float32{m.EmbedScale})},
	}
	ids := "input_ids"
	if x.Options.Whole { // the token of padding is behind the last one
		ids = "tokens"
		g.Initializers = append(g.Initializers, onnx.Tensor{Name: "last", Type: onnx.Int32, Raw: binary.LittleEndian.AppendUint32(nil, uint32(m.Vocab-1))})
		g.Nodes = []onnx.Node{{Name: "clip", Op: "Min", In: []string{"input_ids", "last"}, Out: []string{ids}}}
	}
	g.Nodes = append(g.Nodes, []onnx.Node{
		{Name: "look_up", Op: "Gather", In: []string{"table", ids}, Out: []string{"rows"}},
		{Name: "widen", Op: "Cast", In: []string{"rows"}, Out: []string{"floats"}, Attributes: []onnx.Attribute{onnx.Int("to", int64(onnx.Float))}},
		{Name: "multiply", Op: "Mul", In: []string{"floats", "scale"}, Out: []string{"input_embeds"}},
	}...)
	return x.file(dir, embeddingFile, f.Encode())
}
