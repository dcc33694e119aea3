package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/x448/float16"
)

// The assembly has the fields of tileArgs in steps of eight bytes.
func TestTileArgs(t *testing.T) {
	var a tileArgs
	for i, at := range []uintptr{unsafe.Offsetof(a.codes), unsafe.Offsetof(a.x), unsafe.Offsetof(a.stride), unsafe.Offsetof(a.y),
		unsafe.Offsetof(a.tokens), unsafe.Offsetof(a.blocks), unsafe.Offsetof(a.count), unsafe.Offsetof(a.scales),
		unsafe.Offsetof(a.zeros), unsafe.Offsetof(a.biases), unsafe.Offsetof(a.xscales), unsafe.Offsetof(a.sums),
		unsafe.Offsetof(a.row), unsafe.Offsetof(a.fresh), unsafe.Offsetof(a.exact), unsafe.Offsetof(a.config), unsafe.Offsetof(a.head)} {
		if at != uintptr(8*i) {
			t.Errorf("field %d is at %d, the assembly expects %d", i, at, 8*i)
		}
	}
	if size := unsafe.Sizeof(a); size != 8*(17+18)+4*32 {
		t.Errorf("%d bytes, the assembly uses %d", size, 8*(17+18)+4*32)
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
		append([]int{16}, slices.Repeat([]int{-16}, 9)...),
		slices.Repeat([]int{1}, 2*tileBlocks+3),
		append(slices.Repeat([]int{16, -3, 8, 11}, 4), 5),
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

// Biases are taken off by one operation only where that changes no bit: of all types, sums as large as they get, biases and scales without end.
func TestFusedBiases(t *testing.T) {
	r := rand.New(rand.NewPCG(32, 32))
	was := active
	t.Cleanup(func() { active = was })
	const tokens = 35
	for _, typ := range []Float{Float32, Float16, BFloat16} {
		for _, steps := range [][]int{{16, 16}, {8, 4, 9}} {
			for _, bias := range []float32{1, 1e4, 3e30, 3e38, float32(math.Inf(1)), float32(math.NaN())} {
				c := randomPanels(r, 4, tokens, steps, "float", typ)
				for i := range c.acts {
					if token := i / c.k; token%3 == 1 {
						c.acts[i] = int8(127 - r.IntN(2)) // 16,256 in a block
					} else if token%3 == 2 {
						c.acts[i] = -127
					}
				}
				at := 0
				for b, n := range steps {
					for token := range tokens {
						sum := &c.Sums[b*int(c.Row)+token]
						*sum = 0
						for _, v := range c.acts[token*c.k+at:][:n*PanelStep] {
							*sum -= int32(v)
						}
					}
					at += n * PanelStep
				}
				for range 3 {
					i := r.IntN(len(c.scales) / typ.Size())
					for _, values := range [][]byte{c.biases, c.scales}[:1+r.IntN(2)] {
						switch typ {
						case Float32:
							binary.LittleEndian.PutUint32(values[4*i:], math.Float32bits(bias))
						case Float16:
							binary.LittleEndian.PutUint16(values[2*i:], float16.Fromfloat32(bias).Bits())
						case BFloat16:
							binary.LittleEndian.PutUint16(values[2*i:], uint16(math.Float32bits(bias)>>16))
						}
					}
				}
				c.lay()
				c.asInt8(tokens)
				product := func(s set) []float32 {
					active = s
					multiply(&c.Product, 4, true, tokens)
					return slices.Clone(c.Y[:tokens*PanelRows])
				}
				want := product(generic)
				for _, s := range sets[1:] {
					for i, v := range product(s) {
						if math.Float32bits(v) != math.Float32bits(want[i]) && (v == v || want[i] == want[i]) {
							t.Fatalf("%s, type %d, steps %v, bias %v: token %d, row %d is %v, want %v", s.name, typ, steps, bias, i/PanelRows, i%PanelRows, v, want[i])
						}
					}
				}
			}
		}
	}
}

// Threads that multiply at the same time, while the garbage collector stops them over and over, do not meet each other's tiles.
func TestTilesOfManyThreads(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 33))
	const tokens = 33
	stop := make(chan struct{})
	var group, collector sync.WaitGroup
	collector.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	})
	for i := range 6 {
		bits, steps := 4+4*(i%2), slices.Repeat([]int{16, 3 + i}, 2)
		c := randomPanels(r, bits, tokens, steps, []string{"symmetric", "integer", "float"}[i%3], BFloat16)
		c.asInt8(tokens)
		group.Go(func() {
			var want []float32
			for range 10 {
				multiply(&c.Product, bits, true, tokens)
				got := slices.Clone(c.Y[:tokens*PanelRows])
				if want == nil {
					want = got
				}
				if !slices.Equal(got, want) {
					t.Errorf("product %d: other results in another round", i)
				}
			}
			for _, k := range []int{0, 32, 32*PanelRows + 31} { // the first product is right, too
				exact, size := c.exact(k%PanelRows, k/PanelRows, true)
				if d := math.Abs(float64(want[k]) - exact); d > size*140*0x1p-24 {
					t.Errorf("product %d: result %d is %v, want %v", i, k, want[k], exact)
				}
			}
		})
	}
	group.Wait()
	close(stop)
	collector.Wait()
}
