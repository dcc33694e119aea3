//go:build !linux || !amd64 || purego

package kernel

// askTiles says why there are no tiles.
func askTiles() (usable bool, reason string) {
	return false, "tiles are used on Linux for amd64 only, and not under the build tag purego"
}
