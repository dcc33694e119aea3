package machine

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const before = `cpu  100 0 50 800 50 0 0 0 0 0
cpu0 50 0 25 400 25 0 0 0 0 0
cpu1 50 0 25 400 25 0 0 0 7 7
intr 12345 0 0 0 0 0 0 0 0 0
`

// Processor 0 was busy 30 of 100 ticks, 10 of them taken by a hypervisor; processor 1 all of 100.
const after = `cpu  200 10 60 860 60 0 0 10 0 0
cpu0 60 10 25 460 35 0 0 10 0 0
cpu1 140 0 35 400 25 0 0 0 70 70
`

func TestBusy(t *testing.T) {
	a, b := parseTimes([]byte(before)), parseTimes([]byte(after))
	for _, tt := range []struct {
		cpus []int
		want float64
	}{
		{[]int{0}, 0.3},
		{[]int{1}, 1},
		{[]int{1, 1}, 1},
		{[]int{0, 1}, 0.65},
		{nil, 0.65},
	} {
		if share, known := busy(a, b, tt.cpus); !known || math.Abs(share-tt.want) > 1e-12 {
			t.Errorf("%v: %v, %v; want %v", tt.cpus, share, known, tt.want)
		}
	}
	if _, known := busy(a, b, []int{5}); known {
		t.Error("processor 5 is known")
	}
	if _, known := busy(a, a, nil); known {
		t.Error("no time has passed, and a share is known")
	}
	if _, known := busy(nil, nil, nil); known {
		t.Error("a share is known of nothing")
	}
}

func TestField(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status")
	if err := os.WriteFile(path, []byte("Name:\tx\nmodel name\t: Some CPU: 3 GHz\nVmHWM:\t  1234 kB\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"model name": "Some CPU: 3 GHz", "VmHWM": "1234 kB", "VmRSS": ""} {
		if got := field(path, name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := field(path+"x", "Name"); got != "" {
		t.Errorf("%q of a file that is not there", got)
	}
	if n, known := size("1234 kB", " kB"); n != 1234<<10 || !known {
		t.Errorf("%d, %v", n, known)
	}
	if _, known := size("", " kB"); known {
		t.Error("a size of nothing is known")
	}
	if CPU() == "" {
		t.Error("the processor has no name")
	}
}

func TestParseCPUs(t *testing.T) {
	for list, want := range map[string][]int{"0": {0}, "3,0-2": {3, 0, 1, 2}, "7-7,7": {7, 7}} {
		if got, err := ParseCPUs(list); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", list, got, err, want)
		}
	}
	for _, list := range []string{"", "0,", "-1", "3-2", "a", "0-b", "0-16384", "0-9999,0-9999"} {
		if got, err := ParseCPUs(list); err == nil {
			t.Errorf("%q: %v", list, got)
		}
	}
}
