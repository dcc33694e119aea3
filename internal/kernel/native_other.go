//go:build !amd64 || purego

package kernel

// native returns no sets: there is no assembly for this machine.
func native() (list, apart []set) { return nil, nil }
