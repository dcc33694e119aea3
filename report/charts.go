package report

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// Chart is a picture with its values.
type Chart struct {
	Title  string
	SVG    template.HTML
	Legend []legend // nil where one series needs no name
	Note   string
	Table  *Table
}

type legend struct{ Class, Name string }

// Table is a table; its first column has the rows' names.
type Table struct {
	ID      string // of the table in the page
	Caption string
	Heads   []string
	Left    int // columns that are texts
	Rows    [][]string
}

// curve is values of one series by x.
type curve struct {
	name string
	x, y []float64
}

// lineChart draws curves, and makes a table with a column each.
func lineChart(id, title, xTitle, yTitle, rows string, curves []curve, logX bool, format func(float64) string) *Chart {
	var xs, ys []float64
	for _, c := range curves {
		xs, ys = append(xs, c.x...), append(ys, c.y...)
	}
	d := newDrawing(id, title, fmt.Sprintf("%s by %s, %d lines; the values are in the table below", yTitle, xTitle, len(curves)), 240)
	p := newPlot(d, newScale(xs, logX, false, left, width-right), newScale(ys, false, false, d.height-bottom, top), xTitle, yTitle)
	c := &Chart{Title: title, Table: &Table{ID: id + "-v", Caption: title, Heads: []string{rows}, Left: 1}}
	index := map[float64]int{}
	for i, s := range curves {
		var points [][2]float64
		for j, x := range s.x {
			if math.IsNaN(s.y[j]) {
				continue
			}
			points = append(points, [2]float64{p.x.at(x), p.y.at(s.y[j])})
			if _, there := index[x]; !there {
				index[x] = len(c.Table.Rows)
				c.Table.Rows = append(c.Table.Rows, append([]string{tick(x)}, make([]string, len(curves))...))
			}
			c.Table.Rows[index[x]][1+i] = format(s.y[j])
		}
		if len(points) > 0 {
			p.path(series("line", i), points)
		}
		if len(points) <= 40 {
			for _, at := range points {
				p.circle(series("dot", i), at[0], at[1], 2.2)
			}
		}
		c.Table.Heads = append(c.Table.Heads, s.name)
		c.Legend = append(c.Legend, legend{series("key", i), s.name})
	}
	if len(c.Legend) == 1 {
		c.Legend = nil
	}
	c.SVG = p.done()
	return c
}

// point is a build on the frontier.
type point struct {
	name      string
	x, y      float64
	lo, hi    float64 // interval of y; NaN: none
	dominated bool
}

// frontierChart draws builds by size and loss, those that others beat hollow.
func frontierChart(id, title, yTitle string, logY bool, points []point) *Chart {
	var xs, ys []float64
	for _, p := range points {
		xs, ys = append(xs, p.x), append(ys, p.y, p.lo, p.hi)
	}
	d := newDrawing(id, title, fmt.Sprintf("%s against bits per weight of %d builds; the values are in the table at the top", yTitle, len(points)), 260)
	p := newPlot(d, newScale(xs, false, false, left, width-right), newScale(ys, logY, false, d.height-bottom, top), "bits per weight", yTitle)
	c := &Chart{Title: title}
	for i, x := range points {
		at, y := p.x.at(x.x), p.y.at(x.y)
		if !math.IsNaN(x.lo) {
			p.line(series("whisker", i), at, p.y.at(x.lo), at, p.y.at(x.hi))
		}
		kind := "point"
		if x.dominated {
			kind, c.Note = "hollow", "A hollow point needs no fewer bits and loses no less than another build."
		}
		p.circle(series(kind, i), at, y, 5)
		c.Legend = append(c.Legend, legend{series("key", i), x.name})
	}
	c.SVG = p.done()
	return c
}

// bar is a named length.
type bar struct {
	name, text string
	value      float64
	series     int
}

// barChart draws lengths from 0, their names above them so that long ones fit.
func barChart(id, title, what string, bars []bar) *Chart {
	const row = 30
	var values []float64
	for _, b := range bars {
		values = append(values, b.value)
	}
	d := newDrawing(id, title, what+", one bar each; the values are beside the bars", float64(len(bars))*row+bottom-8)
	base := d.height - bottom + 4
	x := newScale(append(values, 0), false, true, 2, width-right)
	for i, v := range x.ticks {
		anchor := "middle"
		switch i {
		case 0:
			anchor = "start"
		case len(x.ticks) - 1:
			anchor = "end"
		}
		d.line("grid", x.at(v), 0, x.at(v), base)
		d.text("tick", anchor, x.at(v), base+14, tick(v))
	}
	for i, b := range bars {
		y := float64(i) * row
		d.text("label", "start", 2, y+12, shorten(b.name, 40))
		d.text("label value", "end", width-right, y+12, b.text)
		d.rect(series("bar", b.series), 2, y+17, x.at(b.value)-2, 7)
	}
	d.text("axis-title", "middle", width/2, d.height-3, what)
	return &Chart{Title: title, SVG: d.done()}
}

