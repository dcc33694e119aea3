package kernel

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// counts are instructions by what they keep busy.
type counts struct{ dots, tileLoads, tileStores, loads, stores, vector int }

// source is assembly with the lines of macros that have vector instructions in them.
type source struct {
	lines  []string
	macros map[string][]string
}

// readSource reads the body of a product on tiles and the macros of one of its two uses.
func readSource(t *testing.T, function string) *source {
	t.Helper()
	body, err := os.ReadFile("amx_body_amd64.h")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile("amx_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	s := &source{lines: strings.Split(string(body), "\n"), macros: map[string][]string{}}
	head, rest, _ := strings.Cut(string(file), "// func tileSigned")
	_, mine, found := strings.Cut("// func tileSigned"+rest, "// func "+function+"(")
	mine, _, _ = strings.Cut(mine, "#include \"amx_body")
	if !found {
		t.Fatalf("no function %s", function)
	}
	for _, m := range regexp.MustCompile(`(?m)^#define (\w+)(?:\([^)]*\))?((?:.*\\\n)*.*)$`).FindAllStringSubmatch(head+mine, -1) {
		for part := range strings.SplitSeq(m[2], ";") {
			if part = strings.Trim(part, " \t\\\n"); strings.HasPrefix(part, "V") {
				s.macros[m[1]] = append(s.macros[m[1]], strings.Split(part, "\\\n")...)
			}
		}
	}
	return s
}

// between counts the instructions between two labels, or a label and what another function has in its place.
func (s *source) between(from, to string) (c counts) {
	inside := false
	for _, line := range s.lines {
		line = strings.ReplaceAll(strings.TrimSpace(line), "TOTALS", "(M)")
		if strings.HasSuffix(line, ":") || line == "#else" {
			inside = line == from+":" || inside && line != to+":" && line != "#else"
		} else if inside {
			c.line(s, line)
		}
	}
	return c
}

// line counts an instruction or a macro. An operand of memory is a load, the last operand of a move a store; moves and broadcasts
// from memory do no more than that.
func (c *counts) line(s *source, line string) {
	name, operands, _ := strings.Cut(strings.ReplaceAll(line, "(", " ("), " ")
	name = strings.TrimSpace(name)
	switch {
	case name == "DOT":
		c.dots++
	case name == "TILELOADD":
		c.tileLoads++
	case name == "TILESTORED":
		c.tileStores++
	case s.macros[name] != nil:
		for _, inner := range s.macros[name] {
			// The operand of a macro that is in memory: what it is called tells.
			for _, formal := range []string{" at,", ", at", " sums,"} {
				if strings.Contains(line, "(BX)") || strings.Contains(line, "(DX)") {
					inner = strings.ReplaceAll(inner, formal, strings.ReplaceAll(strings.ReplaceAll(formal, "at", "(M)"), "sums", "(M)"))
				}
			}
			c.line(s, inner)
		}
	case strings.HasPrefix(name, "V"):
		list := strings.Split(operands, ",")
		memory := strings.Contains(operands, "(")
		store := memory && strings.Contains(list[len(list)-1], "(")
		switch {
		case store:
			c.stores++
		case memory:
			c.loads++
		}
		if !memory || !strings.HasPrefix(name, "VMOV") && !strings.HasPrefix(name, "VBROADCAST") && !strings.HasPrefix(name, "VPBROADCAST") {
			c.vector++
		}
	}
}

// unpacking counts the loop of a function that unpacks codes, once for a step of PanelStep columns.
func unpacking(t *testing.T, name, function, loop string) counts {
	t.Helper()
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	_, body, found := strings.Cut(string(file), "TEXT ·"+function+"(")
	body, _, ends := strings.Cut(body, "JNZ ")
	if !found || !ends {
		t.Fatalf("%s: no loop in %s", name, function)
	}
	s := &source{lines: strings.Split(body, "\n")}
	return s.between(loop, "")
}

// tiledLoop is what multiplies a block and scales it.
type tiledLoop struct {
	s       *source
	columns int     // of a tile
	loop    string  // that scales a token, to the label behind it
	behind  string  // that label
	once    string  // where what is done once for 32 tokens begins; "": not counted, a few loads
	unpack  *counts // of eight columns; nil: none
}

// bound returns the cycles of a block of so many columns, of 32 tokens by 32 rows, by the busiest part of a core, and the
// cycles of its dot products alone. Published throughputs: a dot product every 16 cycles, a load of a tile every 8, a store of one
// every 16 (a line a cycle), two vector loads, one vector store and two vector operations a cycle.
func (l *tiledLoop) bound(columns int) (cycles, dots float64) {
	step, scaled, saved := l.s.between("dots", "dotted"), l.s.between(l.loop, l.behind), l.s.between("dotted", "stored")
	var once counts
	if l.once != "" {
		once = l.s.between(l.once, l.loop)
	}
	steps := (columns + l.columns - 1) / l.columns
	dots = float64(16 * step.dots * steps)
	loads := float64(8*step.tileLoads*steps) + float64(32*scaled.loads+once.loads)/2
	stores := float64(16*saved.tileStores + 32*scaled.stores + once.stores)
	vector := float64(32*scaled.vector+once.vector+step.dots*steps) / 2 // dot products go through one of the two ports
	cycles = max(dots, loads, stores, vector)
	if u := l.unpack; u != nil { // for 512 tokens, nothing of it beside the rest
		cycles += float64(columns) / PanelStep * max(float64(u.vector)/2, float64(u.stores)) / (512 / 32)
	}
	return cycles, dots
}

// What docs/kernels.md says of the instructions, and of the tokens a second that they allow.
func TestTileModel(t *testing.T) {
	signed, unsigned, pairs := readSource(t, "tileSigned"), readSource(t, "tileUnsigned"), readSource(t, "tilePairs")
	if got, want := signed.between("dots", "dotted"), (counts{dots: 4, tileLoads: 4}); got != want {
		t.Errorf("dot products of a step: %+v, want %+v", got, want)
	}
	if got, want := signed.between("dotted", "stored"), (counts{tileStores: 4}); got != want {
		t.Errorf("stores of a block: %+v, want %+v", got, want)
	}
	bytes, wide := unpacking(t, "amx_amd64.s", "unpackSigned", "unpack"), unpacking(t, "pairs_avx512_amd64.s", "pairs4AVX512", "loop")
	if want := (counts{loads: 2, stores: 4, vector: 10}); bytes != want {
		t.Errorf("unpacking of eight columns: %+v, want %+v", bytes, want)
	}
	if want := (counts{loads: 2, stores: 8, vector: 14}); wide != want {
		t.Errorf("unpacking of eight columns to bfloat16: %+v, want %+v", wide, want)
	}
	plain := tiledLoop{signed, 64, "plain", "biased", "", &bytes}
	fused, biased := tiledLoop{signed, 64, "fused", "bias", "biased", &bytes}, tiledLoop{signed, 64, "bias", "scaled", "", &bytes}
	eight := tiledLoop{unsigned, 64, "plain", "biased", "", nil}
	bf16, a16 := tiledLoop{pairs, 32, "pair", "plain", "", nil}, tiledLoop{pairs, 32, "pair", "plain", "", &wide}
	for _, c := range []struct {
		loop tiledLoop
		want counts // of one token
	}{
		{plain, counts{loads: 5, stores: 2, vector: 8}},
		{fused, counts{loads: 6, stores: 2, vector: 10}},
		{biased, counts{loads: 6, stores: 2, vector: 13}},
		{eight, counts{loads: 6, stores: 2, vector: 10}},
		{bf16, counts{loads: 5, stores: 2, vector: 6}},
	} {
		if got := c.loop.s.between(c.loop.loop, c.loop.behind); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.loop.loop, got, c.want)
		}
	}
	if got, want := signed.between("biased", "fused"), (counts{loads: 4, stores: 2, vector: 16}); got != want {
		t.Errorf("once for 32 tokens: %+v, want %+v", got, want)
	}
	for _, c := range []struct {
		name    string
		loop    tiledLoop
		columns int
		want    string // cycles of a block, and the share of the peak
	}{
		{"4-bit g128", plain, 128, "149 86 %"},
		{"4-bit g128, float zero", fused, 128, "177 72 %"},
		{"4-bit g128, float zero of float32", biased, 128, "217 59 %"},
		{"4-bit g64", plain, 64, "132 48 %"},
		{"4-bit g64, float zero", fused, 64, "172 37 %"},
		{"4-bit g32", plain, 32, "131 24 %"},
		{"4-bit g32, float zero", fused, 32, "171 19 %"},
		{"8-bit g128", eight, 128, "164 78 %"},
		{"4-bit g128 by bfloat16", a16, 128, "264 97 %"},
		{"4-bit g32 by bfloat16", a16, 32, "130 49 %"},
		{"bfloat16", bf16, 128, "256 100 %"},
	} {
		cycles, _ := c.loop.bound(c.columns)
		share := float64(32*32*c.columns) / float64(16*c.loop.columns) / cycles
		if got := fmt.Sprintf("%.0f %.0f %%", cycles, 100*share); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	// Weights that a token is multiplied by in the layers, from the configurations of the models: q, k, v and o, gate, up and down.
	for _, c := range []struct {
		name    string
		weights float64
		want    string // tokens a second and GHz: as in the loops below
	}{
		{"tinyllama-1.1b", 22 * (2*2048*2048 + 2*2048*256 + 3*2048*5632), "908 764 825 512 528"},
		{"spark-1.7b", 28 * (2*2048*2048 + 2*2048*512 + 3*2048*6656), "611 515 556 345 356"},
		{"llama-8b", 32 * (2*4096*4096 + 2*4096*1024 + 3*4096*14336), "126 106 115 71 73"},
	} {
		var got []string
		for _, l := range []tiledLoop{plain, fused, eight, a16, bf16} {
			cycles, dots := l.bound(128)
			if dots/cycles < 0.7 {
				t.Errorf("%s: %.2f of the peak", c.name, dots/cycles)
			}
			got = append(got, fmt.Sprintf("%.0f", 1e9*float64(16*l.columns)*dots/cycles/c.weights))
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: %s tokens a second and GHz, want %s", c.name, got, c.want)
		}
	}
}
