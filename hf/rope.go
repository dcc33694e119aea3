package hf

import (
	"math"

	"github.com/tidwall/gjson"
)

// Rope is a rotary position embedding: pair j of a head, dimensions j and j+Dim/2, is rotated by position·InvFreq[j].
// The formulas are those of transformers 5.
type Rope struct {
	Type   string // default, linear, dynamic, llama3, yarn, longrope
	Theta  float64
	Dim    int     // rotated dimensions of a head; the rest pass through
	Factor float64 // of the scaling
	Max    int     // max_position_embeddings
	Orig   int     // original_max_position_embeddings

	betaFast, betaSlow float64 // yarn: turns at the ends of the ramp

	low, high         float64 // llama3: low_freq_factor, high_freq_factor
	truncate          bool    // yarn: the ends of the ramp are whole dimensions
	attention         float64 // attention_factor, 0 if not given
	mscale, mscaleAll float64
	short, long       []float64 // longrope: divisors, [Dim/2]
}

// InvFreq returns the Dim/2 angles per position, for a sequence of the given length, and the factor on cosines and sines.
func (r *Rope) InvFreq(length int) (freq []float32, factor float32) {
	freq = make([]float32, r.Dim/2)
	theta := r.Theta
	if r.Type == "dynamic" && length > r.Max {
		d := float64(r.Dim)
		theta *= math.Pow(r.Factor*float64(length)/float64(r.Max)-(r.Factor-1), d/(d-2))
	}
	factor = 1
	for j := range freq {
		f := math.Pow(theta, -2*float64(j)/float64(r.Dim))
		switch r.Type {
		case "linear":
			f /= r.Factor
		case "llama3":
			f = r.llama3(f)
		case "yarn":
			f = r.yarn(f, j)
		case "longrope":
			f /= r.divisors(length)[j]
		}
		freq[j] = float32(f)
	}
	switch {
	case r.attention != 0:
		factor = float32(r.attention)
	case r.Type == "yarn" && r.mscale != 0 && r.mscaleAll != 0:
		factor = float32(magnitude(r.mscale, r.Factor) / magnitude(r.mscaleAll, r.Factor))
	case r.Type == "yarn":
		factor = float32(magnitude(1, r.Factor))
	case r.Type == "longrope" && r.Factor > 1:
		factor = float32(math.Sqrt(1 + math.Log(r.Factor)/math.Log(float64(r.Orig))))
	}
	return freq, factor
}

// magnitude is YaRN's factor on the attention, for a scale.
func magnitude(scale, factor float64) float64 {
	if factor <= 1 {
		return 1
	}
	return float64(0.1*scale*math.Log(factor)) + 1
}

// llama3 leaves high frequencies, divides low ones, and blends between.
func (r *Rope) llama3(f float64) float64 {
	wavelength := 2 * math.Pi / f
	orig := float64(r.Orig)
	switch {
	case wavelength < orig/r.high:
		return f
	case wavelength > orig/r.low:
		return f / r.Factor
	}
	s := (orig/wavelength - r.low) / (r.high - r.low)
	return f * ((1-s)/r.Factor + s)
}

// yarn blends per pair: pairs that turn often keep their frequency, slow ones are divided.
func (r *Rope) yarn(f float64, j int) float64 {
	d := float64(r.Dim)
	at := func(turns float64) float64 {
		return d * math.Log(float64(r.Orig)/(turns*2*math.Pi)) / (2 * math.Log(r.Theta))
	}
	low, high := at(r.betaFast), at(r.betaSlow)
	if r.truncate {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, d-1)
	if low == high {
		high += 0.001
	}
	ramp := min(max((float64(j)-low)/(high-low), 0), 1)
	return float64(f/r.Factor*ramp) + float64(f*(1-ramp))
}

// divisors returns longrope's for a sequence of the given length.
func (r *Rope) divisors(length int) []float64 {
	if length > r.Orig {
		return r.long
	}
	return r.short
}

// Divisors returns what scaling of type llama3 or longrope divides the Dim/2 frequencies by, for a sequence of the given
// length.
func (r *Rope) Divisors(length int) []float64 {
	if r.Type == "longrope" {
		return r.divisors(length)
	}
	d := make([]float64, r.Dim/2)
	for j := range d {
		f := math.Pow(r.Theta, -2*float64(j)/float64(r.Dim))
		d[j] = f / r.llama3(f)
	}
	return d
}

// Standard reports whether a rope of type yarn is that of the paper: the ramp is from 32 turns to one, its ends are whole
// dimensions, and the factor on the attention follows from that of the scaling.
func (r *Rope) Standard() bool {
	return r.betaFast == 32 && r.betaSlow == 1 && r.truncate && r.attention == 0 && (r.mscale == 0 || r.mscaleAll == 0)
}

// Same reports whether two lengths have the same frequencies.
func (r *Rope) Same(a, b int) bool {
	switch r.Type {
	case "dynamic":
		return max(a, r.Max) == max(b, r.Max)
	case "longrope":
		return (a > r.Orig) == (b > r.Orig)
	}
	return true
}

