//go:build race

package runtime

// every is the distance of the variants that the long tests take: the race detector makes arithmetic some twenty times
// slower, and what it looks for does not depend on weights.
const every = 6
