package report

import (
	"math"
	"slices"
	"strings"

	"nibble/fidelity"
)

// How positions are summed up.
const (
	perDecade    = 4 // bins of the histogram
	lowestDecade = -6
	decades      = 7 // up to 10 nats
	runs         = 16
	worstTokens  = 8
	contextSize  = 24 // tokens before a position
)

// Collector sums up the positions of a comparison while it runs; memory does not grow with the text.
type Collector struct {
	text   []int32
	decode func(ids []int32) (string, error)

	counts [perDecade*decades + 2]int // the first and the last are open
	most   float64
	length int // positions of a run
	sums   []float64
	sizes  []int
	total  int
	worst  []fidelity.Position // descending
}

// NewCollector collects a comparison in windows of context tokens of a text, which decode turns into text again.
func NewCollector(text []int32, context int, decode func(ids []int32) (string, error)) *Collector {
	length := max((context+runs-1)/runs, 1)
	n := (context + length - 1) / length
	return &Collector{text: text, decode: decode, length: length, sums: make([]float64, n), sizes: make([]int, n)}
}

// Add takes a position.
func (c *Collector) Add(p fidelity.Position) {
	bin := 0
	if p.KL > 0 {
		bin = int(math.Floor((math.Log10(p.KL)-lowestDecade)*perDecade)) + 1
	}
	c.counts[min(max(bin, 0), len(c.counts)-1)]++
	c.most = max(c.most, p.KL)
	c.total++
	at := min(p.Window/c.length, len(c.sums)-1)
	c.sums[at] += p.KL
	c.sizes[at]++
	if len(c.worst) == worstTokens && p.KL <= c.worst[worstTokens-1].KL {
		return
	}
	i := 0
	for i < len(c.worst) && c.worst[i].KL >= p.KL {
		i++
	}
	c.worst = slices.Insert(c.worst, i, p)
	c.worst = c.worst[:min(len(c.worst), worstTokens)]
}

// edge returns the upper end of a bin.
func edge(bin int) float64 {
	return math.Pow(10, lowestDecade+float64(bin)/perDecade)
}

// Measured returns what a build lost, with what was collected.
func (c *Collector) Measured(x *fidelity.Comparison) (*Measured, error) {
	m := &Measured{Comparison: x, ByPosition: []Run{}, Worst: []Token{}}
	for i, n := range c.counts {
		b := Bin{From: edge(i - 1), To: edge(i), Share: float64(n) / float64(max(c.total, 1))}
		switch i {
		case 0:
			b.From = 0
		case len(c.counts) - 1:
			b.To = max(c.most, b.To)
		}
		m.Histogram = append(m.Histogram, b)
	}
	for i, n := range c.sizes {
		if n > 0 {
			m.ByPosition = append(m.ByPosition, Run{i * c.length, (i+1)*c.length - 1, n, c.sums[i] / float64(n)})
		}
	}
	for _, p := range c.worst {
		t, err := c.token(p)
		if err != nil {
			return nil, err
		}
		m.Worst = append(m.Worst, t)
	}
	return m, nil
}

// token writes a position as text.
func (c *Collector) token(p fidelity.Position) (Token, error) {
	before := c.text[p.Text-min(contextSize, p.Window) : p.Text]
	context, err := c.decode(before)
	t := Token{Text: p.Text, Context: context, KL: p.KL, Reference: math.Exp(-p.Reference), Build: math.Exp(-p.Build)}
	for _, x := range []struct {
		to *string
		id int32
	}{{&t.Token, p.Token}, {&t.Expected, int32(p.Likeliest[0])}, {&t.Built, int32(p.Likeliest[1])}} {
		if err != nil {
			return t, err
		}
		*x.to, err = c.behind(before, context, x.id)
	}
	return t, err
}

// behind returns what a token adds to a context, since spaces depend on what is before.
func (c *Collector) behind(before []int32, context string, id int32) (string, error) {
	whole, err := c.decode(append(slices.Clone(before), id))
	if rest, ok := strings.CutPrefix(whole, context); err == nil && ok {
		return rest, nil
	}
	return c.decode([]int32{id})
}
