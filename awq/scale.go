package awq

import (
	"math"

	"nibble/internal/half"
	"nibble/internal/linalg"
	"nibble/quant"
	"nibble/safetensors"
)

// Steps is the number of exponents that are tried, α = 0, 1/Steps, 2/Steps, and so on.
const Steps = 20

// floor is the least that a column counts as active, of the most active one: a column that was silent may speak some day.
const floor = 1e-3

// Candidate returns s_k = m_k^α, m_k = √variance_k, of exponent number i, times a factor that makes √(max s · min s) = 1, in
// bfloat16: what differs in the last bits of a power between machines leaves no trace. The first candidate is all ones.
func Candidate(variance []float64, i int) []float32 {
	s := make([]float32, len(variance))
	var most float64
	for _, v := range variance {
		most = max(most, v)
	}
	if most = math.Sqrt(most); most == 0 || i == 0 {
		for k := range s {
			s[k] = 1
		}
		return s
	}
	least := 1.0
	for _, v := range variance {
		least = min(least, max(math.Sqrt(v)/most, floor))
	}
	for k, v := range variance {
		s[k] = half.RoundBF16(float32(math.Pow(max(math.Sqrt(v)/most, floor)/math.Sqrt(least), float64(i)/Steps)))
	}
	return s
}

// Fold divides the weights of a norm by scales so that nothing is lost in the type in which norms are stored: the quotients are
// rounded first, and the scales that they stand for are returned with them. With plusOne the norm multiplies by 1 + w. A
// weight that would become zero, or is no number, stays as it is, with scale 1.
func Fold(w, s []float32, plusOne bool, d safetensors.DType) (folded, exact []float32) {
	var one float32
	if plusOne {
		one = 1
	}
	folded, exact = make([]float32, len(w)), make([]float32, len(w))
	for k, v := range w {
		folded[k], exact[k] = v, 1
		was := one + v
		to := quant.Round(was/s[k]-one, d)
		if e := was / (one + to); e > 0 && !math.IsInf(float64(e), 0) {
			folded[k], exact[k] = to, e
		}
	}
	return folded, exact
}

// Share returns the variances of the channels of key/value heads, of those of the query heads that read them: each their mean.
func Share(variance []float64, kvHeads, headDim int) []float64 {
	shared := make([]float64, kvHeads*headDim)
	each := len(variance) / len(shared) // query heads that share one
	for i, v := range variance {
		shared[i/headDim/each*headDim+i%headDim] += v / float64(each)
	}
	return shared
}

// Spread is the way back for scales: every one of the query heads gets those of its key/value head.
func Spread(s []float32, heads, kvHeads, headDim int) []float32 {
	all := make([]float32, heads*headDim)
	each := heads / kvHeads
	for i := range all {
		all[i] = s[i/headDim/each*headDim+i%headDim]
	}
	return all
}

// Problem is the choice of scales for matrices that receive the same inputs x [K]: what errors of their columns cost.
type Problem struct {
	prices []float32               // of the squared errors, for the search; never 0
	moment *linalg.Panels[float32] // H = E[x xᵀ]; nil: the prices are all
}

// NewProblem takes H [k, k], of which only the lower triangle is read. The prices are its diagonal.
func NewProblem(moment []float64, k, threads int) *Problem {
	p := &Problem{prices: make([]float32, k), moment: new(linalg.Panels[float32])}
	h := make([]float32, k*k)
	var most float64
	for i := range k {
		for j := range i + 1 {
			v := float32(moment[i*k+j])
			h[i*k+j], h[j*k+i] = v, v
		}
		most = max(most, moment[i*k+i])
	}
	for i := range p.prices {
		p.prices[i] = 1
		if most > 0 {
			p.prices[i] = float32(max(moment[i*k+i], floor*floor*most))
		}
	}
	p.moment.Pack(h, k, false, k, k, threads)
	return p
}

// NewPriced takes the prices that are left when errors are passed on to columns that are not quantized yet.
func NewPriced(prices []float64) *Problem {
	p := &Problem{prices: make([]float32, len(prices))}
	for i, v := range prices {
		p.prices[i] = float32(v)
	}
	return p
}

// Loss returns what quantization of the rows w [m.N, m.K] costs if their columns are multiplied by s [m.K] before and divided by it
// afterwards:
//
//	Σ e H eᵀ,  e = w − Q(w·s)/s,  or without H  Σ_k price_k e_k²
//
// for the rows' Q: search with the squared errors of column k weighted by price_k/s_k². m takes the codes. Columns behind those of
// the problem are padding.
func (p *Problem) Loss(m *quant.Matrix, w, s []float32, search quant.Solver) float64 {
	n, k, columns := m.N, m.K, len(p.prices)
	e, d := make([]float32, n*k), make([]float32, k)
	for c := range d {
		d[c] = 1
		if c < columns {
			d[c] = p.prices[c] / float32(s[c]*s[c])
		}
	}
	Multiply(e, w, s)
	search(m, e, d)
	for r := range n {
		row := e[r*k : (r+1)*k]
		m.DequantizeRow(row, r)
		for c, v := range w[r*k : (r+1)*k] {
			row[c] = v - row[c]/s[c]
		}
	}
	g := make([]float32, n*columns)
	if p.moment != nil {
		p.moment.Multiply(linalg.Add, g, columns, e, k, n, 1)
	} else {
		for r := range n {
			Multiply(g[r*columns:(r+1)*columns], e[r*k:r*k+columns], p.prices)
		}
	}
	var sum float64
	for r := range n {
		for c, v := range g[r*columns : (r+1)*columns] {
			sum += float64(float64(v) * float64(e[r*k+c]))
		}
	}
	return sum
}

// Multiply sets dst to the rows w with every column multiplied by its scale.
func Multiply(dst, w, s []float32) {
	for r := 0; r < len(w); r += len(s) {
		row := dst[r : r+len(s)]
		for c, v := range w[r : r+len(s)] {
			row[c] = float32(v * s[c])
		}
	}
}

// Least returns the index of the smallest loss, the first of equal ones.
func Least(losses []float64) int {
	best := 0
	for i, l := range losses {
		if l < losses[best] {
			best = i
		}
	}
	return best
}
