//go:build !purego

#include "textflag.h"

// MARK is a no-op in front of a question, by which the emulator of internal/kernel/amx finds it.
#define MARK(n) BYTE $0x0F; BYTE $0x1F; BYTE $0x80; BYTE $0x41; BYTE $0x4D; BYTE $0x58; BYTE $(n)

// func askCPUID() (edx uint32)
TEXT ·askCPUID(SB), NOSPLIT, $0-4
	MOVL $7, AX
	XORL CX, CX
	MARK(1)
	CPUID
	MOVL DX, edx+0(FP)
	RET

// func askXCR0() (eax uint32)
TEXT ·askXCR0(SB), NOSPLIT, $0-4
	XORL CX, CX
	MARK(2)
	XGETBV
	MOVL AX, eax+0(FP)
	RET

// func askGrant() (errno int)
TEXT ·askGrant(SB), NOSPLIT, $0-8
	MOVL $158, AX    // arch_prctl
	MOVL $0x1023, DI // ARCH_REQ_XCOMP_PERM
	MOVL $18, SI     // XTILEDATA
	MARK(3)
	SYSCALL
	NEGQ AX
	MOVQ AX, errno+0(FP)
	RET

// func askGranted() (mask uint64)
TEXT ·askGranted(SB), NOSPLIT, $0-8
	MOVQ $0, mask+0(FP)
	MOVL $158, AX    // arch_prctl
	MOVL $0x1022, DI // ARCH_GET_XCOMP_PERM
	LEAQ mask+0(FP), SI
	MARK(4)
	SYSCALL
	RET
