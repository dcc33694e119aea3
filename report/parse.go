package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"unicode/utf8"

	"nibble/bench"
	"nibble/convert"
	"nibble/npu"
)

// What files may hold at most.
const (
	MostBytes  = 64 << 20
	mostItems  = 1 << 18 // matrices, tensors, files
	mostTests  = 1 << 12
	mostText   = 4 << 10 // bytes of a name or a note
	mostSize   = 1 << 56 // bytes or weights
	mostFigure = 1e30
	mostLevel  = 1e6 // dB
)

// Invalid says that a file is not the report that it should be.
type Invalid struct {
	File string
	Rule string
}

// Error names the file and what is wrong.
func (e *Invalid) Error() string { return fmt.Sprintf("report: %s: %s", e.File, e.Rule) }

// checker collects the first thing that is wrong.
type checker struct{ err error }

func (c *checker) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

func (c *checker) text(what string, list ...string) {
	for _, s := range list {
		if len(s) > mostText || !utf8.ValidString(s) {
			c.fail("%s: a text of %d bytes: want UTF-8, at most %d", what, len(s), mostText)
		}
	}
}

func (c *checker) count(what string, n, most int) {
	if n > most {
		c.fail("%d %s: at most %d", n, what, most)
	}
}

func (c *checker) size(what string, list ...int64) {
	for _, n := range list {
		if n < 0 || n > mostSize {
			c.fail("%s: %d: want a number from 0 to 2^56", what, n)
		}
	}
}

// figure wants a finite number of a reasonable size.
func (c *checker) figure(what string, list ...float64) {
	for _, v := range list {
		if !(math.Abs(v) <= mostFigure) {
			c.fail("%s: %g: want a finite number", what, v)
		}
	}
}

// level wants decibels; null is an infinity.
func (c *checker) level(what string, d Decibel) {
	if v := float64(d); !math.IsInf(v, 1) && !(math.Abs(v) <= mostLevel) {
		c.fail("%s: %g dB: want a ratio", what, v)
	}
}

// shape wants positive dimensions whose product is a size.
func (c *checker) shape(what string, shape []int) {
	n := int64(1)
	for _, d := range shape {
		if d < 1 || int64(d) > mostSize/n {
			c.fail("%s: shape %v: want positive dimensions, 2^56 weights at most", what, shape)
			return
		}
		n *= int64(d)
	}
	if len(shape) == 0 || len(shape) > 8 {
		c.fail("%s: shape with %d dimensions", what, len(shape))
	}
}

// decode reads one JSON object.
func decode(file string, raw []byte, v any) error {
	if len(raw) > MostBytes {
		return &Invalid{file, fmt.Sprintf("more than %d bytes", MostBytes)}
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if err := d.Decode(v); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return &Invalid{file, fmt.Sprintf("%s at offset %d: %s where a %s belongs", kind.Field, kind.Offset, article(kind.Value), kind.Type)}
		}
		return &Invalid{file, fmt.Sprintf("no JSON object that a report is: %v", err)}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return &Invalid{file, fmt.Sprintf("something behind the object, at offset %d", d.InputOffset())}
	}
	return nil
}

// article puts one in front of a kind of JSON value.
func article(kind string) string {
	if kind == "object" || kind == "array" {
		return "an " + kind
	}
	return "a " + kind
}

func (c *checker) result(file string) error {
	if c.err != nil {
		return &Invalid{file, c.err.Error()}
	}
	return nil
}

// ParseBuild reads the report beside a build.
func ParseBuild(file string, raw []byte) (*convert.Report, error) {
	r := new(convert.Report)
	if err := decode(file, raw, r); err != nil {
		return nil, err
	}
	var c checker
	if r.Tensors == nil {
		c.fail("no tensors: this is another tool's file")
	}
	c.count("tensors", len(r.Tensors), mostItems)
	c.count("files", len(r.Source.Files), mostItems)
	c.count("notes", len(r.Notes), mostItems)
	c.count("flags", len(r.Flags), mostTests)
	c.text("tool", r.Tool, r.Command, r.Source.Architecture)
	if x := r.Run; x != nil {
		c.text("run", x.Time, x.Source, x.Machine, x.Kernel)
		c.figure("run", x.Seconds)
		c.size("run", int64(x.Threads))
	}
	c.count("outputs", len(r.Outputs), mostItems)
	c.text("notes", r.Notes...)
	for _, f := range append(slices.Clip(r.Source.Files), r.Outputs...) {
		c.text("files", f.Name, f.SHA256)
		c.size("files", f.Size)
	}
	t := &r.Totals
	c.size("totals", t.Parameters, t.Quantized, t.TensorBytes)
	c.figure("totals", t.BitsPerWeight)
	c.level("totals", t.SQNR)
	c.level("totals", t.SQNRMin)
	if x := r.Calibration; x != nil {
		c.text("calibration", x.Text, x.SHA256)
		c.size("calibration", int64(x.Sequences), int64(x.Tokens))
	}
	for i := range r.Tensors {
		x := &r.Tensors[i]
		c.text("tensors", x.Name, x.Source, x.Kept, x.Method, x.Zero, x.Fallback)
		c.shape(x.Name, x.Shape)
		c.size(x.Name, x.Bytes, int64(x.Bits))
		if x.Group < -1 || int64(x.Group) > mostSize {
			c.fail("%s: groups of %d", x.Name, x.Group)
		}
		if x.SQNR != nil {
			c.level(x.Name, *x.SQNR)
		}
		for _, f := range []*convert.Figure{x.Max, x.Loss} {
			if f != nil {
				c.figure(x.Name, float64(*f))
			}
		}
	}
	return r, c.result(file)
}

