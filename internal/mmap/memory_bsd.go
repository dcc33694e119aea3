//go:build unix && !linux

package mmap

func hugePages([]byte) {}
