//go:build unix

package kernel

import "testing"

// Tiles, triangles and moments touch nothing behind their slices.
func TestOuterGuardPages(t *testing.T) {
	underEach(t, func(t *testing.T) {
		testOuter(t, moved[float32])
		testOuter(t, moved[float64])
		testDivide(t, moved[float64])
		testMomentTiles(t, moved[float32], moved[float64], moved[byte])
	})
}