// histogramChart draws the weights of a matrix before, filled, and after, as a line.
func histogramChart(id string, h *Histogram) *Chart {
	title := h.Name
	d := newDrawing(id, title, "share of the weights by value, before quantization filled and after it as a line", 200)
	p := newPlot(d, newScale([]float64{h.Lo, h.Hi}, false, false, left, width-right),
		newScale(append(append([]float64{0}, h.Before...), h.After...), false, true, d.height-bottom, top), "weight", "share")
	step := (h.Hi - h.Lo) / float64(len(h.Before))
	at := func(i int) float64 { return p.x.at(h.Lo + float64(i)*step) }
	for i, v := range h.Before {
		p.rect("before", at(i), p.y.at(v), at(i+1)-at(i), d.height-bottom-p.y.at(v))
	}
	var points [][2]float64
	for i, v := range h.After {
		points = append(points, [2]float64{at(i), p.y.at(v)}, [2]float64{at(i + 1), p.y.at(v)})
	}
	p.path("line s1", points)
	t := &Table{ID: id + "-v", Caption: h.Name + ": share of the weights by value", Heads: []string{"from", "before", "after"}, Left: 0}
	for i := range h.Before {
		t.Rows = append(t.Rows, []string{fmt.Sprintf("%.5f", h.Lo+float64(i)*step), percent(h.Before[i]), percent(h.After[i])})
	}
	return &Chart{Title: title, SVG: d.done(), Table: t, Note: fmt.Sprintf("SQNR %.2f dB; %d rows sampled", float64(h.SQNR), h.Rows),
		Legend: []legend{{"key before", "before"}, {"key s1", "after"}}}
}

// interval is a named range.
type interval struct {
	name, text string
	lo, hi     float64
}

// rangeChart draws ranges on an axis that is linear around 0 and logarithmic outside.
func rangeChart(id, title string, list []interval) *Chart {
	const row = 30
	d := newDrawing(id, title, "ranges of values on both sides of zero; the values are in the table below", float64(len(list))*row+bottom-8)
	bend := func(v float64) float64 { return math.Copysign(math.Log10(1+math.Abs(v)), v) }
	most := 1.0
	for _, x := range list {
		most = max(most, math.Ceil(math.Log10(1+max(math.Abs(x.lo), math.Abs(x.hi)))))
	}
	x := &scale{lo: -most, hi: most, from: 2, to: width - 2}
	base := d.height - bottom + 4
	for e := -most; e <= most; e += math.Ceil(most / 3) {
		v := math.Copysign(math.Pow(10, math.Abs(e)), e)
		if e == 0 {
			v = 0
		}
		anchor := "middle"
		switch e {
		case -most:
			anchor = "start"
		case most:
			anchor = "end"
		}
		d.line("grid", x.at(bend(v)), 0, x.at(bend(v)), base)
		d.text("tick", anchor, x.at(bend(v)), base+14, tick(v))
	}
	d.line("axis", x.at(0), 0, x.at(0), base)
	for i, r := range list {
		y := float64(i) * row
		d.text("label", "start", 2, y+12, shorten(r.name, 40))
		d.text("label value", "end", width-2, y+12, r.text)
		d.rect("bar s0", x.at(bend(r.lo)), y+17, x.at(bend(r.hi))-x.at(bend(r.lo)), 7)
	}
	d.text("axis-title", "middle", width/2, d.height-3, "value, logarithmic on both sides of zero")
	return &Chart{Title: title, SVG: d.done()}
}

// shorten cuts the front of a name, whose end says more.
func shorten(s string, most int) string {
	r := []rune(s)
	if len(r) <= most {
		return s
	}
	return "…" + string(r[len(r)-most+1:])
}

// stepCurve turns bins into the outline of a histogram over their middles.
func stepCurve(name string, list []Bin) curve {
	c := curve{name: name}
	for _, b := range list {
		from := max(b.From, b.To/math.Pow(10, 1.0/perDecade))
		c.x = append(c.x, math.Sqrt(from*b.To))
		c.y = append(c.y, 100*b.Share)
	}
	return c
}

func percent(v float64) string { return fmt.Sprintf("%.2f %%", 100*v) }

// number writes an integer in groups of three digits.
func number(n int64) string {
	s := fmt.Sprint(n)
	var parts []string
	for len(s) > 3 && s[len(s)-4] != '-' {
		parts = append([]string{s[len(s)-3:]}, parts...)
		s = s[:len(s)-3]
	}
	return strings.Join(append([]string{s}, parts...), "\u202f")
}
