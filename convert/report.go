package convert

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"nibble/build"
	"nibble/internal/version"
	"nibble/quant"
)

// ReportName is the file that says how a build was made and what it lost.
const ReportName = "quantization_report.json"

// Report is the content of quantization_report.json. The same input and flags give the same report but for Run, which has a line of
// its own of fixed length.
type Report struct {
	Tool    string         `json:"tool"`              // with version and commit
	Command string         `json:"command,omitempty"` // that makes the build again; see Settings
	Source  ReportSource   `json:"source"`
	Flags   map[string]any `json:"flags"`
	Totals  Totals         `json:"totals"`
	Check   any            `json:"check,omitempty"` // the build against its source on a text

	Calibration *CalibrationReport `json:"calibration,omitempty"`

	Notes   []string       `json:"notes"`
	Carried []string       `json:"carried_over"` // tensors that no table knows, copied as they are
	Outputs []SourceFile   `json:"outputs"`      // all files of the build but this one
	Run     *Execution     `json:"run,omitempty"`
	Tensors []ReportTensor `json:"tensors"`
}

// ReportSource identifies the input.
type ReportSource struct {
	Architecture   string       `json:"architecture"`
	Tied           bool         `json:"tie_word_embeddings"`
	StackedExperts bool         `json:"stacked_experts"`
	Files          []SourceFile `json:"files"`
}

// SourceFile is one weight file of the input, or one file of the output.
type SourceFile struct {
	Name   string `json:"name"`
	Size   int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Totals sum up a build.
type Totals struct {
	Parameters    int64   `json:"parameters"`
	Quantized     int64   `json:"quantized_parameters"`
	TensorBytes   int64   `json:"tensor_bytes"`
	BitsPerWeight float64 `json:"bits_per_weight"` // all tensor bytes over all parameters
	SQNR          Decibel `json:"sqnr_db"`         // of all quantized weights together
	SQNRMin       Decibel `json:"sqnr_db_min"`
	SQNRMinTensor string  `json:"sqnr_db_min_tensor"`
}

// ReportTensor is one matrix of the source, or one part of it.
type ReportTensor struct {
	Name   string   `json:"name"` // module in the build
	Source string   `json:"source"`
	Shape  []int    `json:"shape"`
	Kept   string   `json:"kept,omitempty"` // why it is not quantized
	Method string   `json:"method,omitempty"`
	Bits   int      `json:"bits,omitempty"`
	Group  int      `json:"group_size,omitempty"`
	Zero   string   `json:"zero,omitempty"`
	Bytes  int64    `json:"bytes"`
	SQNR   *Decibel `json:"sqnr_db,omitempty"`
	Max    *Figure  `json:"max_error,omitempty"`

	Loss     *Figure `json:"loss,omitempty"`     // of a calibrated method: error of the outputs over the outputs, squared
	Fallback string  `json:"fallback,omitempty"` // why the matrix is not the method's
	Folded   bool    `json:"folded,omitempty"`   // weights stand for multiples of the source's, and sqnr_db is against those
}

// Decibel is a ratio in dB with four decimals. A tensor without noise has none: it is written as null.
type Decibel float64

// MarshalJSON writes null for an infinity.
func (d Decibel) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(d), 0) || math.IsNaN(float64(d)) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(d), 'f', 4, 64), nil
}

// UnmarshalJSON reads null as +Inf.
func (d *Decibel) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*d = Decibel(math.Inf(1))
		return nil
	}
	f, err := strconv.ParseFloat(string(b), 64)
	*d = Decibel(f)
	return err
}

// Figure is a number with six significant digits.
type Figure float64

// MarshalJSON writes it in scientific notation, so that its length is bounded.
func (f Figure) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(f), 'e', 5, 64), nil
}

// The longest text that a figure can take, in bytes, for planning the size of the report.
const (
	widestDecibel = Decibel(-1234.5678)
	widestFigure  = Figure(-1.23456e-300)
	widestCheck   = 4096

	widestFallback = fallbackFew + fallbackWorse + fallbackPlain
)

// newReport starts the report of a build. sums are the digests of the source's files; without them, and for all else that only the run
// knows, the widest values stand.
func newReport(src *build.Build, sums map[string]string, files []File, params, tensorBytes int64, c *Calibration) *Report {
	r := &Report{Tool: "nibble " + version.String(), Carried: []string{}, Outputs: outputs(files), Tensors: []ReportTensor{}}
	if c != nil {
		r.Calibration = &CalibrationReport{Text: c.Settings, Sequences: math.MaxInt32, Tokens: math.MaxInt32, SHA256: noDigest}
	}
	r.Source = ReportSource{Architecture: src.Arch.Name, Tied: src.Arch.Tied, StackedExperts: src.Stacked}
	for _, f := range src.Stored() {
		r.Source.Files = append(r.Source.Files, SourceFile{f.Name, f.Size, cmp.Or(sums[f.Name], noDigest)})
	}
	r.Totals = Totals{Parameters: params, TensorBytes: tensorBytes, BitsPerWeight: math.Round(bitsPerWeight(tensorBytes, params)*1e4) / 1e4,
		SQNR: widestDecibel, SQNRMin: widestDecibel}
	return r
}

