package kernel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// The assembly has the fields of tileArgs in steps of eight bytes.
func TestTileArgs(t *testing.T) {
	var a tileArgs
	for i, at := range []uintptr{unsafe.Offsetof(a.codes), unsafe.Offsetof(a.x), unsafe.Offsetof(a.stride), unsafe.Offsetof(a.y),
		unsafe.Offsetof(a.tokens), unsafe.Offsetof(a.blocks), unsafe.Offsetof(a.count), unsafe.Offsetof(a.scales),
		unsafe.Offsetof(a.zeros), unsafe.Offsetof(a.biases), unsafe.Offsetof(a.xscales), unsafe.Offsetof(a.sums),
		unsafe.Offsetof(a.row), unsafe.Offsetof(a.fresh), unsafe.Offsetof(a.exact), unsafe.Offsetof(a.config)} {
		if at != uintptr(8*i) {
			t.Errorf("field %d is at %d, the assembly expects %d", i, at, 8*i)
		}
	}
	if size := unsafe.Sizeof(a); size != 8*(16+18) {
		t.Errorf("%d bytes, the assembly uses %d", size, 8*(16+18))
	}
}

// The set is there exactly where the grant is, and forcing it elsewhere is an error that says why.
func TestAMX(t *testing.T) {
	usable, reason := AMX()
	if slices.Contains(Names(), "amx") != usable {
		t.Errorf("usable %v, sets %v", usable, Names())
	}
	if reason == "" {
		t.Error("no reason")
	}
	was := active
	t.Cleanup(func() { active = was })
	switch err := Select("amx"); {
	case usable && err != nil:
		t.Error(err)
	case !usable && (err == nil || !strings.Contains(err.Error(), reason) || active.name != was.name):
		t.Errorf("error %v, %s in use; the reason is %s", err, active.name, reason)
	}
}

// More columns than are multiplied at a time, more blocks than scales are kept of at a time, and tokens of several times 32.
func TestTilesInParts(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 31))
	was := active
	t.Cleanup(func() { active = was })
	for i, steps := range [][]int{
		slices.Repeat([]int{16}, 5),
		slices.Repeat([]int{1}, 2*tileBlocks+3),
		append(slices.Repeat([]int{16, 3, 8, 11}, 4), 5),
		slices.Repeat([]int{4}, 40),
	} {
		for _, bits := range []int{4, 8} {
			for j, zero := range []string{"symmetric", "integer", "float"} {
				tokens := []int{16, 17, 33, 48, 49, 80, 97}[(3*i+j+bits/8)%7]
				c := randomPanels(r, bits, tokens, steps, zero, Float((i+j)%3))
				c.asInt8(tokens)
				testProduct(t, fmt.Sprintf("%d bits, steps %v, %s, %d tokens", bits, steps, zero, tokens), c, tokens, true)
			}
		}
	}
}
