//go:build !race

package runtime

// every is the distance of the variants that the long tests take: they take all.
const every = 1
