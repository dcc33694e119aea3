package tile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// products are the four dot products, with the signs of A and B.
var products = []struct {
	name             string
	signedA, signedB bool
}{{"tdpbssd", true, true}, {"tdpbsud", true, false}, {"tdpbusd", false, true}, {"tdpbuud", false, false}}

// function is a dot product in LLVM's intermediate language: c, a and b have rows 64 bytes apart.
const function = `
declare x86_amx @llvm.x86.%[1]s.internal(i16, i16, i16, x86_amx, x86_amx, x86_amx)
define void @%[1]s(i16 %%m, i16 %%n, i16 %%k, i8* %%c, i8* %%a, i8* %%b) #0 {
  %%lines = udiv i16 %%k, 4
  %%tc = call x86_amx @llvm.x86.tileloadd64.internal(i16 %%m, i16 %%n, i8* %%c, i64 64)
  %%ta = call x86_amx @llvm.x86.tileloadd64.internal(i16 %%m, i16 %%k, i8* %%a, i64 64)
  %%tb = call x86_amx @llvm.x86.tileloadd64.internal(i16 %%lines, i16 %%n, i8* %%b, i64 64)
  %%td = call x86_amx @llvm.x86.%[1]s.internal(i16 %%m, i16 %%n, i16 %%k, x86_amx %%tc, x86_amx %%ta, x86_amx %%tb)
  call void @llvm.x86.tilestored64.internal(i16 %%m, i16 %%n, i8* %%c, i64 64, x86_amx %%td)
  ret void
}
`

const frame = `target triple = "x86_64-unknown-linux-gnu"
declare x86_amx @llvm.x86.tileloadd64.internal(i16, i16, i8*, i64)
declare void @llvm.x86.tilestored64.internal(i16, i16, i8*, i64, x86_amx)
attributes #0 = { noinline nounwind optnone "target-features"="+amx-int8,+amx-tile" }
`

// driver reads shapes and tiles, and writes what became of C.
const driver = `#include <stdio.h>
typedef void dot(short, short, short, void *, void *, void *);
extern dot tdpbssd, tdpbsud, tdpbusd, tdpbuud;
static dot *const dots[] = {tdpbssd, tdpbsud, tdpbusd, tdpbuud};
static struct { short op, m, n, k; unsigned char c[1024], a[1024], b[1024]; } r;
int main(void) {
	while (fread(&r, sizeof r, 1, stdin) == 1) {
		dots[r.op](r.m, r.n, r.k, r.c, r.a, r.b);
		fwrite(r.c, sizeof r.c, 1, stdout);
	}
	return 0;
}
`

