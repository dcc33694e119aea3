package report

import (
	"nibble/bench"
	"nibble/convert"
	"nibble/fidelity"
	"nibble/npu"
)

// Version is that of the schema of report.json.
const Version = 1

// Report is everything that a page shows.
type Report struct {
	Tool      string    `json:"tool"`
	Version   int       `json:"version"`
	Reference string    `json:"reference,omitempty"`
	Text      *Text     `json:"text,omitempty"`
	Missing   []string  `json:"missing"`
	Builds    []*Build  `json:"builds"`
	Exports   []*Export `json:"exports"`
	Speed     []*Speed  `json:"speed"`
}

// Text is what builds were measured on, and how.
type Text struct {
	Name        string `json:"name"`
	Tokens      int    `json:"tokens"`
	Context     int    `json:"context"`
	Stride      int    `json:"stride"`
	Windows     int    `json:"windows"`
	Activations string `json:"activations"`
	KV          string `json:"kv"`
}

// Build is a quantized checkpoint.
type Build struct {
	Name          string       `json:"name"`
	Architecture  string       `json:"architecture"`
	Format        string       `json:"format"`
	Files         []File       `json:"files"`
	Parameters    int64        `json:"parameters"`
	TensorBytes   int64        `json:"tensor_bytes"`
	BitsPerWeight float64      `json:"bits_per_weight"`
	Made          *Made        `json:"made,omitempty"`
	SQNR          *Decibel     `json:"sqnr_db,omitempty"`
	SQNRMin       *Decibel     `json:"sqnr_db_min,omitempty"`
	Matrices      []Matrix     `json:"matrices"`
	Histograms    []*Histogram `json:"histograms,omitempty"`
	Measured      *Measured    `json:"measured,omitempty"`
	DominatedBy   string       `json:"dominated_by,omitempty"`
}

// Decibel is a ratio in dB; without noise it is infinite, and null in JSON.
type Decibel = convert.Decibel

// File is a file with its size.
type File struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// Made says how a build was made.
type Made struct {
	Tool        string                     `json:"tool"`
	Command     string                     `json:"command,omitempty"`
	Run         *convert.Execution         `json:"run,omitempty"`
	Sources     []convert.SourceFile       `json:"sources"`
	Calibration *convert.CalibrationReport `json:"calibration,omitempty"`
	Notes       []string                   `json:"notes"`
}

// Matrix is a linear, the embedding or the head.
type Matrix struct {
	Name     string   `json:"name"`
	Role     string   `json:"role"`
	Layer    int      `json:"layer"` // -1 outside the decoder
	Shape    []int    `json:"shape"` // rows, columns
	Method   string   `json:"method,omitempty"`
	Width    int      `json:"bits,omitempty"`
	Group    int      `json:"group,omitempty"`
	Bytes    int64    `json:"bytes"`
	Bits     float64  `json:"bits_per_weight"` // all of its tensors counted
	Kept     string   `json:"kept,omitempty"`
	SQNR     *Decibel `json:"sqnr_db,omitempty"`
	Sampled  bool     `json:"sampled,omitempty"`
	Max      float64  `json:"max_error,omitempty"`
	Loss     *float64 `json:"loss,omitempty"`
	Fallback string   `json:"fallback,omitempty"`
	Folded   bool     `json:"folded,omitempty"`

	module string // in the table of the architecture; "" if it has no such row
}

func (m *Matrix) weights() int64 {
	n := int64(1)
	for _, d := range m.Shape {
		n *= int64(d)
	}
	return n
}

// Measured is what a build lost on the text.
type Measured struct {
	*fidelity.Comparison
	Histogram  []Bin   `json:"kl_histogram"`
	ByPosition []Run   `json:"kl_by_position"`
	Worst      []Token `json:"worst_tokens"`
}

// Bin is a range of KL divergences.
type Bin struct {
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	Share float64 `json:"share"`
}

// Run is a range of positions of a window, the last included.
type Run struct {
	From      int     `json:"from"`
	To        int     `json:"to"`
	Positions int     `json:"positions"`
	KL        float64 `json:"kl_mean"`
}

// Token is a position at which a build differs much from its reference.
type Token struct {
	Text      int     `json:"text"`
	Context   string  `json:"context"`
	Token     string  `json:"token"`    // that the text has
	Expected  string  `json:"expected"` // by the reference
	Built     string  `json:"built"`    // what the build expected
	KL        float64 `json:"kl"`
	Reference float64 `json:"p_reference"` // of the text's token
	Build     float64 `json:"p_build"`
}

// Histogram is how the weights of a matrix are spread before and after.
type Histogram struct {
	Name   string    `json:"name"`
	SQNR   Decibel   `json:"sqnr_db"`
	Rows   int       `json:"rows"` // that were looked at
	Lo     float64   `json:"lo"`
	Hi     float64   `json:"hi"`
	Before []float64 `json:"before"`
	After  []float64 `json:"after"`
}

// Export is a folder of graphs for an NPU.
type Export struct {
	Name       string             `json:"name"`
	Tool       string             `json:"tool"`
	Model      string             `json:"model"`
	Arch       string             `json:"architecture"`
	Parameters int64              `json:"parameters"`
	Scheme     string             `json:"scheme"`
	KV         string             `json:"kv"`
	Context    int                `json:"context"`
	Pieces     int                `json:"prefill_tokens"`
	Text       string             `json:"calibration"`
	Ranges     npu.RangeRule      `json:"ranges"`
	SQNR       map[string]float64 `json:"logits_sqnr_db"`
	Weights    int64              `json:"weight_bytes_per_step"`
	Promoted   []string           `json:"promoted,omitempty"`
	Notes      []string           `json:"notes,omitempty"`
	Prefill    npu.Fidelity       `json:"prefill"`
	Decode     npu.Fidelity       `json:"decode"`
	Layers     []npu.Loss         `json:"layers"`
	Tensors    []npu.Tensor       `json:"tensors"`
	Files      []npu.File         `json:"files"`
}

// Speed is a file of runtime bench --json.
type Speed struct {
	File string `json:"file"`
	*bench.Report
}
