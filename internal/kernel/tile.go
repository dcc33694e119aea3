package kernel

// tiles are products of several rows and tokens in float32, of each set in rising order of tokens. They take all rows of
// one tile at once.
type tiles struct{ dotTiles []dotTile }

// dotTile sets y[t·stride+r] = Dot(w[r], x[t]) for rows r of w, ld apart, and t of x [tokens, k]; k is a multiple of 16.
type dotTile struct {
	rows, tokens int
	run          func(y []float32, stride int, w, x []float32, ld, k int)
}

var tilesGeneric = tiles{}

// DotRows sets y[t·stride+r] = Dot(w[r], x[t]) for rows of w, which are ld apart, and n rows of x, all k long. It is
// fastest where ld is no multiple of 1024: rows then lie in different sets of a cache.
func DotRows(y []float32, stride int, w, x []float32, rows, n, ld, k int) {
	single := func(r, t int) { y[t*stride+r] = Dot(w[r*ld:r*ld+k], x[t*k:(t+1)*k]) }
	kinds := active.dotTiles
	if k%16 != 0 || k == 0 {
		kinds = nil
	}
	r := 0
	for ; len(kinds) > 0 && r+kinds[0].rows <= rows; r += kinds[0].rows {
		t := 0
		for i := len(kinds) - 1; i >= 0; i-- {
			for kind := kinds[i]; t+kind.tokens <= n; t += kind.tokens {
				kind.run(y[t*stride+r:], stride, w[r*ld:], x[t*k:], ld, k)
			}
		}
		for ; t < n; t++ {
			for i := range kinds[0].rows {
				single(r+i, t)
			}
		}
	}
	for ; r < rows; r++ {
		for t := range n {
			single(r, t)
		}
	}
}