// ropeDict finds the rope options of a layer type: the old rope_scaling wins over the new rope_parameters, which may be
// one object or one per layer type. A null entry means no rotation.
func (t *table) ropeDict(layerType string, types []string) (dict gjson.Result, nested, none bool) {
	for _, key := range []string{"rope_scaling", "rope_parameters"} {
		if r := t.c.get(key); r.Type != gjson.Null && !r.IsObject() {
			t.refuse("%s is %s, want an object", key, clip(r.Raw))
		}
	}
	dict = t.c.get("rope_scaling")
	if !dict.IsObject() || len(dict.Map()) == 0 {
		dict = t.c.get("rope_parameters")
	}
	for _, name := range types {
		if dict.Get(name).Exists() {
			nested = true
		}
	}
	if !nested {
		return dict, false, false
	}
	entry := dict.Get(layerType)
	return entry, true, entry.Exists() && entry.Type == gjson.Null
}

// rope reads the rotary embedding of a layer type. theta is the class's default.
func (t *table) rope(layerType string, types []string, theta float64) *Rope {
	dict, nested, none := t.ropeDict(layerType, types)
	if none {
		return nil
	}
	if nested {
		theta = orFloat(dict.Get("rope_theta"), theta)
	} else {
		theta = orFloat(dict.Get("rope_theta"), orFloat(t.c.get("rope_theta"), theta))
	}
	return t.ropeFrom(dict, nested, theta)
}

// plainRope is a rotary embedding without scaling.
func (t *table) plainRope(theta float64) *Rope { return t.ropeFrom(gjson.Result{}, false, theta) }

// ropeFrom reads a rope dict, which may be absent.
func (t *table) ropeFrom(dict gjson.Result, nested bool, theta float64) *Rope {
	r := &Rope{Type: "default", Theta: theta, Factor: orFloat(dict.Get("factor"), 1),
		Max: t.MaxPositions, truncate: true,
		attention: orFloat(dict.Get("attention_factor"), 0),
		mscale:    orFloat(dict.Get("mscale"), 0), mscaleAll: orFloat(dict.Get("mscale_all_dim"), 0),
		low: orFloat(dict.Get("low_freq_factor"), 1), high: orFloat(dict.Get("high_freq_factor"), 4)}
	for _, key := range []string{"type", "rope_type"} {
		if s := dict.Get(key); s.Type == gjson.String {
			r.Type = s.String()
		}
	}
	if r.Type == "su" || r.Type == "yarn" && t.Name == "Phi3ForCausalLM" {
		r.Type = "longrope"
	}
	partial := 1.0
	if r.Type != "default" || t.Name == "Phi3ForCausalLM" || t.Name == "Spark2_5ForCausalLM" {
		partial = orFloat(dict.Get("partial_rotary_factor"), orFloat(t.c.get("partial_rotary_factor"), 1))
	}
	r.Dim = int(float64(t.HeadDim)*partial) &^ 1
	r.Orig = int(orFloat(t.c.get("original_max_position_embeddings"), orFloat(dict.Get("original_max_position_embeddings"), float64(t.MaxPositions))))
	if b := dict.Get("truncate"); b.Type == gjson.False && !nested {
		r.truncate = false
	}
	r.betaFast, r.betaSlow = orFloat(dict.Get("beta_fast"), 0), orFloat(dict.Get("beta_slow"), 0)
	if r.betaFast == 0 {
		r.betaFast = 32
	}
	if r.betaSlow == 0 {
		r.betaSlow = 1
	}
	t.checkRope(r, dict)
	return r
}

// checkRope refuses what has no meaning.
func (t *table) checkRope(r *Rope, dict gjson.Result) {
	need := func(keys ...string) {
		for _, key := range keys {
			if dict.Get(key).Type != gjson.Number {
				t.refuse("rope of type %s: %s is missing or no number", r.Type, key)
			}
		}
	}
	switch r.Type {
	case "default":
	case "linear", "dynamic", "yarn":
		need("factor")
	case "llama3":
		need("factor", "low_freq_factor", "high_freq_factor")
	case "longrope":
		r.short, r.long = floats(dict.Get("short_factor")), floats(dict.Get("long_factor"))
		if len(r.short) != r.Dim/2 || len(r.long) != r.Dim/2 {
			t.refuse("longrope has %d short and %d long factors for %d pairs", len(r.short), len(r.long), r.Dim/2)
		}
		if dict.Get("factor").Type != gjson.Number && r.Orig > 0 {
			r.Factor = float64(r.Max) / float64(r.Orig)
		}
	default:
		t.refuse("rope type %q is unknown", clip(r.Type))
	}
	if !(r.Theta > 0) || math.IsInf(r.Theta, 0) || r.Dim < 2 || r.Dim > t.HeadDim || !(r.Factor > 0) || r.Orig < 1 && r.Type != "default" {
		t.refuse("rope of type %s, theta %g, %d dimensions, factor %g, original length %d cannot be", r.Type, r.Theta, r.Dim, r.Factor, r.Orig)
	}
}

// orFloat returns a number, or def where there is none.
func orFloat(r gjson.Result, def float64) float64 {
	if r.Type == gjson.Number {
		return r.Num
	}
	return def
}

func floats(r gjson.Result) []float64 {
	var list []float64
	for _, e := range r.Array() {
		list = append(list, e.Num)
	}
	return list
}
