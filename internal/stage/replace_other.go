//go:build !linux

package stage

// replace gives the folder tmp the name final, and removes what had it before.
func replace(tmp, final string) error { return replaceInTwo(tmp, final) }
