package cli_test

import (
	"fmt"
	"os"
	"sync"
	"syscall"

	"nibble/internal/stage"
)

// inject makes a step of this process towards its output fail, if the environment asks for it:
//
//	FAULT_STEPS=FILE          every step is a line of the file: create, write, sync …
//	FAULT="N ERRNO STICKY"    step N fails with this error, and with STICKY 1 all later steps that take space; of a failing write
//	                          half the bytes arrive
func inject() {
	var log *os.File
	if name := os.Getenv("FAULT_STEPS"); name != "" {
		var err error
		if log, err = os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666); err != nil {
			panic(err)
		}
	}
	var at, errno, sticky int
	if f := os.Getenv("FAULT"); f != "" {
		if _, err := fmt.Sscan(f, &at, &errno, &sticky); err != nil {
			panic(err)
		}
	}
	if log == nil && at == 0 {
		return
	}
	var mu sync.Mutex
	step := 0
	stage.Fault = func(op stage.Op, path string, size int) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		if log != nil {
			fmt.Fprintln(log, op)
		}
		step++
		again := sticky == 1 && (op == stage.Create || op == stage.Reserve || op == stage.Write)
		if step == at || step > at && at > 0 && again {
			return size / 2, syscall.Errno(errno)
		}
		return 0, nil
	}
}
