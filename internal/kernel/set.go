// Package kernel holds the arithmetic of the runtime and of the quantizers. The plain Go of every operation is its
// specification; most have implementations in assembly too, which give the same bits.
//
// Sums of float products run over 16 lanes: lane l adds the products of the elements l, l+16, l+32 … in that order, each
// product rounded to float32 first; then lane l takes lane l+8, l+4, l+2, l+1. Panels (panel.go) add the columns of a block
// up one after the other and then the blocks; products of matrices (gemm.go) add one product after the other. Integer sums
// are exact. What a function computes for one row or token depends on nothing else.
//
// # Sets
//
// The implementations come in sets, of which the best that processor and operating system can run is chosen once, at the
// start. NIBBLE_KERNEL or Select force one by name:
//
//	generic      plain Go, everywhere; the only set under the build tag purego
//	avx2         AVX2, F16C and FMA
//	avx512       AVX-512 F, BW, VL and DQ
//	avx512vnni   the same with VNNI for integers
//	avx512bf16   the same with the dot products of bfloat16
//	amx          the same with AMX's tiles for the products of integers of many tokens, where Linux grants them
//	amxbf16      the same with tiles for the products of bfloat16 as well, which are other bits (amx.go): by name only
package kernel

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// set is one implementation of the operations that have several, area by area: an area's Go file has its specification
// and the requirements of its slices.
type set struct {
	name string
	dots
	grids
	rows
	packs
	panels
	tiles
	ceilings
	layers
	attends
	gemms
	moments
	fuses
	ways
}

// generic is the specification.
var generic = set{"generic", dotsGeneric, gridsGeneric, rowsGeneric, packsGeneric, panelsGeneric, tilesGeneric, ceilingsGeneric, layersGeneric, attendsGeneric, gemmsGeneric, momentsGeneric, fusesGeneric, waysGeneric}

// sets are those that this machine can run, the best last; apart are those among them whose bits are not the specification's,
// which only their names put to use.
var (
	assembly, apart = native()
	sets            = append([]set{generic}, assembly...)
)

// active is the set in use.
var active = sets[len(sets)-1]

// forced is why the set that NIBBLE_KERNEL names is not in use, nil if it is or none is named.
var forced error

func init() {
	if name := os.Getenv("NIBBLE_KERNEL"); name != "" {
		forced = Select(name)
	}
}

// Names lists the sets that this machine can run, the best first; those with other bits are not among them.
func Names() []string {
	var names []string
	for _, s := range slices.Backward(sets) {
		names = append(names, s.name)
	}
	return names
}

// All is Names and, behind them, what only Select puts to use.
func All() []string {
	names := Names()
	for _, s := range apart {
		names = append(names, s.name)
	}
	return names
}

// Active returns the name of the set in use, or an error if NIBBLE_KERNEL names one that this machine cannot run.
func Active() (string, error) { return active.name, forced }

// Select puts a set to use by its name. No operation may run meanwhile.
func Select(name string) error {
	for _, s := range slices.Concat(sets, apart) {
		if s.name == name {
			active, forced = s, nil
			return nil
		}
	}
	if name == "amx" || name == "amxbf16" {
		return fmt.Errorf("kernel %s: %s; this machine has %s", name, amxReason, strings.Join(All(), ", "))
	}
	return fmt.Errorf("kernel %q: this machine has %s", name, strings.Join(All(), ", "))
}

// Use puts a set to use until a test ends; the test fails if the machine does not have it.
func Use(t interface {
	Helper()
	Fatal(args ...any)
	Cleanup(f func())
}, name string) {
	t.Helper()
	was := active
	if err := Select(name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { active = was })
}
