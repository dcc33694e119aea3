package cli

import (
	"fmt"
	goruntime "runtime"
	"runtime/debug"

	"nibble/build"
	"nibble/internal/machine"
	"nibble/probe"
	"nibble/runtime"
	"nibble/safetensors"
)

const (
	heapPiece   = 64 << 20           // in which Go's runtime reserves address space for the heap on 64-bit systems
	leastMemory = heapPiece + 64<<20 // of address space that every command finds: a piece for the heap, the rest for threads and mappings
	mostPieces  = 16                 // that are reserved at once; more are had when they are needed
)

// room is memory that can be had without swapping.
type room struct {
	bytes int64
	of    string // who leaves it
}

const addressSpace = "ulimit -v leaves"

// freeMemory returns the least of what the machine has, what the process's control group leaves, and what ulimit -v leaves of the
// address space.
func freeMemory() (r room, known bool) {
	m := probe.LiveMemory()
	if r = (room{m.Free, "the control group leaves"}); m.Free == m.Available {
		r.of = "the machine has"
	}
	if left, limited := machine.AddressSpace(); limited && (r.bytes == 0 || left < r.bytes) {
		return room{left, addressSpace}, true
	}
	return r, r.bytes > 0
}

// short is the error of what needs more memory than there is, with what lowers it.
func (r room) short(need int64, what, remedy string) error {
	return fmt.Errorf("%s takes %s of memory, %s %s; %s", what, megabytes(need), r.of, megabytes(r.bytes), remedy)
}

// roomToBegin makes what limits leave the limit of the heap, near which garbage is collected sooner.
//
// Where address space is limited, the heap reserves half of what is left, up to a gigabyte at once, and keeps to that half: out of address space Go's runtime ends
// a program with a report of its own, while a mapping that does not fit is an error. Too little for that is refused.
func roomToBegin() error {
	r, known := freeMemory()
	if !known {
		return nil
	}
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	left, limited := machine.AddressSpace()
	if !limited {
		limitHeap(r.bytes + int64(m.Sys-m.HeapReleased))
		return nil
	}
	if left < leastMemory {
		return room{left, addressSpace}.short(leastMemory, "a command", "raise the limit, or bound memory with a control group, which leaves the address space alone")
	}
	pieces := left / 2 / heapPiece
	goruntime.KeepAlive(make([]byte, min(pieces, mostPieces)*heapPiece)) // never touched: it takes no memory
	goruntime.GC()
	limitHeap(min((1+pieces)*heapPiece, r.bytes+int64(m.Sys-m.HeapReleased)))
	return nil
}

// limitHeap lowers the memory that Go's runtime tries to keep to; 0 and less are no limit.
func limitHeap(most int64) {
	if most > 0 && most < debug.SetMemoryLimit(-1) {
		debug.SetMemoryLimit(most)
	}
}

// loadModel loads a build to run it, unless the memory does not hold its weights.
func loadModel(b *build.Build, c runtime.Config) (*runtime.Model, error) {
	if r, known := freeMemory(); known {
		if need := weightMemory(b); need > r.bytes {
			return nil, r.short(need, "the model", "take a build of fewer bits")
		}
	}
	m, err := runtime.Load(b, c)
	return m, inputError(err)
}

// weightMemory is the least that a model's weights take.
func weightMemory(b *build.Build) (n int64) {
	for _, t := range b.Set.Tensors() {
		if t.DType == safetensors.F32 {
			n += t.Bytes() / 2 // it may be kept as bfloat16
		} else {
			n += t.Bytes()
		}
	}
	return n
}