// ParseExport reads the report in an export.
func ParseExport(file string, raw []byte) (*Export, error) {
	x := new(Export)
	if err := decode(file, raw, x); err != nil {
		return nil, err
	}
	var c checker
	if x.Tensors == nil {
		c.fail("no tensors: this is another tool's file")
	}
	c.count("tensors", len(x.Tensors), mostItems)
	c.count("layers", len(x.Layers), mostItems)
	c.count("files", len(x.Files), mostItems)
	c.count("matrices with more bits", len(x.Promoted), mostItems)
	c.count("figures", len(x.SQNR), mostTests)
	c.text("head", x.Tool, x.Model, x.Arch, x.Scheme, x.KV, x.Text, x.Ranges.Method)
	c.text("promoted", x.Promoted...)
	c.count("notes", len(x.Notes), mostItems)
	c.text("notes", x.Notes...)
	c.size("head", x.Parameters, x.Weights, int64(x.Context), int64(x.Pieces))
	c.figure("ranges", x.Ranges.Headroom, x.Ranges.Share)
	for name, v := range x.SQNR {
		c.text("logits_sqnr_db", name)
		c.level(name, Decibel(v))
	}
	for _, f := range []*npu.Fidelity{&x.Prefill, &x.Decode} {
		c.size("fidelity", int64(f.Tokens))
		c.figure("fidelity", f.Top1, f.Perplexity, f.Float, f.Ratio)
		c.level("fidelity", Decibel(f.SQNR))
	}
	for _, l := range x.Layers {
		c.text("layers", l.Name)
		c.level(l.Name, Decibel(l.SQNR))
	}
	for i := range x.Tensors {
		t := &x.Tensors[i]
		c.text("tensors", t.Name, t.Encoding, t.Type)
		c.level(t.Name, Decibel(t.SQNR))
		c.size(t.Name, t.Elements)
		c.figure(t.Name, float64(t.Lo), float64(t.Hi), float64(t.Scale), t.Clipped)
		if t.Lo > t.Hi || t.Clipped < 0 || t.Clipped > 1 {
			c.fail("%s: a range from %g to %g that clips %g", t.Name, t.Lo, t.Hi, t.Clipped)
		}
	}
	for _, f := range x.Files {
		c.text("files", f.Name)
		c.size("files", f.Bytes)
	}
	return x, c.result(file)
}

// ParseBench reads what runtime bench --json prints.
func ParseBench(file string, raw []byte) (*Speed, error) {
	x := &Speed{File: file, Report: new(bench.Report)}
	if err := decode(file, raw, x.Report); err != nil {
		return nil, err
	}
	var c checker
	if len(x.Tests) == 0 {
		c.fail("no tests: this is not what runtime bench --json prints")
	}
	c.count("tests", len(x.Tests), mostTests)
	c.count("sets of kernels", len(x.Kernels), mostTests)
	c.count("numbers of threads", len(x.Threads), mostTests)
	c.text("head", x.Report.Version, x.Go, x.CPU, x.Kernel, x.Model, x.Format, x.Activations, x.KV)
	c.size("head", x.Bytes, x.Parameters, int64(x.Repetitions))
	c.figure("head", x.BitsPerWeight, x.Load)
	for _, t := range x.Tests {
		if t == nil {
			c.fail("tests: null where a test belongs")
			continue
		}
		c.text("tests", t.Name)
		c.size(t.Name, int64(t.Threads), int64(t.Batch), int64(t.Depth))
		c.figure(t.Name, t.Mean, t.Stddev, t.Median, t.Read, t.ShareOfCeiling, t.ShareOfPeak)
		if t.Median < 0 || t.Stddev < 0 {
			c.fail("%s: %g tokens per second", t.Name, t.Median)
		}
		t.Rates, t.Profile = nil, nil // the page has no place for them
	}
	return x, c.result(file)
}
