package mmap

import "golang.org/x/sys/unix"

// hugePages asks for large pages, without which a system may refuse them.
func hugePages(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
