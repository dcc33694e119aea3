package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"nibble/bench"
	"nibble/convert"
	"nibble/fidelity"
	"nibble/npu"
)

// full is a report that has everything, with a text wherever a file or a model supplies one.
func full(text string) *Report {
	db, worst, none, loss := Decibel(20.5), Decibel(12.25), Decibel(math.Inf(1)), 0.001
	matrix := func(layer int, role string, d *Decibel) Matrix {
		return Matrix{Name: text, Role: role + text, Layer: layer, Shape: []int{8, 4}, Method: text, Width: 4, Group: 4, Bytes: 24, Bits: 6, SQNR: d, Max: 0.5,
			Kept: text, Fallback: text, Loss: &loss, Folded: true, Sampled: true}
	}
	build := func(name string, bits, kl float64) *Build {
		c := NewCollector([]int32{0, 1, 2, 3}, 4, func(ids []int32) (string, error) { return strings.Repeat(text, len(ids)), nil })
		for i := 1; i < 4; i++ {
			c.Add(fidelity.Position{Text: i, Window: i, Token: int32(i), KL: kl * float64(i), Reference: 1, Build: 2, Likeliest: [2]int{1, 2}})
		}
		m, err := c.Measured(&fidelity.Comparison{KLMean: kl, KLMeanCI: fidelity.Interval{kl / 2, kl * 2}, Ratio: 1.01})
		if err != nil {
			panic(err) // the decoder above has none
		}
		return &Build{Name: name, Architecture: text, Format: text, Files: []File{{text, 7}}, Parameters: 64, TensorBytes: 48, BitsPerWeight: bits, SQNR: &db, SQNRMin: &worst,
			Made:     &Made{text, text, &convert.Execution{Time: text, Source: text, Machine: text, Kernel: text}, []convert.SourceFile{{Name: text, Size: 5, SHA256: text}}, &convert.CalibrationReport{Text: text, SHA256: text}, []string{text}},
			Matrices: []Matrix{matrix(-1, "head", &none), matrix(0, "q", &db), matrix(0, "k", &worst), matrix(1, "q", nil)}, Measured: m,
			Histograms: []*Histogram{{text, 12, 4, -1, 1, []float64{0.25, 0.75}, []float64{0.5, 0.5}}}}
	}
	r := &Report{Tool: text, Version: Version, Reference: text, Missing: []string{text},
		Text:   &Text{text, 100, 4, 4, 25, text, text},
		Builds: []*Build{build(text, 4.5, 0.01), build("other"+text, 6, 0.02)},
		Exports: []*Export{{Name: text, Tool: text, Model: text, Arch: text, Scheme: text, KV: text, Text: text, Ranges: npu.RangeRule{Method: text},
			SQNR: map[string]float64{text: 40}, Promoted: []string{text}, Notes: []string{text}, Layers: []npu.Loss{{Name: text, SQNR: 30}, {Name: text, SQNR: 31}},
			Tensors: []npu.Tensor{{Loss: npu.Loss{Name: text, SQNR: 50}, Type: text, Lo: -3, Hi: 500, Elements: 10, Clipped: 0.1}}, Files: []npu.File{{Name: text, Bytes: 3}}}},
		Speed: []*Speed{{text, &bench.Report{CPU: text, Kernel: text, Model: text, Activations: text, KV: text, Tests: []*bench.Result{{Name: text, Threads: 2, Median: 5, Read: 1}}}}}}
	r.Judge()
	return r
}

// element is a tag with its attributes.
type element struct {
	name  string
	attrs map[string]string
}

func parse(t *testing.T, page []byte) (list []element, text string) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	var all strings.Builder
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return list, all.String()
		}
		if err != nil {
			t.Fatalf("offset %d: %v", d.InputOffset(), err)
		}
		switch x := token.(type) {
		case xml.StartElement:
			e := element{x.Name.Local, map[string]string{}}
			for _, a := range x.Attr {
				e.attrs[a.Name.Local] = a.Value
			}
			list = append(list, e)
		case xml.CharData:
			all.Write(x)
		}
	}
}

