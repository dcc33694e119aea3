package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// textView is the section about the text.
type textView struct {
	Lead   string
	Table  *Table
	Charts []*Chart
	Worst  []worstView
}

type worstView struct {
	ID, Name string
	Tokens   []Token
}

func (r *Report) textView() *textView {
	x := r.Text
	v := &textView{Lead: fmt.Sprintf("Text: %s, %s tokens, in %d windows of %d, %d apart. The reference %s runs in f32; builds with activations in %s, keys and values in %s.",
		x.Name, number(int64(x.Tokens)), x.Windows, x.Context, x.Stride, r.Reference, x.Activations, x.KV),
		Table: &Table{ID: "text-t", Caption: "What the builds lost, with 95 % intervals", Left: 1, Heads: []string{"build", "KL mean", "median", "99 %",
			"perplexity", "its ratio", "top-1 agreement"}}}
	var shares, positions []curve
	with := func(format string, v float64, ci [2]float64) string {
		return fmt.Sprintf(format+" ("+format+"–"+format+")", v, ci[0], ci[1])
	}
	for i, b := range r.Builds {
		m := b.Measured
		if m == nil {
			continue
		}
		if len(v.Table.Rows) == 0 {
			v.Table.Rows = [][]string{{r.Reference, "–", "–", "–", with("%.2f", m.Comparison.Reference, m.ReferenceCI), "–", "–"}}
		}
		v.Table.Rows = append(v.Table.Rows, []string{b.Name, with("%.5f", m.KLMean, m.KLMeanCI), fmt.Sprintf("%.5f", m.KLMedian), fmt.Sprintf("%.4f", m.KLP99),
			with("%.2f", m.Comparison.Build, m.BuildCI), with("%.4f", m.Ratio, m.RatioCI),
			with("%.2f %%", 100*m.Top1, [2]float64{100 * m.Top1CI[0], 100 * m.Top1CI[1]})})
		shares = append(shares, stepCurve(b.Name, m.Histogram))
		c := curve{name: b.Name}
		for _, run := range m.ByPosition {
			c.x, c.y = append(c.x, float64(run.From+run.To)/2), append(c.y, run.KL)
		}
		positions = append(positions, c)
		v.Worst = append(v.Worst, worstView{fmt.Sprintf("worst-%d", i), b.Name, m.Worst})
	}
	kl := func(v float64) string { return fmt.Sprintf("%.6f", v) }
	v.Charts = []*Chart{
		lineChart("kl-share", "KL divergence of the positions", "KL divergence, nats", "% of the positions", "KL, nats", shares, true,
			func(v float64) string { return fmt.Sprintf("%.2f %%", v) }),
		lineChart("kl-place", "KL divergence by position in the window", "position in the window", "mean KL, nats", "position", positions, false, kl)}
	return v
}

// buildView is the section about a build.
type buildView struct {
	*Build
	ID, Name              string
	Heat, Loss            *heat
	RoleChart, LayerChart *Chart
	RoleTable, Modules    *Table
	Histograms            []*Chart
}

// heat is a grid with colours.
type heat struct {
	ID, Caption string
	Grid        *grid
	Rows        []heatRow
}

type heatRow struct {
	Name  string
	Cells []heatCell
}

type heatCell struct{ Class, Text string }

// newHeat colours a grid: class h0 is the worst of seven.
func newHeat(id, caption string, g *grid, format string, low bool) *heat {
	if g == nil {
		return nil
	}
	h := &heat{ID: id, Caption: caption, Grid: g}
	for i, cells := range g.Cells {
		row := heatRow{Name: "–"}
		if g.Layers[i] >= 0 {
			row.Name = fmt.Sprint(g.Layers[i])
		}
		for _, v := range cells {
			if math.IsNaN(v) {
				row.Cells = append(row.Cells, heatCell{})
				continue
			}
			level := 3
			if g.Hi > g.Lo {
				level = min(int((v-g.Lo)/(g.Hi-g.Lo)*7), 6)
			}
			if !low {
				level = 6 - level
			}
			row.Cells = append(row.Cells, heatCell{fmt.Sprintf("h%d", level), fmt.Sprintf(format, v)})
		}
		h.Rows = append(h.Rows, row)
	}
	return h
}

