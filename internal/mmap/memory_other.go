//go:build !unix

package mmap

// Memory returns n bytes of zeros.
func Memory(n int) ([]byte, error) { return make([]byte, n), nil }

// Free gives memory back, which must not be touched any more.
func Free([]byte) error { return nil }
