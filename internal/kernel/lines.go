package kernel

// lines are what the searches of blocks of codes do over and over.
type lines struct {
	sums func(x, w, c, cw []float64, lo, hi float64) // x are the five rows of Lines
}

var linesGeneric = lines{sumLines}

// Lines are eight ways to encode a run of weights, w ≈ scale·q − floor with integers q, and what least squares need of them.
type Lines [5 * 8]float64

// Set makes way i that of a scale and a floor.
func (x *Lines) Set(i int, scale, floor float64) { x[i], x[8+i] = scale, floor }

// At returns Σ c·q, Σ c·q² and Σ cw·q of way i.
func (x *Lines) At(i int) (q, qq, qw float64) { return x[16+i], x[24+i], x[32+i] }

// integral moves a float64 to where neighbours are 1 apart, which rounds it, ties to even.
const integral = 3 << 51

// Sums encodes weights w with importances c, and their products cw, in all eight ways, q = rint((w + floor)·(1/scale)) inside lo and hi,
// integers below 2^50, and fills the sums, in the order of the weights.
func (x *Lines) Sums(w, c, cw []float64, lo, hi float64) {
	active.sums(x[:], w, c[:len(w)], cw[:len(w)], lo, hi)
}

func sumLines(x, w, c, cw []float64, lo, hi float64) {
	for l := range 8 {
		inverse, floor := 1/x[l], x[8+l]
		var sq, sqq, sqw float64
		for i, v := range w {
			t := float64((v + floor) * inverse)
			if t < lo {
				t = lo
			}
			if t > hi {
				t = hi
			}
			q := t + integral - integral
			cq := float64(c[i] * q)
			sq += cq
			sqq += float64(cq * q)
			sqw += float64(cw[i] * q)
		}
		x[16+l], x[24+l], x[32+l] = sq, sqq, sqw
	}
}
