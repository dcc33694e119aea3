package amx

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"nibble/internal/kernel/amx/tile"
)

// disassemblers print AT&T syntax, sources first: the destination is the last operand.
var disassemblers = []string{"objdump", "llvm-objdump-14"}

// Every use of a macro in the assembly is the instruction that the macro is called, with its tiles and registers, as two
// disassemblers read the program. The macros are read from the source, and the instructions stand in the program in their order.
func TestDisassembly(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "kernel.test")
	build := exec.Command("go", "test", "-c", "-o", binary, ".")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	macros := map[string]bool{}
	for function, body := range map[string][2]string{
		"tileSigned":    {"amx_body_amd64.h", "TDPBSSD"},
		"tileUnsigned":  {"amx_body_amd64.h", "TDPBSUD"},
		"tilePairs":     {"amx_body_amd64.h", "TDPBF16PS"},
		"peakInt8Tiles": {"amx_peak_amd64.h", "TDPBSSD"},
		"peakBF16Tiles": {"amx_peak_amd64.h", "TDPBF16PS"},
	} {
		want := written(t, body[0], body[1])
		if len(want) < 10 {
			t.Fatalf("%s: %d uses of macros", function, len(want))
		}
		for _, line := range want {
			name, _, _ := strings.Cut(line, " ")
			macros[name] = true
		}
		if last := want[len(want)-1]; last != "tilerelease" {
			t.Errorf("%s ends with %s", function, last)
		}
		for _, tool := range disassemblers {
			if got := disassembled(t, tool, binary, "nibble/internal/kernel."+function+".abi0"); !slices.Equal(got, want) {
				t.Errorf("%s, %s:\n%s\nwant\n%s", tool, function, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
	if header := definitions(t); len(macros) != header {
		t.Errorf("%d of the %d macros are used: %v", len(macros), header, macros)
	}
}

// read returns a file of the kernel's.
func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// definitions counts the macros of the header that are instructions.
func definitions(t *testing.T) int { return strings.Count(read(t, "amx_amd64.h"), "BYTE $0xC4") }

var use = regexp.MustCompile(`\b(LDTILECFG|TILE[A-Z]+|TDP[A-Z0-9]+|DOT|CONFIGURE)\b(?:\(([^)]*)\))?`)

// written returns the instructions of the body of a function as they are written.
func written(t *testing.T, body, dot string) (list []string) {
	source := read(t, body)
	for line := range strings.Lines(source) {
		line, _, _ = strings.Cut(line, "//")
		m := use.FindStringSubmatch(line)
		switch {
		case m == nil:
		case m[1] == "CONFIGURE":
			list = append(list, "ldtilecfg (%rbx)")
		case m[1] == "DOT":
			list = append(list, instruction(dot, m[2]))
		default:
			list = append(list, instruction(m[1], m[2]))
		}
	}
	return list
}

// instruction returns what a disassembler should say of a macro with arguments.
func instruction(macro, args string) string {
	name, list := strings.ToLower(macro), strings.Split(strings.ReplaceAll(args, " ", ""), ",")
	register := func(i int) string { return "%" + strings.ToLower(list[i]) }
	switch macro {
	case "TILERELEASE":
		return name
	case "LDTILECFG":
		return fmt.Sprintf("%s (%s)", name, register(0))
	case "TILEZERO":
		return fmt.Sprintf("%s %%tmm%s", name, list[0])
	case "TILELOADD":
		return fmt.Sprintf("%s (%s,%s,1),%%tmm%s", name, register(1), register(2), list[0])
	case "TILESTORED":
		return fmt.Sprintf("%s %%tmm%s,(%s,%s,1)", name, list[0], register(1), register(2))
	}
	return fmt.Sprintf("%s %%tmm%s,%%tmm%s,%%tmm%s", name, list[2], list[1], list[0])
}

var mnemonic = regexp.MustCompile(`\s((?:ldtilecfg|tile\w+|tdp\w+))\b(.*)$`)

// disassembled returns the instructions of AMX in a symbol of a program.
func disassembled(t *testing.T, tool, binary, symbol string) (list []string) {
	t.Helper()
	flag := "--disassemble=" + symbol
	if tool != "objdump" {
		flag = "--disassemble-symbols=" + symbol
	}
	out, err := exec.Command(tool, flag, "--no-show-raw-insn", binary).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", tool, err, out)
	}
	return instructions(string(out))
}

// instructions finds those of AMX in the output of a disassembler, without its spaces.
func instructions(out string) (list []string) {
	for line := range strings.Lines(out) {
		line, _, _ = strings.Cut(strings.TrimRight(line, "\n"), "#")
		if m := mnemonic.FindStringSubmatch(line); m != nil && !strings.Contains(line, ">:") {
			operands := strings.ReplaceAll(strings.Join(strings.Fields(m[2]), ""), "(,", "(")
			// A scale of 1 may be left out.
			if i := strings.Index(operands, "("); i >= 0 && strings.Count(operands[i:strings.Index(operands, ")")], ",") == 1 {
				operands = strings.Replace(operands, ")", ",1)", 1)
			}
			list = append(list, strings.TrimSpace(m[1]+" "+operands))
		}
	}
	return list
}

// The decoder of the emulator reads what the disassemblers read: all registers as base and index, displacements, all tiles.
func TestDecoder(t *testing.T) {
	code := encodings()
	var text []byte
	var want []string
	for _, c := range code {
		in, err := tile.Decode(c)
		if err != nil {
			t.Fatalf("% x: %v", c, err)
		}
		if in.Len != len(c) {
			t.Fatalf("% x: %d bytes, want %d", c, in.Len, len(c))
		}
		text, want = append(text, c...), append(want, asText(in))
	}
	object := assemble(t, text)
	for _, tool := range disassemblers {
		args := []string{"-d", "--no-show-raw-insn", object}
		if tool != "objdump" {
			args = append(args, "--print-imm-hex")
		}
		out, err := exec.Command(tool, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", tool, err, out)
		}
		got := instructions(string(out))
		if len(got) != len(want) {
			t.Fatalf("%s: %d instructions, want %d", tool, len(got), len(want))
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: % x is %s, not %s", tool, code[i], got[i], want[i])
			}
		}
	}
}

// encodings are instructions of every kind.
func encodings() (list [][]byte) {
	add := func(b ...byte) { list = append(list, b) }
	add(0xc4, 0xe2, 0x78, 0x49, 0xc0)
	for t := range byte(8) {
		add(0xc4, 0xe2, 0x7b, 0x49, 0xc0|t<<3)
		for other := range byte(8) {
			if third := (t + 1) & 7; t != other && third != t && third != other {
				for pp := range byte(4) {
					add(0xc4, 0xe2, (15-third)<<3|pp, 0x5e, 0xc0|t<<3|other)
				}
				add(0xc4, 0xe2, (15-third)<<3|2, 0x5c, 0xc0|t<<3|other)
			}
		}
	}
	for base := range byte(16) {
		x, b := byte(0x40), 0x20&^(base>>3*0x20)
		if low := base & 7; low != 4 {
			add(0xc4, 0xc2|b, 0x78, 0x49, 0x40|low, 0x70)
		}
		for index := range byte(16) {
			if index == 4 {
				continue
			}
			x = 0x40 &^ (index >> 3 * 0x40)
			sib := index&7<<3 | base&7
			add(0xc4, 0x82|x|b, 0x7b, 0x4b, 0x44|index&7<<3, sib, 0x80)
			add(0xc4, 0x82|x|b, 0x7a, 0x4b, 0x84|base&7<<3, sib|0x80, 0x78, 0x56, 0x34, 0x12)
		}
	}
	return list
}

// registers are the names of the general registers by number.
var registers = strings.Fields("rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15")

// asText writes an instruction as a disassembler does.
func asText(in tile.Inst) string {
	address := "(%" + registers[in.Base]
	if in.Disp != 0 {
		sign := ""
		if in.Disp < 0 {
			sign, in.Disp = "-", -in.Disp
		}
		address = fmt.Sprintf("%s%#x%s", sign, in.Disp, address)
	}
	if in.Index >= 0 {
		address += fmt.Sprintf(",%%%s,%d", registers[in.Index], in.Scale)
	}
	address += ")"
	switch in.Op {
	case tile.TILERELEASE:
		return in.Op.String()
	case tile.LDTILECFG:
		return in.Op.String() + " " + address
	case tile.TILEZERO:
		return fmt.Sprintf("%v %%tmm%d", in.Op, in.C)
	case tile.TILELOADD:
		return fmt.Sprintf("%v %s,%%tmm%d", in.Op, address, in.C)
	case tile.TILESTORED:
		return fmt.Sprintf("%v %%tmm%d,%s", in.Op, in.C, address)
	}
	return fmt.Sprintf("%v %%tmm%d,%%tmm%d,%%tmm%d", in.Op, in.B, in.A, in.C)
}

// assemble makes an object of bytes.
func assemble(t *testing.T, text []byte) string {
	t.Helper()
	var source strings.Builder
	source.WriteString(".text\nmain:\n")
	for _, b := range text {
		fmt.Fprintf(&source, ".byte %d\n", b)
	}
	object := filepath.Join(t.TempDir(), "code.o")
	as := exec.Command("gcc", "-c", "-x", "assembler", "-o", object, "-")
	as.Stdin = strings.NewReader(source.String())
	if out, err := as.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v: %s", err, out)
	}
	return object
}
