package fidelity

import (
	"fmt"
	"math"
)

// distribution is the softmax of logits, up to the division: p(v) = exp(logits[v] − most) / sum.
type distribution struct {
	logits []float32
	most   float64
	top    int       // likeliest token
	powers []float64 // exp(logits − most)
	sum    float64   // of powers
}

// normalize finds the likeliest token and the sum. The powers are kept in scratch, which is as long as logits.
func normalize(logits []float32, scratch []float64) (distribution, error) {
	d := distribution{logits: logits, powers: scratch}
	most := logits[0]
	for i, v := range logits {
		if v > most {
			most, d.top = v, i
		}
	}
	d.most = float64(most)
	d.sum = powers(scratch, logits, d.most)
	if math.IsNaN(d.sum) || math.IsInf(d.sum, 0) || math.IsInf(d.most, 0) {
		return d, fmt.Errorf("fidelity: the model's logits are not finite: its weights or scales overflow; runtime inspect looks for the tensor")
	}
	return d, nil
}

// surprise returns −ln p(token).
func (d *distribution) surprise(token int32) float64 {
	return math.Log(d.sum) - (float64(d.logits[token]) - d.most)
}

// divergence returns KL(d‖q).
func (d *distribution) divergence(q *distribution) float64 {
	var sum float64
	for i, v := range d.logits {
		sum += float64(d.powers[i] * (float64(v) - d.most - (float64(q.logits[i]) - q.most)))
	}
	return max(sum/d.sum-math.Log(d.sum)+math.Log(q.sum), 0)
}
