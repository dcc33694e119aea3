package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"unicode"
)

//go:embed page.css
var styles string

//go:embed page.html
var source string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"left":     func(t *Table, i int) bool { return i < t.Left },
	"show":     visible,
	"number":   number,
	"number64": func(n int) string { return number(int64(n)) },
	"f2":       func(v float64) string { return fmt.Sprintf("%.2f", v) },
	"f4":       func(v float64) string { return fmt.Sprintf("%.4f", v) },
	"percent":  percent,
}).Parse(source))

// mostRows is how many rows a table of the page has; report.json has them all.
const mostRows = 600

// view is what the template shows.
type view struct {
	Title, Lead, Tool string
	Style             template.CSS
	Missing           []string
	Sections          []section
	Overview          *overview
	Text              *textView
	Builds            []*buildView
	Exports           []*exportView
	Speed             *speedView
}

type section struct{ ID, Name string }

type overview struct {
	Table  *Table
	Charts []*Chart
}

// Render writes the page.
func (r *Report) Render(w io.Writer) error {
	v := &view{Title: "Quantization report", Lead: r.lead(), Tool: r.Tool, Style: template.CSS(styles), Missing: r.Missing}
	if len(r.Builds) == 1 && len(r.Exports) == 0 {
		v.Title += ": " + r.Builds[0].Name
	}
	add := func(id, name string) { v.Sections = append(v.Sections, section{id, name}) }
	if len(r.Builds) > 0 {
		v.Overview = r.overview()
		add("overview", "Overview")
	}
	if r.Text != nil {
		v.Text = r.textView()
		add("text", "Measured on text")
	}
	for i, x := range r.Builds {
		b := x.view(fmt.Sprintf("b%d", i))
		v.Builds = append(v.Builds, b)
		add(b.ID, b.Name)
	}
	for i, x := range r.Exports {
		e := x.view(fmt.Sprintf("e%d", i))
		v.Exports = append(v.Exports, e)
		add(e.ID, e.Name)
	}
	if len(r.Speed) > 0 {
		v.Speed = r.speedView()
		add("speed", "Speed")
	}
	add("terms", "What the figures mean")
	return page.Execute(w, v)
}

// lead says in a sentence what the page is about.
func (r *Report) lead() string {
	var parts []string
	count := func(n int, one, many string) {
		switch {
		case n == 1:
			parts = append(parts, "1 "+one)
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %s", n, many))
		}
	}
	count(len(r.Builds), "build", "builds")
	count(len(r.Exports), "export for an NPU", "exports for an NPU")
	count(len(r.Speed), "measurement of speed", "measurements of speed")
	lead := strings.Join(parts, ", ")
	if r.Reference != "" {
		lead += ", held against " + r.Reference
	}
	return lead + "."
}

// overview has a row for every build, and where there are several what they cost.
func (r *Report) overview() *overview {
	o := &overview{Table: &Table{ID: "overview-t", Caption: "The build", Left: 2,
		Heads: []string{"build", "format", "bits per weight", "bytes", "SQNR, dB", "lowest, dB"}}}
	t := o.Table
	if r.Text != nil {
		t.Heads = append(t.Heads, "KL, nats", "perplexity ratio", "top-1")
	}
	t.Heads = append(t.Heads, "beaten by")
	var kl, noise []point
	for _, x := range r.Builds {
		row := []string{x.Name, x.Format, fmt.Sprintf("%.4f", x.BitsPerWeight), number(x.TensorBytes), decibels(x.SQNR), decibels(x.SQNRMin)}
		if m := x.Measured; m != nil {
			row = append(row, fmt.Sprintf("%.5f", m.KLMean), fmt.Sprintf("%.4f", m.Ratio), percent(m.Top1))
			kl = append(kl, point{x.Name, x.BitsPerWeight, m.KLMean, m.KLMeanCI[0], m.KLMeanCI[1], x.DominatedBy != ""})
		} else if r.Text != nil {
			row = append(row, "–", "–", "–")
		}
		beaten := x.DominatedBy
		if beaten == "" {
			beaten = "–"
		}
		t.Rows = append(t.Rows, append(row, beaten))
		if x.SQNR != nil && !math.IsInf(float64(*x.SQNR), 0) {
			noise = append(noise, point{x.Name, x.BitsPerWeight, float64(*x.SQNR), math.NaN(), math.NaN(), x.DominatedBy != "" && r.Text == nil})
		}
	}
	if len(r.Builds) < 2 {
		return o
	}
	t.Caption = "The builds. One is beaten by another that needs no more bits and loses no more"
	if len(kl) > 0 {
		o.Charts = append(o.Charts, frontierChart("frontier-kl", "KL divergence against size", "mean KL, nats", true, kl))
	}
	if len(noise) > 0 {
		o.Charts = append(o.Charts, frontierChart("frontier-sqnr", "SQNR against size", "SQNR, dB", false, noise))
	}
	return o
}

// decibels writes a level; – if there is none.
func decibels(d *Decibel) string {
	switch {
	case d == nil:
		return "–"
	case math.IsInf(float64(*d), 0):
		return "no noise"
	}
	return fmt.Sprintf("%.2f", float64(*d))
}

// visible shows what has no shape: ends of lines, tabs, and characters that control how others are written.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return '⏎'
		case r == '\t':
			return '⇥'
		case r < 0x20:
			return 0x2400 + r // pictures of the control characters
		case r == 0x7f:
			return 0x2421
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs):
			return unicode.ReplacementChar
		}
		return r
	}, s)
}
