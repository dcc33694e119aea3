package kernel

import (
	"math"

	"nibble/internal/half"
)

// Rule makes the candidates of a search whose scales are bfloat16 from a few numbers of the group.
type Rule struct {
	n         int
	p, q, den lanes // behind the last candidate the first again
}

// NewRule returns the rule of n candidates, at most MaxTrials, with the factors P and Q and the divisor of each.
func NewRule(n int, factors func(i int) (p, q, den float32)) *Rule {
	r := &Rule{n: n}
	for i := range r.p {
		at := i
		if i >= n {
			at = 0
		}
		r.p[i], r.q[i], r.den[i] = factors(at)
	}
	return r
}

// Range is what a Rule applies to. Candidate i gets, rounded at each step,
//
//	a = Base + U·P[i], b = Base + V·Q[i]
//	Scale = bf16((a − b)/Den[i])        Sub = bf16(Keep·b + Shift·Scale)
//	z = clamp(rint(−b/Scale), 0, Most)  Lo − Add = Lo − z  Hi − Add = Hi − z
type Range struct{ Base, U, V, Keep, Shift, Most, Lo, Hi float32 }

// Fill takes the candidates of a rule in place of those that were added. It reports false, and has no candidates, where a
// scale could be beyond the magnitudes at which bfloat16 is as precise as elsewhere. most is the largest magnitude in the
// group and at least that of a and b; factors are at most 1, divisors at most 16, and with them a and b are at least half of
// |U − V| apart.
func (t *Trials) Fill(r *Rule, x *Range, most float32) bool {
	t.Reset()
	if apart := abs(x.U - x.V); !(apart >= 0x1p-38 && most <= 0x1p40 && apart >= most*0x1p-12) {
		return false
	}
	t.n, t.shifted, t.filled = r.n, x.Keep != 0, true
	active.fill([8]float32{x.Base, x.U, x.V, x.Keep, x.Shift, x.Most, x.Lo, x.Hi}, &r.p, &r.q, &r.den, &t.scale, &t.inverse, &t.sub, &t.lowest, &t.highest)
	return true
}

// fill sets the fields of all lanes as Range says.
func fill(x [8]float32, p, q, den, scale, inverse, sub, lowest, highest *[MaxTrials]float32) {
	for i := range scale {
		a, b := x[0]+float32(x[1]*p[i]), x[0]+float32(x[2]*q[i])
		s := half.RoundBF16((a - b) / den[i])
		z := Nearest(-b/s, 0, x[5])
		scale[i], inverse[i] = s, 1/s
		sub[i] = half.RoundBF16(float32(x[3]*b) + float32(x[4]*s))
		lowest[i], highest[i] = x[6]-z, x[7]-z
	}
}

// sieve sets low[i] = √squares[i]·|scale[i]|·(1 − x[0]) − slack, slack = x[1]·(x[2] + |sub[i]| + x[3]·|scale[i]|), and returns
// the smallest √squares[i]·|scale[i]|·(1 + x[0]) + slack, of those that are not NaN, +Inf if there is none. The length is
// a multiple of 16.
func sieve(x [4]float32, squares, scale, sub, low []float32) (least float32) {
	least = float32(math.Inf(1))
	for i, a := range squares {
		s := abs(scale[i])
		root := float32(float32(math.Sqrt(float64(a))) * s)
		slack := float32(x[1] * (float32(x[2]+abs(sub[i])) + float32(x[3]*s)))
		margin := float32(root * x[0])
		low[i] = float32(root-margin) - slack
		if high := float32(root+margin) + slack; high < least {
			least = high
		}
	}
	return least
}

// above returns a bit for every element that is finite and larger than bound. The length is a multiple of 16, at most 64.
func above(low []float32, bound float32) (mask uint64) {
	for i, x := range low {
		if x > bound && x <= math.MaxFloat32 {
			mask |= 1 << i
		}
	}
	return mask
}
