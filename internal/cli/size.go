package cli

import (
	"math"
	"strconv"
	"strings"
)

// units of sizes: decimal as disks are sold, binary with an i.
var units = []struct {
	suffix string
	bytes  float64
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40},
	{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12}, {"b", 1}, {"", 1},
}

// parseSize reads "5GB", "300MiB" or a number of bytes.
func parseSize(flag, s string) (int64, error) {
	lower := strings.ToLower(strings.TrimSpace(s))
	for _, u := range units {
		number, ok := strings.CutSuffix(lower, u.suffix)
		if !ok {
			continue
		}
		f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || f <= 0 || f*u.bytes > math.MaxInt64/2 {
			break
		}
		return int64(f * u.bytes), nil
	}
	return 0, usagef("--%s %q: want a size like 5GB, 300MiB or a number of bytes", flag, s)
}
