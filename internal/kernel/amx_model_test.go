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
	mine, _, _ = strings.Cut(mine, "#include")
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

// between counts the instructions between two labels.
func (s *source) between(from, to string) (c counts) {
	inside := false
	for _, line := range s.lines {
		line = strings.TrimSpace(line)
		if strings.HasSuffix(line, ":") {
			inside = line == from+":" || inside && line != to+":"
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

// bound returns the cycles of a block of so many columns, of 32 tokens by 32 rows, by the busiest part of a core, and the
// cycles of its dot products alone. Published throughputs: a dot product every 16 cycles, a load of a tile every 8, a store of one
// every 16 (a line a cycle), two vector loads, one vector store and two vector operations a cycle.
func bound(s *source, loop string, columns int, unpacks bool) (cycles, dots float64) {
	step, scaled := s.between("dots", "dotted"), s.between(loop, map[string]string{"plain": "biased", "bias": "scaled"}[loop])
	saved := s.between("dotted", "stored")
	steps := (columns + 63) / 64
	dots = float64(16 * step.dots * steps)
	loads := float64(8*step.tileLoads*steps) + 32*float64(scaled.loads)/2
	stores := float64(16*saved.tileStores) + 32*float64(scaled.stores)
	vector := (32*float64(scaled.vector) + float64(step.dots*steps)) / 2 // dot products go through one of the two ports
	cycles = max(dots, loads, stores, vector)
	if unpacks { // of 512 tokens, nothing of it beside the rest: ten operations and four stores for eight columns
		cycles += float64(columns) / 8 * 5 / (512 / 32)
	}
	return cycles, dots
}

// What docs/kernels.md says of the instructions, and of the tokens a second that they allow.
func TestTileModel(t *testing.T) {
	signed, unsigned := readSource(t, "tileSigned"), readSource(t, "tileUnsigned")
	if got, want := signed.between("dots", "dotted"), (counts{dots: 4, tileLoads: 4}); got != want {
		t.Errorf("dot products of 64 columns: %+v, want %+v", got, want)
	}
	if got, want := signed.between("dotted", "stored"), (counts{tileStores: 4}); got != want {
		t.Errorf("stores of a block: %+v, want %+v", got, want)
	}
	file, err := os.ReadFile("amx_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	loop, _, _ := strings.Cut(string(file), "JNZ       unpack")
	unpacking := &source{lines: strings.Split(loop, "\n")}
	if got, want := unpacking.between("unpack", ""), (counts{loads: 2, stores: 4, vector: 10}); got != want {
		t.Errorf("unpacking of eight columns: %+v, want %+v", got, want)
	}
	for _, c := range []struct {
		s    *source
		loop string
		want counts // of one token
	}{
		{signed, "plain", counts{loads: 5, stores: 2, vector: 8}},
		{signed, "bias", counts{loads: 6, stores: 2, vector: 13}},
		{unsigned, "plain", counts{loads: 6, stores: 2, vector: 10}},
	} {
		to := map[string]string{"plain": "biased", "bias": "scaled"}[c.loop]
		if got := c.s.between(c.loop, to); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.loop, got, c.want)
		}
	}
	for _, c := range []struct {
		name    string
		s       *source
		loop    string
		columns int
		want    string // cycles of a block, and the share of the peak
	}{
		{"4-bit g128", signed, "plain", 128, "149 86 %"},
		{"4-bit g128, float zero", signed, "bias", 128, "217 59 %"},
		{"4-bit g64", signed, "plain", 64, "132 48 %"},
		{"4-bit g32", signed, "plain", 32, "131 24 %"},
		{"8-bit g128", unsigned, "plain", 128, "164 78 %"},
	} {
		cycles, _ := bound(c.s, c.loop, c.columns, c.s == signed)
		share := float64(32*32*c.columns) / 1024 / cycles
		if got := fmt.Sprintf("%.0f %.0f %%", cycles, 100*share); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	// Weights that a token is multiplied by in the layers, from the configurations of the models: q, k, v and o, gate, up and down.
	for _, c := range []struct {
		name    string
		weights float64
		want    string // tokens a second and GHz
	}{
		{"tinyllama-1.1b", 22 * (2*2048*2048 + 2*2048*256 + 3*2048*5632), "908"},
		{"spark-1.7b", 28 * (2*2048*2048 + 2*2048*512 + 3*2048*6656), "611"},
		{"llama-8b", 32 * (2*4096*4096 + 2*4096*1024 + 3*4096*14336), "126"},
	} {
		cycles, dots := bound(signed, "plain", 128, true)
		if dots/cycles < 0.7 {
			t.Errorf("%s: %.2f of the peak", c.name, dots/cycles)
		}
		if got := fmt.Sprintf("%.0f", 1e9*1024*dots/cycles/c.weights); got != c.want {
			t.Errorf("%s: %s tokens a second and GHz, want %s", c.name, got, c.want)
		}
	}
}
