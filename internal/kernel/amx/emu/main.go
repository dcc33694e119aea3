//go:build linux && amd64

// Command emu runs a program on a processor without AMX as if it had it.
//
//	emu run PROGRAM ARG...
//	emu -without cpuid|xcr0|grant|granted run PROGRAM ARG...
//	emu -dots 1000 run PROGRAM ARG...
//
// It traces all threads. An instruction of AMX is illegal on this processor; emu does its work (package tile) on the memory of
// the thread and lets it go on behind it. What a program asks before it uses tiles is answered too, if it marks the questions:
// CPUID (leaf 7), XGETBV (0) and the system calls arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA) and arch_prctl(ARCH_GET_XCOMP_PERM, &mask)
// stand behind the seven bytes of NOPL 0x??584D41(AX), with 1, 2, 3 and 4 for the question marks; emu replaces them by UD2 when the
// program starts. -without answers one of the questions with no; with -dots, fewer dot products than that are a failure. As on a
// processor, tiles without the grant are an illegal instruction. What a processor would leave to chance is a failure as well:
// tiles that outlive their function, so that the scheduler or a signal may find them.
//
// The exit status is the program's; 125 if emu itself cannot go on, which it says.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
)

func main() {
	without := flag.String("without", "", "the question that is answered with no: cpuid, xcr0, grant, granted")
	dots := flag.Int("dots", 0, "the fewest dot products of a run that does not fail")
	flag.Parse()
	if flag.NArg() < 2 || flag.Arg(0) != "run" {
		fmt.Fprintln(os.Stderr, "usage: emu [-without cpuid|xcr0|grant|granted] [-dots N] run PROGRAM ARG...")
		os.Exit(2)
	}
	runtime.LockOSThread() // ptrace wants all requests from one thread
	t := newTracer(*without)
	code, err := t.run(flag.Args()[1:])
	if err == nil && code == 0 && t.dots < *dots {
		err = fmt.Errorf("%s took %d dot products, want at least %d", flag.Arg(1), t.dots, *dots)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "emu:", err)
		code = 125
	}
	os.Exit(code)
}