func (x *Build) view(id string) *buildView {
	v := &buildView{Build: x, ID: id, Name: x.Name}
	g := x.sqnrGrid()
	v.Heat = newHeat(id+"-sqnr", "Lowest SQNR in dB; red is low, blue is high", g, "%.1f", true)
	v.Loss = newHeat(id+"-loss", "Largest loss; red is high, blue is low", x.lossGrid(), "%.5f", false)
	v.RoleTable = &Table{ID: id + "-roles", Caption: "Matrices by role", Left: 1, Heads: []string{"role", "matrices", "weights", "bytes", "bits per weight", "lowest SQNR, dB", "mean SQNR, dB"}}
	var bars []bar
	for _, r := range x.roles() {
		lowest, average := "–", "–"
		if r.Judged > 0 {
			lowest, average = fmt.Sprintf("%.2f", r.Lowest), fmt.Sprintf("%.2f", r.Average)
		}
		v.RoleTable.Rows = append(v.RoleTable.Rows, []string{r.Role, fmt.Sprint(r.Matrices), number(r.Weights), number(r.Bytes), fmt.Sprintf("%.4f", r.Bits), lowest, average})
		bars = append(bars, bar{r.Role, fmt.Sprintf("%.3f", r.Bits), r.Bits, 0})
	}
	v.RoleChart = barChart(id+"-bits", "Bits per weight by role", "bits per weight", bars)
	if g != nil {
		var curves []curve
		for i, role := range g.Roles {
			c := curve{name: role}
			for j, layer := range g.Layers {
				if layer >= 0 && !math.IsNaN(g.Cells[j][i]) {
					c.x, c.y = append(c.x, float64(layer)), append(c.y, g.Cells[j][i])
				}
			}
			if len(c.x) > 0 {
				curves = append(curves, c)
			}
		}
		if len(curves) > 0 {
			v.LayerChart = lineChart(id+"-layers", "SQNR by layer", "layer", "lowest SQNR, dB", "layer", curves, false, func(v float64) string { return fmt.Sprintf("%.2f", v) })
		}
	}
	v.Modules = x.modules(id)
	for i, h := range x.Histograms {
		v.Histograms = append(v.Histograms, histogramChart(fmt.Sprintf("%s-h%d", id, i), h))
	}
	return v
}

// modules lists the matrices.
func (x *Build) modules(id string) *Table {
	t := &Table{ID: id + "-modules", Caption: "The matrices", Left: 3, Heads: []string{"matrix", "how", "note", "shape", "bytes", "bits per weight", "SQNR, dB", "largest error", "loss"}}
	for i := range x.Matrices[:min(len(x.Matrices), mostRows)] {
		m := &x.Matrices[i]
		how := m.Method
		if m.Width > 0 {
			how = fmt.Sprintf("%s, %d bits, groups of %d", m.Method, m.Width, m.Group)
		}
		note := strings.Trim(m.Kept+"; "+m.Fallback, "; ")
		if m.Folded {
			note = strings.Trim(note+"; weights stand for multiples of the source's", "; ")
		}
		if m.Sampled {
			note = strings.Trim(note+"; SQNR of some rows", "; ")
		}
		most, loss := "–", "–"
		if m.Max > 0 {
			most = fmt.Sprintf("%.5f", m.Max)
		}
		if m.Loss != nil {
			loss = fmt.Sprintf("%.6f", *m.Loss)
		}
		shape := strings.Trim(strings.ReplaceAll(fmt.Sprint(m.Shape), " ", " × "), "[]")
		t.Rows = append(t.Rows, []string{m.Name, how, note, shape, number(m.Bytes), fmt.Sprintf("%.4f", m.Bits), decibels(m.SQNR), most, loss})
	}
	return t
}

// exportView is the section about an export.
type exportView struct {
	*Export
	ID, Name string
	Charts   []*Chart
	Table    *Table
}

// mostRanges is how many ranges are drawn.
const mostRanges = 12

