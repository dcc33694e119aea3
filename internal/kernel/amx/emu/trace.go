//go:build linux && amd64

package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"nibble/internal/kernel/amx/tile"
)

// Requests and flags of ptrace that package syscall does not name.
const (
	exitKill = 0x100000   // PTRACE_O_EXITKILL
	wall     = 0x40000000 // __WALL
)

// The questions, by the number in their mark.
const (
	askCPUID = 1 + iota
	askXCR0
	askGrant
	askGranted
)

// questions are the instructions behind the marks.
var questions = map[byte][]byte{askCPUID: {0x0f, 0xa2}, askXCR0: {0x0f, 0x01, 0xd0}, askGrant: {0x0f, 0x05}, askGranted: {0x0f, 0x05}}

// process is a program in memory.
type process struct {
	asked   map[uint64]byte // the question at an address
	granted bool
}

// tracer runs a program.
type tracer struct {
	without   string
	threads   map[int]*thread
	processes map[int]*process // by the number of the process
	dots      int
}

// thread is one of the threads.
type thread struct {
	process int
	tiles   tile.State
	stack   uint64 // its pointer at the last instruction of AMX
}

func newTracer(without string) *tracer {
	return &tracer{without: without, threads: map[int]*thread{}, processes: map[int]*process{}}
}

// run starts a program and returns its exit status.
func (t *tracer) run(args []string) (int, error) {
	p, err := os.StartProcess(args[0], args, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Ptrace: true},
	})
	if err != nil {
		return 0, err
	}
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(p.Pid, &ws, wall, nil); err != nil {
		return 0, err
	}
	options := syscall.PTRACE_O_TRACECLONE | syscall.PTRACE_O_TRACEFORK | syscall.PTRACE_O_TRACEVFORK | syscall.PTRACE_O_TRACEEXEC | exitKill
	if err := syscall.PtraceSetOptions(p.Pid, options); err != nil {
		return 0, err
	}
	t.threads[p.Pid] = &thread{process: p.Pid}
	if err := t.started(p.Pid); err != nil {
		return 0, err
	}
	if err := syscall.PtraceCont(p.Pid, 0); err != nil {
		return 0, err
	}
	for {
		tid, err := syscall.Wait4(-1, &ws, wall, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return 0, err
		}
		switch {
		case ws.Exited() && tid == p.Pid:
			return ws.ExitStatus(), nil
		case ws.Signaled() && tid == p.Pid:
			return 128 + int(ws.Signal()), nil
		case ws.Stopped():
			signal, err := t.stopped(tid, ws)
			if err != nil {
				return 0, err
			}
			// A thread may be gone by now.
			if err := syscall.PtraceCont(tid, int(signal)); err != nil && err != syscall.ESRCH {
				return 0, err
			}
		default:
			if th := t.threads[tid]; th != nil && th.tiles.Configured() && ws.Exited() {
				return 0, fmt.Errorf("thread %d has ended with tiles", tid)
			}
			delete(t.threads, tid)
		}
	}
}

// stopped looks at why a thread has stopped and returns the signal that it gets.
func (t *tracer) stopped(tid int, ws syscall.WaitStatus) (syscall.Signal, error) {
	th := t.threads[tid]
	first := th == nil
	if first {
		pid, err := leader(tid)
		if err != nil {
			return 0, nil // gone
		}
		th = &thread{process: pid}
		t.threads[tid] = th
	}
	switch signal := ws.StopSignal(); {
	case signal == syscall.SIGTRAP && ws.TrapCause() == syscall.PTRACE_EVENT_EXEC:
		th.process, th.tiles = tid, tile.State{}
		return 0, t.started(tid)
	case signal == syscall.SIGTRAP && ws.TrapCause() > 0:
		return 0, nil
	case signal == syscall.SIGSTOP && first:
		return 0, nil // a new thread
	case signal == syscall.SIGILL:
		ours, err := t.illegal(tid, th)
		if ours || err != nil {
			return 0, err
		}
		return signal, nil
	default:
		return signal, nil
	}
}

// leader returns the process of a thread.
func leader(tid int) (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(b), "Tgid:")
	line, _, _ := strings.Cut(after, "\n")
	return strconv.Atoi(strings.TrimSpace(line))
}

// started finds the questions of a program that is about to run its first instruction, and makes them illegal.
func (t *tracer) started(pid int) error {
	p := &process{asked: map[uint64]byte{}}
	t.processes[pid] = p
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return err
	}
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	for line := range strings.Lines(string(maps)) {
		fields := strings.Fields(line)
		if len(fields) < 6 || !strings.HasPrefix(fields[1], "r-x") || strings.HasPrefix(fields[5], "[") {
			continue
		}
		var lo, hi int64
		if _, err := fmt.Sscanf(fields[0], "%x-%x", &lo, &hi); err != nil {
			return err
		}
		text := make([]byte, hi-lo)
		if _, err := memory.ReadAt(text, lo); err != nil {
			return err
		}
		if err := p.mark(memory, text, lo); err != nil {
			return err
		}
	}
	return nil
}

// mark replaces the questions in text, which is at an address.
func (p *process) mark(memory *os.File, text []byte, address int64) error {
	mark := []byte("\x0f\x1f\x80AMX")
	for at := 0; ; at += len(mark) {
		i := bytes.Index(text[at:], mark)
		if i < 0 || at+i+len(mark)+4 > len(text) {
			return nil
		}
		at += i
		number, behind := text[at+len(mark)], text[at+len(mark)+1:]
		question, ok := questions[number]
		if !ok || !bytes.HasPrefix(behind, question) {
			return fmt.Errorf("mark %d at %#x is not in front of its question", number, address+int64(at))
		}
		where := address + int64(at+len(mark)) + 1
		if _, err := memory.WriteAt([]byte{0x0f, 0x0b}, where); err != nil {
			return err
		}
		p.asked[uint64(where)] = number
	}
}