// tally sums up the noise of a report's tensors.
type tally struct {
	all   quant.Noise
	worst float64
	name  string // of the worst tensor; before the run the longest name
}

// add counts the noise of t and notes it there. n is nil before the run: the widest figures stand.
func (y *tally) add(t *ReportTensor, n *quant.Noise) {
	db, most := widestDecibel, widestFigure
	t.SQNR, t.Max = &db, &most
	if n == nil {
		if len(t.Name) > len(y.name) {
			y.name = t.Name
		}
		return
	}
	db, most = Decibel(n.SQNR()), Figure(n.Max)
	y.all.Merge(*n)
	if n.SQNR() < y.worst {
		y.worst, y.name = n.SQNR(), t.Name
	}
}

// totals puts the sums into t; those of the noise only after the run.
func (y *tally) totals(t *Totals, ran bool) {
	t.SQNRMinTensor = y.name
	if ran {
		t.SQNR, t.SQNRMin = Decibel(y.all.SQNR()), Decibel(y.worst)
	}
}

// report is the report of a folder; without outcomes the widest figures stand in it.
func (p *Plan) report(outcomes map[string]*outcome, sums map[string]string) *Report {
	r := newReport(p.Source, sums, p.Files, p.Params, p.Weights.TotalSize, p.Calibration)
	r.Command, r.Flags, r.Notes = p.Command, p.flags(), append([]string{}, p.Notes...)
	sum := tally{worst: math.Inf(1)}
	for i := range p.Items {
		it := &p.Items[i]
		if it.N == 0 {
			if it.Role == 0 {
				r.Carried = append(r.Carried, it.Tensor.Name)
			}
			continue
		}
		t := ReportTensor{Name: it.Name, Source: it.Tensor.Source, Shape: []int{it.N, it.K}, Kept: it.Reason}
		for _, o := range it.Outputs {
			t.Bytes += bytesOf(o)
		}
		if s := it.Spec; s != nil {
			t.Method, t.Bits, t.Group, t.Zero = s.Method, s.Bits, s.GroupSize(it.K), s.Zero.String()
			r.Totals.Quantized += int64(it.N) * int64(it.K)
			t.Folded = it.in != nil || it.out != nil
			if s.Calibrated() {
				loss := widestFigure
				t.Loss, t.Fallback = &loss, widestFallback
			}
			var n *quant.Noise
			if o := outcomes[it.Name]; o != nil {
				t.Loss, t.Fallback, t.Folded = (*Figure)(o.Loss), o.Fallback, o.Folded
				n = o.Noise
			}
			sum.add(&t, n)
		}
		r.Tensors = append(r.Tensors, t)
	}
	sum.totals(&r.Totals, outcomes != nil)
	return r
}

// encode writes the report, one tensor a line, padded with spaces to the planned size.
func (r *Report) encode(size int64) ([]byte, error) {
	var b bytes.Buffer
	tensors := r.Tensors
	head := *r
	head.Tensors, head.Run = nil, nil
	raw, err := json.MarshalIndent(head, "", "  ")
	if err != nil {
		return nil, err
	}
	run, err := r.Run.line()
	if err != nil {
		return nil, err
	}
	b.Write(bytes.TrimSuffix(raw, []byte("\"tensors\": null\n}")))
	fmt.Fprintf(&b, "\"run\": %s\n  \"tensors\": [", run)
	for i, t := range tensors {
		line, err := json.Marshal(t)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "\n    %s", line)
	}
	b.WriteString("\n  ]\n}")
	pad := size - int64(b.Len()) - 1
	if size > 0 && pad < 0 {
		return nil, fmt.Errorf("convert: %s: %d bytes longer than planned", ReportName, -pad)
	}
	b.Write(bytes.Repeat([]byte{' '}, int(max(pad, 0))))
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// reportSize is the length of a report in which every figure takes its widest form.
func (p *Plan) reportSize() int64 {
	r := p.report(nil, nil)
	p.Allotment.widest(r)
	if p.Measured {
		r.Check = strings.Repeat(" ", widestCheck)
	}
	return r.widest()
}

// widest is the length of a report in which every figure has its widest form. A command takes steps of 256 bytes, so that the size of a build
// does not follow the number of digits in a flag.
func (r *Report) widest() int64 {
	const step = 256
	raw, err := r.encode(0)
	if err != nil {
		return 0 // cannot be: a report has only plain values
	}
	return int64(len(raw) + step - len(r.Command)%step)
}
