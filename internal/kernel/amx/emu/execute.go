//go:build linux && amd64

package main

import (
	"encoding/binary"
	"fmt"
	"syscall"
	"unsafe"

	"nibble/internal/kernel/amx/tile"
)

// Numbers and bits of the answers.
const (
	bitsCPUID = 1<<22 | 1<<24 | 1<<25 // BF16, TILE, INT8 of leaf 7's EDX
	bitsXCR0  = 0xe7                  // x87, SSE, AVX and AVX-512
	bitsTiles = 3 << 17               // configuration and data
	prctl     = 158
	granted   = 0x1022 // ARCH_GET_XCOMP_PERM
	request   = 0x1023 // ARCH_REQ_XCOMP_PERM
	tileData  = 18
)

// illegal does the work of the instructions of AMX from where a thread has stopped on, or answers a question. It reports
// whether there was one.
func (t *tracer) illegal(tid int, th *thread) (bool, error) {
	var regs syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(tid, &regs); err != nil {
		return false, err
	}
	p := t.processes[th.process]
	if p == nil {
		return false, nil // forked, and no program of its own yet
	}
	if question := p.asked[regs.Rip]; question != 0 {
		t.answer(tid, p, question, &regs)
		return true, syscall.PtraceSetRegs(tid, &regs)
	}
	done := false
	for {
		var code [16]byte
		n, err := move(readMemory, tid, code[:], regs.Rip, len(code), 0, 1)
		if err != nil && n < 6 {
			return false, fmt.Errorf("code at %#x: %w", regs.Rip, err)
		}
		in, err := tile.Decode(code[:n])
		if err != nil || !p.granted {
			if done {
				return true, syscall.PtraceSetRegs(tid, &regs)
			}
			return false, nil
		}
		// Neither a call nor the scheduler may come between a configuration and its release.
		if th.tiles.Configured() && regs.Rsp != th.stack {
			return false, fmt.Errorf("%v at %#x: tiles configured with the stack at %#x are used with it at %#x", in.Op, regs.Rip, th.stack, regs.Rsp)
		}
		th.stack = regs.Rsp
		if err := execute(tid, &th.tiles, in, &regs); err != nil {
			return false, fmt.Errorf("%v at %#x: %w", in.Op, regs.Rip, err)
		}
		if in.Op >= tile.TDPBSSD {
			t.dots++
		}
		regs.Rip += uint64(in.Len)
		done = true
	}
}

// answer puts the answer to a question into registers, and steps behind it.
func (t *tracer) answer(tid int, p *process, question byte, regs *syscall.PtraceRegs) {
	regs.Rip += uint64(len(questions[question]))
	switch question {
	case askCPUID:
		regs.Rax, regs.Rbx, regs.Rcx, regs.Rdx = 0, 0, 0, bitsCPUID
		if t.without == "cpuid" {
			regs.Rdx = 0
		}
	case askXCR0:
		regs.Rax, regs.Rdx = bitsXCR0|bitsTiles, 0
		if t.without == "xcr0" {
			regs.Rax = bitsXCR0
		}
	case askGrant:
		// UD2 has not touched RCX and R11, which the system call would have.
		if t.without == "grant" || regs.Rax != prctl || regs.Rdi != request || regs.Rsi != tileData {
			regs.Rax = ^uint64(syscall.EINVAL) + 1
			return
		}
		regs.Rax, p.granted = 0, true
	case askGranted:
		mask := uint64(bitsXCR0)
		if p.granted && t.without != "granted" {
			mask |= bitsTiles
		}
		regs.Rax = 0
		if regs.Rdi != granted || writeWord(tid, regs.Rsi, mask) != nil {
			regs.Rax = ^uint64(syscall.EINVAL) + 1
		}
	}
}

// writeWord writes 64 bits to the memory of a thread.
func writeWord(tid int, address, v uint64) error {
	n, err := move(writeMemory, tid, binary.LittleEndian.AppendUint64(nil, v), address, 8, 0, 1)
	if err == nil && n < 8 {
		err = fmt.Errorf("%d bytes written", n)
	}
	return err
}

// register returns a general register by its number in an encoding.
func register(regs *syscall.PtraceRegs, i int) uint64 {
	return [16]uint64{regs.Rax, regs.Rcx, regs.Rdx, regs.Rbx, regs.Rsp, regs.Rbp, regs.Rsi, regs.Rdi,
		regs.R8, regs.R9, regs.R10, regs.R11, regs.R12, regs.R13, regs.R14, regs.R15}[i]
}

// execute does the work of one instruction.
func execute(tid int, s *tile.State, in tile.Inst, regs *syscall.PtraceRegs) error {
	switch in.Op {
	case tile.TILERELEASE:
		s.Release()
		return nil
	case tile.TILEZERO:
		return s.Zero(in.C)
	case tile.TDPBF16PS:
		return s.DotBF16(in.C, in.A, in.B)
	case tile.TDPBSSD, tile.TDPBSUD, tile.TDPBUSD, tile.TDPBUUD:
		return s.Dot(in.C, in.A, in.B, in.Op == tile.TDPBSSD || in.Op == tile.TDPBSUD, in.Op == tile.TDPBSSD || in.Op == tile.TDPBUSD)
	}
	address, stride := register(regs, in.Base)+uint64(in.Disp), uint64(0)
	if in.Index >= 0 {
		stride = register(regs, in.Index) * uint64(in.Scale)
	}
	if in.Op == tile.LDTILECFG {
		var config [64]byte
		if n, err := move(readMemory, tid, config[:], address+stride, len(config), 0, 1); err != nil || n < len(config) {
			return fmt.Errorf("reads %#x: %d bytes, %w", address+stride, n, err)
		}
		return s.Configure(&config)
	}
	rows, cols, err := s.Shape(in.C)
	if err != nil {
		return err
	}
	var data [tile.MostRows * tile.RowBytes]byte
	call := uintptr(readMemory)
	if in.Op == tile.TILESTORED {
		call = writeMemory
		for i := range rows {
			copy(data[i*cols:], s.Row(in.C, i))
		}
	}
	if n, err := move(call, tid, data[:rows*cols], address, cols, stride, rows); err != nil || n < rows*cols {
		return fmt.Errorf("%d rows of %d bytes at %#x, %d apart: %d bytes moved, %w", rows, cols, address, int64(stride), n, err)
	}
	if in.Op == tile.TILELOADD {
		if err := s.Zero(in.C); err != nil {
			return err
		}
		for i := range rows {
			copy(s.Row(in.C, i), data[i*cols:])
		}
	}
	return nil
}

// The system calls of move.
const (
	readMemory  = 310 // process_vm_readv
	writeMemory = 311 // process_vm_writev
)

// move reads or writes rows of another process: local has them one behind the other.
func move(call uintptr, tid int, local []byte, address uint64, size int, stride uint64, rows int) (int, error) {
	type iovec struct{ base, n uintptr }
	var remote [tile.MostRows]iovec
	for i := range rows {
		remote[i] = iovec{uintptr(address + uint64(i)*stride), uintptr(size)}
	}
	here := syscall.Iovec{Base: &local[0], Len: uint64(len(local))}
	n, _, errno := syscall.Syscall6(call, uintptr(tid), uintptr(unsafe.Pointer(&here)), 1, uintptr(unsafe.Pointer(&remote)), uintptr(rows), 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
