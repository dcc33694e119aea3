// Package amx proves the assembly of the set amx where there is no AMX: two disassemblers read it (disasm_test.go), LLVM computes its
// dot products of integers without it (package tile), Bochs runs it on bare metal (package metal), and an emulator runs whatever uses it
// (command emu). It is a module of its own, because its tests want tools that the others do not: objdump, llvm-objdump-14, llc-14, gcc
// and Bochs; one of them missing is a failure.
package amx
