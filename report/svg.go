package report

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// drawing is an SVG picture under way: width 400, in a page whose styles colour its classes.
type drawing struct {
	b      strings.Builder
	height float64
}

const (
	width       = 400.0
	left        = 44.0 // margins of a plot
	right       = 12.0
	top         = 26.0
	bottom      = 40.0
	seriesCount = 6 // colours that the page has; later series share them, dashed
)

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;")

// escape makes a text of any origin one that SVG can hold.
func escape(s string) string { return escaper.Replace(visible(s)) }

// newDrawing begins a picture with a name and a description for those who do not see it. id is unique in the page.
func newDrawing(id, title, description string, height float64) *drawing {
	d := &drawing{height: height}
	fmt.Fprintf(&d.b, `<svg viewBox="0 0 %g %g" role="img" aria-labelledby="%s-t %s-d"><title id="%s-t">%s</title><desc id="%s-d">%s</desc>`,
		width, height, id, id, id, escape(title), id, escape(description))
	return d
}

// px writes a coordinate.
func px(v float64) string { return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) }

func (d *drawing) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&d.b, `<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`, class, px(x1), px(y1), px(x2), px(y2))
}

func (d *drawing) rect(class string, x, y, w, h float64) {
	fmt.Fprintf(&d.b, `<rect class="%s" x="%s" y="%s" width="%s" height="%s"/>`, class, px(x), px(y), px(max(w, 0)), px(max(h, 0)))
}

func (d *drawing) circle(class string, x, y, r float64) {
	fmt.Fprintf(&d.b, `<circle class="%s" cx="%s" cy="%s" r="%s"/>`, class, px(x), px(y), px(r))
}

// text writes at a point; anchor is start, middle or end.
func (d *drawing) text(class, anchor string, x, y float64, s string) {
	fmt.Fprintf(&d.b, `<text class="%s" text-anchor="%s" x="%s" y="%s">%s</text>`, class, anchor, px(x), px(y), escape(s))
}

// path joins points; where closed goes on to the base line and is filled.
func (d *drawing) path(class string, points [][2]float64) {
	d.b.WriteString(`<path class="` + class + `" d="`)
	for i, p := range points {
		d.b.WriteString(map[bool]string{true: "M", false: "L"}[i == 0] + px(p[0]) + " " + px(p[1]))
	}
	d.b.WriteString(`"/>`)
}

func (d *drawing) done() template.HTML {
	d.b.WriteString("</svg>")
	return template.HTML(d.b.String()) // every text in it went through escape
}

// scale maps values to coordinates.
type scale struct {
	lo, hi   float64
	log      bool
	from, to float64 // coordinates
	ticks    []float64
}

// newScale covers values with round numbers. A logarithmic one leaves out what is not positive.
func newScale(values []float64, log, zero bool, from, to float64) *scale {
	s := &scale{lo: math.Inf(1), hi: math.Inf(-1), log: log, from: from, to: to}
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) && (!log || v > 0) {
			s.lo, s.hi = min(s.lo, v), max(s.hi, v)
		}
	}
	if s.lo > s.hi {
		s.lo, s.hi = 1, 2
	}
	if log {
		s.logTicks()
		return s
	}
	if zero {
		s.lo, s.hi = min(s.lo, 0), max(s.hi, 0)
	}
	if s.lo == s.hi {
		pad := max(math.Abs(s.lo)*0.1, 1e-6)
		s.lo, s.hi = s.lo-pad, s.hi+pad
	}
	step := roundStep((s.hi - s.lo) / 4)
	s.lo, s.hi = math.Floor(s.lo/step+1e-9)*step, math.Ceil(s.hi/step-1e-9)*step
	for i := 0; i <= 12 && s.lo+float64(i)*step <= s.hi+step/2; i++ {
		s.ticks = append(s.ticks, s.lo+float64(i)*step)
	}
	return s
}

// logTicks puts ticks at powers of ten, or at 1, 2 and 5 of them where there are few.
func (s *scale) logTicks() {
	lo, hi := math.Floor(math.Log10(s.lo)+1e-9), math.Ceil(math.Log10(s.hi)-1e-9)
	if hi <= lo {
		hi = lo + 1
	}
	factors, every := []float64{1}, math.Ceil((hi-lo)/6)
	if hi-lo <= 2 {
		factors = []float64{1, 2, 5}
	}
	for e := lo; e <= hi && every > 0; e += every {
		for _, f := range factors {
			s.ticks = append(s.ticks, f*math.Pow(10, e))
		}
	}
	s.lo, s.hi = math.Pow(10, lo), math.Pow(10, hi)
	if hi-lo <= 2 { // decades are too coarse an end
		for len(s.ticks) > 2 && s.ticks[len(s.ticks)-1] > s.hi {
			s.ticks = s.ticks[:len(s.ticks)-1]
		}
	}
}

// roundStep is the next larger 1, 2 or 5 times a power of ten.
func roundStep(v float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 5} {
		if v <= f*p*(1+1e-9) {
			return f * p
		}
	}
	return 10 * p
}

func (s *scale) at(v float64) float64 {
	lo, hi := s.lo, s.hi
	if s.log {
		v, lo, hi = math.Log10(max(v, s.lo)), math.Log10(lo), math.Log10(hi)
	}
	return s.from + min(max((v-lo)/(hi-lo), 0), 1)*(s.to-s.from)
}

// tick writes a value of an axis.
func tick(v float64) string {
	if math.Abs(v) < 1e-12 {
		return "0"
	}
	return strings.Replace(strconv.FormatFloat(v, 'g', 6, 64), "e-0", "e-", 1)
}

// plot is a drawing with axes.
type plot struct {
	*drawing
	x, y *scale
}

// newPlot draws grid lines, the values at them, and what the axes mean.
func newPlot(d *drawing, x, y *scale, xTitle, yTitle string) *plot {
	base := d.height - bottom
	for _, v := range y.ticks {
		d.line("grid", left, y.at(v), width-right, y.at(v))
		d.text("tick", "end", left-6, y.at(v)+3.5, tick(v))
	}
	for _, v := range x.ticks {
		d.line("mark", x.at(v), base, x.at(v), base+4)
		d.text("tick", "middle", x.at(v), base+16, tick(v))
	}
	d.line("axis", left, base, width-right, base)
	d.text("axis-title", "middle", (left+width-right)/2, d.height-6, xTitle)
	d.text("axis-title", "start", 2, 11, yTitle)
	return &plot{d, x, y}
}

// series names the class of a colour.
func series(kind string, i int) string {
	class := fmt.Sprintf("%s s%d", kind, i%seriesCount)
	if i/seriesCount%2 == 1 {
		class += " dashed"
	}
	return class
}
