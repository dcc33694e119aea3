// Package machine reads what Linux tells of the machine and of this process. Elsewhere everything is unknown.
package machine

import (
	"bufio"
	"bytes"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// CPU returns the name of the processor, the architecture where it has none.
func CPU() string {
	if name := field("/proc/cpuinfo", "model name"); name != "" {
		return name
	}
	return runtime.GOARCH
}

// field returns what a file of lines "name : value" has for a name, "" if nothing.
func field(path, name string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if key, value, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// PeakMemory returns the most memory that this process has had, in bytes.
func PeakMemory() (bytes int64, known bool) {
	return size(field("/proc/self/status", "VmHWM"), " kB")
}

// AddressSpace returns the bytes of address space that this process may still take, if there is a limit.
func AddressSpace() (left int64, limited bool) {
	f, err := os.Open("/proc/self/limits")
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		rest, ok := strings.CutPrefix(s.Text(), "Max address space")
		if !ok {
			continue
		}
		limit, err := strconv.ParseInt(strings.Fields(rest + " -")[0], 10, 64)
		taken, known := size(field("/proc/self/status", "VmSize"), " kB")
		return max(0, limit-taken), err == nil && known // else the limit is "unlimited"
	}
	return 0, false
}

// LastLevelCache returns the size of the largest cache of the first processor, in bytes.
func LastLevelCache() (bytes int64, known bool) {
	const index3 = "/sys/devices/system/cpu/cpu0/cache/index3/size"
	raw, err := os.ReadFile(index3)
	if err != nil {
		return 0, false
	}
	return size(strings.TrimSpace(string(raw)), "K")
}

// size reads a number of KiB.
func size(s, unit string) (bytes int64, known bool) {
	n, err := strconv.ParseInt(strings.TrimSuffix(s, unit), 10, 64)
	return n << 10, err == nil
}

// Busy returns the share of the processors' time, over a while, that they did not idle; all processors if none is named.
// Time that a hypervisor took counts as busy.
func Busy(cpus []int, while time.Duration) (share float64, known bool) {
	before := readTimes()
	time.Sleep(while)
	return busy(before, readTimes(), cpus)
}

// times is what processors have spent since the start, in ticks.
type times struct{ all, idle int64 }

// everyone is the number under which times stand for all processors together.
const everyone = -1

func readTimes() map[int]times {
	raw, _ := os.ReadFile("/proc/stat")
	return parseTimes(raw)
}

// parseTimes reads the lines cpu and cpuN: user, nice, system, idle, iowait, irq, softirq, steal, then times that are in
// user and nice already.
func parseTimes(stat []byte) map[int]times {
	const counted = 8
	list := map[int]times{}
	for line := range bytes.Lines(stat) {
		words := strings.Fields(string(line))
		if len(words) < 1+counted {
			continue
		}
		name, ok := strings.CutPrefix(words[0], "cpu")
		cpu, err := strconv.Atoi(name)
		switch {
		case name == "":
			cpu = everyone
		case !ok || err != nil:
			continue
		}
		var t times
		for i, w := range words[1 : 1+counted] {
			n, _ := strconv.ParseInt(w, 10, 64)
			t.all += n
			if i == 3 || i == 4 {
				t.idle += n
			}
		}
		list[cpu] = t
	}
	return list
}

// busy compares two readings.
func busy(before, after map[int]times, cpus []int) (share float64, known bool) {
	if len(cpus) == 0 {
		cpus = []int{everyone}
	}
	var all, idle int64
	for _, cpu := range cpus {
		a, b := before[cpu], after[cpu]
		all += b.all - a.all
		idle += b.idle - a.idle
	}
	if all <= 0 {
		return 0, false
	}
	return 1 - float64(idle)/float64(all), true
}