func render(t *testing.T, r *Report) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := r.Render(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestPage holds the page against what readers without a screen, a mouse or a network need.
func TestPage(t *testing.T) {
	page := render(t, full("plain"))
	list, _ := parse(t, page)
	ids, level, count := map[string]bool{}, 0, map[string]int{}
	for _, e := range list {
		if id := e.attrs["id"]; id != "" {
			if ids[id] {
				t.Errorf("two elements are called %s", id)
			}
			ids[id] = true
		}
	}
	for _, e := range list {
		count[e.name]++
		if len(e.name) == 2 && e.name[0] == 'h' && e.name[1] >= '1' && e.name[1] <= '6' {
			now := int(e.name[1] - '0')
			if now > level+1 {
				t.Errorf("a heading of level %d follows one of level %d", now, level)
			}
			level = now
		}
		for name, v := range e.attrs {
			switch {
			case name == "aria-labelledby":
				for id := range strings.FieldsSeq(v) {
					if !ids[id] {
						t.Errorf("%s is labelled by %s, which is not there", e.name, id)
					}
				}
			case name == "href" && v != "data:," && (!strings.HasPrefix(v, "#") || !ids[v[1:]]):
				t.Errorf("a link to %s", v)
			case name == "src" || name == "style" || strings.HasPrefix(name, "on"):
				t.Errorf("%s has %s=%s", e.name, name, v)
			}
		}
		switch {
		case e.name == "svg" && (e.attrs["role"] != "img" || e.attrs["aria-labelledby"] == ""):
			t.Error("a picture without a label")
		case e.name == "th" && e.attrs["scope"] == "":
			t.Error("the head of a table has no scope")
		case e.name == "script" || e.name == "iframe" || e.name == "img" || e.name == "object":
			t.Errorf("the page has a %s", e.name)
		}
	}
	if count["h1"] != 1 || count["main"] != 1 || count["table"] == 0 || count["table"] != count["caption"] || count["svg"] < 10 {
		t.Errorf("elements: %v", count)
	}
	if i := bytes.Index(page, []byte("://")); i >= 0 {
		t.Errorf("a reference at offset %d: %q", i, page[max(0, i-20):i+20])
	}
}

// TestEscaping: texts of files and models change no element of the page, and arrive as text.
func TestEscaping(t *testing.T) {
	const hostile = "</style></svg></title><script src=http://x>alert('1')</script>\"'>&amp;<img onerror=x>\u202e\x00"
	plain, _ := parse(t, render(t, full("plain")))
	page := render(t, full(hostile))
	strange, text := parse(t, page)
	names := func(list []element) (s []string) {
		for _, e := range list {
			s = append(s, fmt.Sprint(e.name, len(e.attrs)))
		}
		return s
	}
	if a, b := names(plain), names(strange); !slices.Equal(a, b) {
		t.Errorf("%d elements, with a hostile text %d", len(a), len(b))
	}
	if !strings.Contains(text, "<script src=http://x>alert('1')</script>\"'>&amp;<img onerror=x>\uFFFD\u2400") {
		t.Error("the text does not appear as it is")
	}
	if bytes.ContainsAny(page, "\u202e\x00") {
		t.Error("a character that controls how others are written is left")
	}
}

// TestSame: the same values make the same bytes, and JSON has all of them.
func TestSame(t *testing.T) {
	r := full("a")
	if !bytes.Equal(render(t, r), render(t, full("a"))) {
		t.Error("two pages of the same values differ")
	}
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	back := new(Report)
	if err := json.Unmarshal(raw, back); err != nil {
		t.Fatal(err)
	}
	if back.Builds[1].DominatedBy != "a" || back.Builds[0].DominatedBy != "" || len(back.Builds[0].Measured.Worst) != 3 || back.Builds[0].Measured.KLMean != 0.01 {
		t.Errorf("%s", raw)
	}
	// A page of nothing is a page.
	parse(t, render(t, &Report{}))
}
