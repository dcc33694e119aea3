package metal

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What boot.S knows.
const (
	firstSector = 64
	base        = 1 << 24
	recordSize  = 128
	noPage      = 48 << 20
)

// Exceptions, as records have them.
const (
	invalidOpcode     = 1 + 6
	generalProtection = 1 + 13
	pageFault         = 1 + 14
)

var le = binary.LittleEndian

// record is a call of a function.
type record struct {
	name      string
	function  string
	arguments []uint64
	exception uint64 // that it ends with; 0: none
	check     func(memory []byte) error
}

// machine is what Bochs is to run.
type machine struct {
	memory    []byte            // at base
	functions map[string]uint64 // addresses by name
	records   []record
}

// room reserves bytes and returns where they are in memory.
func (m *machine) room(n, align int) int {
	at := (len(m.memory) + align - 1) / align * align
	m.memory = append(m.memory, make([]byte, at+n-len(m.memory))...)
	return at
}

// put reserves room for bytes, at a line of the cache, and returns their address.
func (m *machine) put(b []byte) uint64 {
	at := m.room(len(b), 64)
	copy(m.memory[at:], b)
	return base + uint64(at)
}

// call adds a record.
func (m *machine) call(name, function string, exception uint64, check func(memory []byte) error, arguments ...uint64) {
	m.records = append(m.records, record{name, function, arguments, exception, check})
}

// tool runs a program in a folder.
func tool(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

// boot assembles what Bochs starts with, and knows the functions in it.
func (m *machine) boot(t *testing.T, dir string) []byte {
	t.Helper()
	source, err := filepath.Abs("boot.S")
	if err != nil {
		t.Fatal(err)
	}
	tool(t, dir, "gcc", "-c", "-m64", "-o", "boot.o", source)
	link := []string{"-m", "elf_x86_64", "-N", "-e", "_start", "-Ttext", "0x7c00", "boot.o"}
	tool(t, dir, "ld", append(link, "-o", "boot.elf")...)
	tool(t, dir, "ld", append(link, "-o", "boot.bin", "--oformat", "binary")...)
	m.symbols(t, filepath.Join(dir, "boot.elf"), "_vector", func(name string, _ *elf.File, s *elf.Symbol) { m.functions[name] = s.Value })
	b, err := os.ReadFile(filepath.Join(dir, "boot.bin"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// kernel takes the functions of the set amx out of the kernel's tests.
func (m *machine) kernel(t *testing.T, dir string) {
	t.Helper()
	binary := filepath.Join(dir, "kernel.test")
	tool(t, "../..", "go", "test", "-c", "-o", binary, ".")
	m.symbols(t, binary, ".abi0", func(name string, f *elf.File, s *elf.Symbol) {
		short, mine := strings.CutPrefix(name, "nibble/internal/kernel.")
		if !mine || !strings.HasPrefix(short, "tile") || s.Size == 0 {
			return
		}
		section, code := f.Sections[s.Section], make([]byte, s.Size)
		if _, err := section.ReadAt(code, int64(s.Value-section.Addr)); err != nil {
			t.Fatal(err)
		}
		m.functions[short] = m.put(code)
	})
}

// symbols visits the symbols of a file that end in a suffix.
func (m *machine) symbols(t *testing.T, path, suffix string, visit func(name string, f *elf.File, s *elf.Symbol)) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if name, ok := strings.CutSuffix(list[i].Name, suffix); ok {
			visit(name, f, &list[i])
		}
	}
}

// settings are those of Bochs: the folder of its data, the disk, its cylinders, and the log.
const settings = `config_interface: textconfig
display_library: term
romimage: file=%[1]s/bochs/BIOS-bochs-latest
vgaromimage: file=%[1]s/vgabios/vgabios.bin
cpu: model=sapphire_rapids, count=1, ips=50000000, reset_on_triple_fault=0, ignore_bad_msrs=1
memory: guest=64, host=64
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=disk, path=%[2]s, mode=flat, cylinders=%[3]d, heads=16, spt=63
boot: disk
sound: waveoutdrv=dummy, waveindrv=dummy, midioutdrv=dummy
clock: sync=none, time0=1700000000
log: %[4]s
panic: action=fatal
error: action=report
info: action=ignore
debug: action=ignore
`

// run starts Bochs and holds what it leaves against what the records want.
func (m *machine) run(t *testing.T, bochs, dir string, start []byte) {
	t.Helper()
	records := m.room(len(m.records)*recordSize, 128)
	for i, r := range m.records {
		at := m.memory[records+i*recordSize:]
		if m.functions[r.function] == 0 {
			t.Fatalf("no function %s", r.function)
		}
		le.PutUint64(at, m.functions[r.function])
		for j, v := range r.arguments {
			le.PutUint64(at[8+8*j:], v)
		}
		le.PutUint64(at[88:], math.MaxUint64)
	}
	m.room(1, 512)
	m.room(0, 512)
	le.PutUint32(m.memory[8:], uint32(len(m.memory)/512))
	le.PutUint32(m.memory[16:], uint32(len(m.records)))
	le.PutUint32(m.memory[24:], uint32(records))

	const cylinder = 16 * 63 * 512
	image := make([]byte, (firstSector*512+len(m.memory)+cylinder-1)/cylinder*cylinder)
	copy(image, start)
	copy(image[firstSector*512:], m.memory)
	at := func(name string) string { return filepath.Join(dir, name) }
	config := fmt.Sprintf(settings, filepath.Join(bochs, "root/usr/share"), at("disk"), len(image)/cylinder, at("log"))
	for name, b := range map[string][]byte{"disk": image, "config": []byte(config)} {
		if err := os.WriteFile(at(name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// Bochs wants a terminal, which script has. How it ends says nothing.
	cmd := exec.Command("script", "-qec", fmt.Sprintf("timeout -k 2 120 %s/bochs -q -f %s", bochs, at("config")), os.DevNull)
	cmd.Env = append(os.Environ(), "TERM=vt100")
	began := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(began)
	image, readErr := os.ReadFile(at("disk"))
	if readErr != nil {
		t.Fatal(readErr)
	}
	left := image[firstSector*512:][:len(m.memory)]
	if le.Uint32(left[48:]) != 1 {
		log, _ := os.ReadFile(at("log"))
		t.Fatalf("not finished: %v, %.500q, %s", err, out, log[max(0, len(log)-2000):])
	}
	t.Logf("%d calls, %d KiB, %v; EDX of CPUID.7 %#x", len(m.records), len(left)/1024, took, le.Uint32(left[32:]))
	for i, r := range m.records {
		at := left[records+i*recordSize:]
		if got := le.Uint64(at[88:]); got != r.exception {
			t.Errorf("%s: exception %d, want %d (0: none, else its number and 1), at %#x, CR2 %#x", r.name, int64(got), r.exception, le.Uint64(at[104:]), le.Uint64(at[112:]))
		} else if r.check != nil {
			if err := r.check(left); err != nil {
				t.Errorf("%s: %v", r.name, err)
			}
		}
	}
}

// wants compares memory with what should be there.
func wants(at int, want []byte) func(memory []byte) error {
	return func(memory []byte) error {
		got := memory[at:][:len(want)]
		for i := 0; i < len(want); i += 4 {
			if !bytes.Equal(got[i:i+4], want[i:i+4]) {
				return fmt.Errorf("32 bits %d: %#x, want %#x", i/4, le.Uint32(got[i:]), le.Uint32(want[i:]))
			}
		}
		return nil
	}
}
