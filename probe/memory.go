package probe

import (
	"path"
	"strconv"
	"strings"
)

// memory reads the memory of the machine.
func (r *reader) memory() {
	const info = "proc/meminfo"
	m := fields(r.raw(info), ":")
	total, ok := parseKB(m["MemTotal"])
	if !ok || total == 0 {
		r.unknown("memory", "/"+info)
		return
	}
	r.p.Memory.Total = total
	if free, ok := parseKB(m["MemAvailable"]); ok && free <= total {
		r.p.Memory.Available = free
	}
	r.found("memory", info)
}

// group is a control group of this process: the folder of its hierarchy, and the path in it.
type group struct {
	mount, path string
	v2          bool
}

// parseGroups reads /proc/self/cgroup, lines "number:controllers:path". The second version has no controllers there.
func parseGroups(raw []byte) (list []group) {
	for line := range strings.Lines(string(raw)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || !strings.HasPrefix(parts[2], "/") || len(list) == 64 {
			continue
		}
		g := group{mount: "sys/fs/cgroup", path: path.Clean(parts[2]), v2: parts[1] == ""}
		if !g.v2 {
			if strings.Contains(parts[1], "/") || strings.HasPrefix(parts[1], ".") {
				continue
			}
			g.mount += "/" + parts[1]
		}
		list = append(list, g)
	}
	return list
}

// levels returns the folders of a group from itself up to the root. In a container the path may be the host's: what is not
// there is passed over.
func (g group) levels() (list []string) {
	for at := g.path; len(list) < 64; at = path.Dir(at) {
		list = append(list, path.Join(g.mount, at))
		if at == "/" {
			break
		}
	}
	return list
}

// cgroups reads the limits that hold for this process. On every level of a hierarchy the least counts.
func (r *reader) cgroups() {
	const own = "proc/self/cgroup"
	groups := parseGroups(r.raw(own))
	if len(groups) == 0 { // a copy of files, or a process that does not see its own
		groups = []group{{"sys/fs/cgroup", "/", true}, {"sys/fs/cgroup/memory", "/", false}, {"sys/fs/cgroup/cpu", "/", false}}
	}
	free := r.p.Memory.Available
	for _, g := range groups {
		for _, dir := range g.levels() {
			limit, used, ok := r.memoryLimit(dir, g.v2)
			if ok && (r.p.Memory.Total == 0 || limit < r.p.Memory.Total) {
				if r.p.Memory.Limit == 0 || limit < r.p.Memory.Limit {
					r.p.Memory.Limit = limit
					r.found("cgroup_limit", dir)
				}
				if left := max(limit-used, 0); free == 0 || left < free {
					free = left
				}
			}
			if quota, ok := r.quota(dir, g.v2); ok && (r.p.CPU.Quota == 0 || quota < r.p.CPU.Quota) {
				r.p.CPU.Quota = quota
				r.found("cpu_limit", dir)
			}
		}
	}
	r.p.Memory.Free = free
	const status = "proc/self/status"
	if cpus, ok := parseCPUs(fields(r.raw(status), ":")["Cpus_allowed_list"]); ok {
		r.p.CPU.Allowed = len(cpus)
		r.found("n_allowed", status)
	}
}

// memoryLimit reads a group's limit and what is used of it, without what the kernel drops when it is short: pages of files, those read more than
// once (active) too, and its own caches.
func (r *reader) memoryLimit(dir string, v2 bool) (limit, used int64, ok bool) {
	name, total, prefix := "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"
	if v2 {
		name, total, prefix = "memory.max", "memory.current", ""
	}
	limit, ok = r.number(dir+"/"+name, maxMemory) // "max", or close to 2^63 in the first version: no limit
	if !ok || limit == 0 {
		return 0, 0, false
	}
	used, _ = r.number(dir+"/"+total, maxMemory)
	stat := fields(r.raw(dir+"/memory.stat"), " ")
	for _, kind := range []string{prefix + "inactive_file", prefix + "active_file", "slab_reclaimable"} {
		if n, known := parseNumber(stat[kind], maxMemory); known {
			used -= n
		}
	}
	return limit, max(0, used), true
}

// quota reads how many processors' worth of time a group may take.
func (r *reader) quota(dir string, v2 bool) (cpus float64, ok bool) {
	var words []string
	if v2 {
		words = strings.Fields(r.text(dir + "/cpu.max"))
	} else {
		words = []string{r.text(dir + "/cpu.cfs_quota_us"), r.text(dir + "/cpu.cfs_period_us")}
	}
	if len(words) != 2 {
		return 0, false
	}
	quota, ok := parseNumber(words[0], 1e12) // "max", or -1 in the first version: no limit
	period, known := parseNumber(words[1], 1e9)
	if !ok || !known || quota == 0 || period == 0 {
		return 0, false
	}
	cpus = float64(quota) / float64(period)
	return cpus, cpus <= maxCPUs
}

// parseSigned reads a number of either sign, at most limit from zero.
func parseSigned(s string, limit int64) (n int64, ok bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	return n, err == nil && -limit <= n && n <= limit
}
