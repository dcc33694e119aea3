//go:build race || arm64

package runtime

// every is the distance of the variants that the long tests take: the race detector and emulators make arithmetic twenty times
// slower, and what it looks for does not depend on weights.
const every = 6