func (x *Export) view(id string) *exportView {
	v := &exportView{Export: x, ID: id, Name: x.Name}
	c := curve{name: "residual stream"}
	for i, l := range x.Layers[:min(len(x.Layers), mostLayers)] {
		c.x, c.y = append(c.x, float64(i)), append(c.y, float64(l.SQNR))
	}
	if len(c.x) > 0 {
		v.Charts = append(v.Charts, lineChart(id+"-layers", "SQNR behind every layer", "layer", "SQNR, dB", "layer", []curve{c}, false,
			func(v float64) string { return fmt.Sprintf("%.2f", v) }))
	}
	order := make([]int, len(x.Tensors))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		s, t := &x.Tensors[a], &x.Tensors[b]
		return cmp.Or(cmp.Compare(t.Clipped, s.Clipped), cmp.Compare(t.Hi-t.Lo, s.Hi-s.Lo))
	})
	var clipped []bar
	var ranges []interval
	for _, i := range order[:min(len(order), mostRanges)] {
		t := &x.Tensors[i]
		ranges = append(ranges, interval{t.Name, fmt.Sprintf("%.4g to %.4g", t.Lo, t.Hi), float64(t.Lo), float64(t.Hi)})
		if t.Clipped > 0 {
			clipped = append(clipped, bar{t.Name, fmt.Sprintf("%.4f %%", 100*t.Clipped), 100 * t.Clipped, 1})
		}
	}
	if len(clipped) > 0 {
		v.Charts = append(v.Charts, barChart(id+"-clipped", "Most clipped on held-out text", "% of the elements", clipped))
	}
	if len(ranges) > 0 {
		chart := rangeChart(id+"-ranges", "Ranges of the most clipped and the widest tensors", ranges)
		if len(clipped) == 0 {
			chart.Title, chart.Note = "The widest ranges", "Nothing is clipped on held-out text."
		}
		v.Charts = append(v.Charts, chart)
	}
	v.Table = &Table{ID: id + "-tensors", Caption: "Tensors on grids, in the order of the graph", Left: 2, Heads: []string{"tensor", "type", "from", "to", "elements", "clipped", "SQNR, dB"}}
	for i := range x.Tensors[:min(len(x.Tensors), mostRows)] {
		t := &x.Tensors[i]
		v.Table.Rows = append(v.Table.Rows, []string{t.Name, t.Type, fmt.Sprintf("%.5g", t.Lo), fmt.Sprintf("%.5g", t.Hi), number(t.Elements),
			fmt.Sprintf("%.4f %%", 100*t.Clipped), fmt.Sprintf("%.2f", float64(t.SQNR))})
	}
	return v
}

// speedView is the section about speed.
type speedView struct {
	Charts []*Chart
	Tables []*Table
}

func (r *Report) speedView() *speedView {
	v := new(speedView)
	for i, s := range r.Speed {
		id := fmt.Sprintf("speed-%d", i)
		t := &Table{ID: id, Caption: fmt.Sprintf("%s on %s, kernels %s, activations %s, cache %s; tokens per second, shares are of the median", s.Model, s.CPU, s.Kernel,
			s.Activations, s.KV), Left: 1, Heads: []string{"test", "threads", "mean", "±", "median", "GB/s", "of the memory's ceiling", "of the arithmetic's peak"}}
		var bars []bar
		for _, x := range s.Tests[:min(len(s.Tests), mostRows)] {
			share := func(v float64) string {
				if v == 0 {
					return "–"
				}
				return fmt.Sprintf("%.1f %%", 100*v)
			}
			read := "–"
			if x.Read > 0 {
				read = fmt.Sprintf("%.1f", x.Read)
			}
			t.Rows = append(t.Rows, []string{x.Name, fmt.Sprint(x.Threads), fmt.Sprintf("%.2f", x.Mean), fmt.Sprintf("%.2f", x.Stddev), fmt.Sprintf("%.2f", x.Median),
				read, share(x.ShareOfCeiling), share(x.ShareOfPeak)})
			if len(bars) < 24 {
				bars = append(bars, bar{fmt.Sprintf("%s, threads %d", x.Name, x.Threads), fmt.Sprintf("%.1f", x.Median), x.Median, 2})
			}
		}
		v.Charts = append(v.Charts, barChart(id+"-c", s.Model+" ("+s.File+")", "tokens per second", bars))
		v.Tables = append(v.Tables, t)
	}
	return v
}
