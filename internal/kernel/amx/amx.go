// Package amx proves the assembly of the set amx where there is no AMX: two disassemblers read it (disasm_test.go), LLVM computes its
// dot products without it (package tile), and an emulator runs whatever uses it (command emu). It is a module of its own, because
// its tests want tools that the others do not: objdump, llvm-objdump-14, llc-14 and gcc; none of them missing is a failure.
package amx