// program builds the driver with LLVM's lowering of the instructions to scalar code, which leaves none of them.
func program(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	tool := func(name string, args ...string) string {
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		return string(out)
	}
	source := frame
	for _, p := range products {
		source += fmt.Sprintf(function, p.name)
	}
	for name, text := range map[string]string{"dots.ll": source, "driver.c": driver} {
		if err := os.WriteFile(at(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tool("llc-14", "-O0", "-enable-x86-scalar-amx", "-filetype=obj", "-relocation-model=pic", "-o", at("dots.o"), at("dots.ll"))
	if text := tool("objdump", "-d", at("dots.o")); strings.Contains(text, "%tmm") || !strings.Contains(text, "<tdpbuud>:") {
		t.Fatal("LLVM has not lowered the instructions")
	}
	tool("gcc", "-O1", "-o", at("driver"), at("driver.c"), at("dots.o"))
	return at("driver")
}

// Every dot product, of tiles of any shape, is LLVM's, with the extremes of all operands and sums that wrap.
func TestLLVM(t *testing.T) {
	oracle := program(t)
	r := rand.New(rand.NewPCG(40, 40))
	type record struct {
		Op, M, N, K int16
		C, A, B     [1024]byte
	}
	var records []record
	for trial := range 1200 {
		rec := record{Op: int16(trial % 4), M: int16(1 + r.IntN(16)), N: int16(4 * (1 + r.IntN(16))), K: int16(4 * (1 + r.IntN(16)))}
		for _, tile := range []*[1024]byte{&rec.C, &rec.A, &rec.B} {
			for i := range tile {
				tile[i] = byte(r.Uint32())
				if trial%3 == 0 {
					tile[i] = []byte{0, 127, 128, 255}[r.IntN(4)]
				}
			}
		}
		records = append(records, rec)
	}
	var in, out bytes.Buffer
	if err := binary.Write(&in, binary.LittleEndian, records); err != nil {
		t.Fatal(err)
	}
	run := exec.Command(oracle)
	run.Stdin, run.Stdout = &in, &out
	if err := run.Run(); err != nil {
		t.Fatal(err)
	}
	if out.Len() != 1024*len(records) {
		t.Fatalf("%d bytes of results, want %d", out.Len(), 1024*len(records))
	}
	for i, rec := range records {
		p := products[rec.Op]
		var config [64]byte
		config[0] = 1
		for tile, shape := range [][2]int16{{rec.M, rec.N}, {rec.M, rec.K}, {rec.K / 4, rec.N}} {
			config[16+2*tile], config[48+tile] = byte(shape[1]), byte(shape[0])
		}
		var s State
		if err := s.Configure(&config); err != nil {
			t.Fatal(err)
		}
		for tile, from := range []*[1024]byte{&rec.C, &rec.A, &rec.B} {
			rows, _, _ := s.Shape(tile)
			for row := range rows {
				copy(s.Row(tile, row), from[64*row:])
			}
		}
		if err := s.Dot(0, 1, 2, p.signedA, p.signedB); err != nil {
			t.Fatal(err)
		}
		want := out.Bytes()[1024*i:]
		for row := range int(rec.M) {
			if got, want := s.Row(0, row), want[64*row:][:rec.N]; !bytes.Equal(got, want) {
				t.Fatalf("%s of %dx%dx%d, row %d: % x, want % x", p.name, rec.M, rec.N, rec.K, row, got, want)
			}
		}
	}
}

// What a processor answers with an exception is an error.
func TestStrict(t *testing.T) {
	config := func(change func(b *[64]byte)) *[64]byte {
		b := &[64]byte{0: 1}
		for tile, shape := range [][2]byte{{16, 64}, {16, 32}, {8, 64}, {16, 64}} {
			b[48+tile], b[16+2*tile] = shape[0], shape[1]
		}
		change(b)
		return b
	}
	for what, change := range map[string]func(b *[64]byte){
		"palette 2":        func(b *[64]byte) { b[0] = 2 },
		"start row 1":      func(b *[64]byte) { b[1] = 1 },
		"a reserved byte":  func(b *[64]byte) { b[15] = 1 },
		"17 rows":          func(b *[64]byte) { b[48] = 17 },
		"65 bytes":         func(b *[64]byte) { b[16] = 65 },
		"rows of no bytes": func(b *[64]byte) { b[16] = 0 },
		"a ninth tile":     func(b *[64]byte) { b[56] = 1 },
	} {
		var s State
		if s.Configure(config(change)) == nil {
			t.Errorf("%s: no error", what)
		}
	}
	var s State
	if s.Zero(0) == nil {
		t.Error("a tile without configuration: no error")
	}
	if err := s.Configure(config(func(*[64]byte) {})); err != nil {
		t.Fatal(err)
	}
	if err := s.Dot(0, 1, 2, true, true); err != nil {
		t.Error(err)
	}
	for _, tiles := range [][3]int{{0, 0, 2}, {0, 1, 1}, {2, 1, 2}, {0, 2, 1}, {0, 3, 2}, {0, 1, 4}} {
		if s.Dot(tiles[0], tiles[1], tiles[2], true, true) == nil {
			t.Errorf("tiles %v: no error", tiles)
		}
	}
	if err := s.Configure(config(func(b *[64]byte) { b[16] = 62 })); err != nil {
		t.Fatal(err)
	}
	if s.Zero(0) == nil {
		t.Error("rows of 62 bytes: no error")
	}
	s.Release()
	if s.Dot(0, 1, 2, true, true) == nil {
		t.Error("tiles after their release: no error")
	}
}
