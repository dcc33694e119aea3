package machine

import (
	"fmt"
	"strconv"
	"strings"
)

// mostCPUs is the most processors of a machine, twice what Linux can have.
const mostCPUs = 1 << 14

// ParseCPUs reads a list of processors as Linux and --cpus have it, like 0-3,8, and keeps its order.
func ParseCPUs(list string) (cpus []int, err error) {
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		lo, err := strconv.Atoi(from)
		hi := lo
		if err == nil && isRange {
			hi, err = strconv.Atoi(to)
		}
		if err != nil || lo < 0 || hi < lo || hi >= mostCPUs || len(cpus)+hi-lo >= mostCPUs {
			return nil, fmt.Errorf("%q in %q: want a processor or a range, as in 0-3,8", part, list)
		}
		for cpu := lo; cpu <= hi; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}
