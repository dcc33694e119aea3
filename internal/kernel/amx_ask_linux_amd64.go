//go:build !purego

package kernel

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/cpu"
)

// askTiles asks processor and operating system for tiles, in the order in which that is allowed: CPUID says whether there are any,
// XCR0 whether the system saves them, and Linux grants a process their data, which make its signal frames 8 KB larger, on request. The
// grant is refused where a thread's alternate signal stack is too small for that: those of Go, of 32 KB, are not.
func askTiles() (usable bool, reason string) {
	const bf16, tile, int8 = 1 << 22, 1 << 24, 1 << 25
	switch x := &cpu.X86; {
	case !x.HasAVX512F || !x.HasAVX512BW || !x.HasAVX512VL || !x.HasAVX512DQ || !x.HasBMI2 || !x.HasAVX512VNNI || !x.HasAVX512BF16:
		return false, "the processor has no AVX-512 with VNNI and BF16, which the rest of the set needs"
	case askCPUID()&(bf16|tile|int8) != bf16|tile|int8:
		return false, "the processor has no amx_tile, amx_int8 and amx_bf16 (CPUID)"
	case askXCR0()>>17&3 != 3:
		return false, "the operating system has not enabled tiles (bits 17 and 18 of XCR0)"
	}
	if errno := askGrant(); errno != 0 {
		return false, fmt.Sprintf("the kernel refuses permission to use tiles (arch_prctl ARCH_REQ_XCOMP_PERM: %v)", syscall.Errno(errno))
	}
	if askGranted()>>18&1 == 0 {
		return false, "the kernel has granted tiles and does not list them (arch_prctl ARCH_GET_XCOMP_PERM)"
	}
	return true, "granted by the kernel"
}

// These are instructions behind a mark: leaf 7 of CPUID, register 0 of XGETBV, and the system calls.

func askCPUID() (edx uint32)

func askXCR0() (eax uint32)

func askGrant() (errno int)

func askGranted() (mask uint64)
