package kernel

// curves are the curves of a set over vectors of any length; dst may be one of the others.
type curves struct {
	sigmoids, silus, gelus, geluTanhs   func(dst, x []float32)
	siluGated, geluGated, geluTanhGated func(dst, gate, up []float32)
	softcaps                            func(x []float32, c float32)
}

var curvesGeneric = curves{sigmoids, silus, gelus, geluTanhs, siluGated, geluGated, geluTanhGated, softcaps}

// Sigmoids sets dst = Sigmoid(x). dst may be x.
func Sigmoids(dst, x []float32) { active.sigmoids(dst[:len(x)], x) }

// SiLUs sets dst = SiLU(x). dst may be x.
func SiLUs(dst, x []float32) { active.silus(dst[:len(x)], x) }

// GELUs sets dst = GELU(x). dst may be x.
func GELUs(dst, x []float32) { active.gelus(dst[:len(x)], x) }

// GELUTanhs sets dst = GELUTanh(x). dst may be x.
func GELUTanhs(dst, x []float32) { active.geluTanhs(dst[:len(x)], x) }

// SiLUGated sets dst = SiLU(gate)·up. dst may be either.
func SiLUGated(dst, gate, up []float32) { active.siluGated(dst[:len(gate)], gate, up[:len(gate)]) }

// GELUGated sets dst = GELU(gate)·up. dst may be either.
func GELUGated(dst, gate, up []float32) { active.geluGated(dst[:len(gate)], gate, up[:len(gate)]) }

// GELUTanhGated sets dst = GELUTanh(gate)·up. dst may be either.
func GELUTanhGated(dst, gate, up []float32) {
	active.geluTanhGated(dst[:len(gate)], gate, up[:len(gate)])
}

// Softcaps sets x = Softcap(x, c).
func Softcaps(x []float32, c float32) { active.softcaps(x, c) }

func sigmoids(dst, x []float32) {
	for i, v := range x {
		dst[i] = Sigmoid(v)
	}
}

func silus(dst, x []float32) {
	for i, v := range x {
		dst[i] = SiLU(v)
	}
}

func gelus(dst, x []float32) {
	for i, v := range x {
		dst[i] = GELU(v)
	}
}

func geluTanhs(dst, x []float32) {
	for i, v := range x {
		dst[i] = GELUTanh(v)
	}
}

func siluGated(dst, gate, up []float32) {
	for i, v := range gate {
		dst[i] = SiLU(v) * up[i]
	}
}

func geluGated(dst, gate, up []float32) {
	for i, v := range gate {
		dst[i] = GELU(v) * up[i]
	}
}

func geluTanhGated(dst, gate, up []float32) {
	for i, v := range gate {
		dst[i] = GELUTanh(v) * up[i]
	}
}

func softcaps(x []float32, c float32) {
	for i, v := range x {
		x[i] = Softcap(v, c)
	}
}
