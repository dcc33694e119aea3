package probe

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// flagNames are the flags of a profile with their names in /proc/cpuinfo: on x86 all of the names must be there, on Arm one.
var flagNames = []struct {
	arch, flag string
	names      []string
}{
	{"amd64", "avx2", []string{"avx2"}},
	{"amd64", "avx512", []string{"avx512f", "avx512bw", "avx512vl", "avx512dq"}},
	{"amd64", "avx512_bf16", []string{"avx512_bf16"}},
	{"amd64", "avx512_vnni", []string{"avx512_vnni"}},
	{"amd64", "avx_vnni", []string{"avx_vnni"}},
	{"amd64", "amx_bf16", []string{"amx_bf16"}},
	{"amd64", "amx_tile", []string{"amx_tile"}},
	{"amd64", "amx_int8", []string{"amx_int8"}},
	{"amd64", "fma", []string{"fma"}},
	{"amd64", "f16c", []string{"f16c"}},
	{"arm64", "neon", []string{"asimd", "neon"}},
	{"arm64", "fp16_arith", []string{"asimdhp"}},
	{"arm64", "dotprod", []string{"asimddp"}},
	{"arm64", "i8mm", []string{"i8mm"}},
	{"arm64", "bf16", []string{"bf16"}},
	{"arm64", "sve", []string{"sve"}},
	{"arm64", "sve2", []string{"sve2"}},
	{"arm64", "sme", []string{"sme"}},
}

// parts names the cores of Arm's and others' processors by implementer and part.
var parts = map[[2]string]string{
	{"0x41", "0xd03"}: "Cortex-A53", {"0x41", "0xd05"}: "Cortex-A55", {"0x41", "0xd07"}: "Cortex-A57", {"0x41", "0xd08"}: "Cortex-A72",
	{"0x41", "0xd09"}: "Cortex-A73", {"0x41", "0xd0a"}: "Cortex-A75", {"0x41", "0xd0b"}: "Cortex-A76", {"0x41", "0xd0c"}: "Neoverse-N1",
	{"0x41", "0xd0d"}: "Cortex-A77", {"0x41", "0xd40"}: "Neoverse-V1", {"0x41", "0xd41"}: "Cortex-A78", {"0x41", "0xd42"}: "Cortex-A78AE",
	{"0x41", "0xd44"}: "Cortex-X1", {"0x41", "0xd46"}: "Cortex-A510", {"0x41", "0xd47"}: "Cortex-A710", {"0x41", "0xd48"}: "Cortex-X2",
	{"0x41", "0xd49"}: "Neoverse-N2", {"0x41", "0xd4d"}: "Cortex-A715", {"0x41", "0xd4e"}: "Cortex-X3", {"0x41", "0xd4f"}: "Neoverse-V2",
	{"0x41", "0xd80"}: "Cortex-A520", {"0x41", "0xd81"}: "Cortex-A720", {"0x41", "0xd82"}: "Cortex-X4", {"0x51", "0x001"}: "Oryon",
}

var implementers = map[string]string{"0x41": "Arm", "0x48": "HiSilicon", "0x4e": "NVIDIA", "0x51": "Qualcomm", "0x61": "Apple", "0xc0": "Ampere"}

// cpuinfo is what /proc/cpuinfo says.
type cpuinfo struct {
	processors int
	vendor     string
	arch       string
	models     []string        // different ones
	flags      map[string]bool // in the names of the kernel; those of every processor
	cores      map[[2]string]bool
}

// parseCPUInfo reads stanzas of lines "key : value", one for each processor.
func parseCPUInfo(raw []byte) *cpuinfo {
	c := &cpuinfo{cores: map[[2]string]bool{}}
	stanza := map[string]string{}
	known := []string{"vendor_id", "model name", "flags", "physical id", "core id", "Features", "CPU implementer", "CPU part", "CPU architecture"}
	for line := range strings.Lines(string(raw) + "\nprocessor:\n") {
		key, value, ok := strings.Cut(line, ":")
		switch key = strings.TrimSpace(key); {
		case ok && key == "processor":
			if stanza["processor"] != "" && c.processors < maxCPUs {
				c.add(stanza)
			}
			stanza = map[string]string{"processor": "is there"}
		case ok && slices.Contains(known, key):
			stanza[key] = strings.TrimSpace(value)
		}
	}
	return c
}

// add counts a processor.
func (c *cpuinfo) add(s map[string]string) {
	c.processors++
	flags, model := s["flags"], clean(s["model name"])
	if id := s["CPU implementer"]; id != "" {
		flags, c.vendor = s["Features"], implementers[id]
		c.arch = "arm64"
		if !slices.Contains(strings.Fields(flags), "asimd") { // 32 bits: asimd is their neon
			c.arch = "arm"
		}
		model = parts[[2]string{id, s["CPU part"]}]
		if model == "" {
			model = clean("part " + s["CPU part"] + " of implementer " + id)
		}
	} else if s["vendor_id"] != "" {
		c.vendor, c.arch = clean(s["vendor_id"]), "amd64"
		if !slices.Contains(strings.Fields(flags), "lm") {
			c.arch = "386"
		}
	}
	if model != "" && !slices.Contains(c.models, model) && len(c.models) < 8 {
		c.models = append(c.models, model)
	}
	have := map[string]bool{}
	for f := range strings.FieldsSeq(flags) {
		have[f] = c.flags == nil || c.flags[f]
	}
	c.flags = have
	if s["core id"] != "" {
		c.cores[[2]string{s["physical id"], s["core id"]}] = true
	}
}

// normal returns the flags in a profile's names.
func (c *cpuinfo) normal() []string {
	list := []string{}
	for _, f := range flagNames {
		has := func(name string) bool { return c.flags[name] }
		any := slices.ContainsFunc(f.names, has)
		all := !slices.ContainsFunc(f.names, func(name string) bool { return !has(name) })
		if f.arch == c.arch && (all || any && f.arch == "arm64") {
			list = append(list, f.flag)
		}
	}
	return list
}

// cpu reads everything about the processors.
func (r *reader) cpu() {
	const info = "proc/cpuinfo"
	c := &r.p.CPU
	read := parseCPUInfo(r.raw(info))
	if read.processors == 0 {
		r.unknown("model and flags of the processors", "/"+info)
	} else {
		c.Logical, c.Vendor, c.Model, c.Flags = read.processors, read.vendor, strings.Join(read.models, ", "), read.normal()
		r.p.Arch, r.p.FP16 = read.arch, read.flags["avx512_fp16"]
		r.found("cpu", info)
		r.found("n_logical", info)
	}
	const dir = "sys/devices/system/cpu"
	online, ok := parseCPUs(r.text(dir + "/online"))
	if !ok {
		for i := range c.Logical {
			online = append(online, i)
		}
	} else if c.Logical == 0 {
		c.Logical = len(online)
		r.found("n_logical", dir+"/online")
	}
	r.cores(online, read)
	r.clusters(online)
	r.nodes()
}

// cores counts the places of processors: threads of one core have the same. Cores of different clusters of an Arm processor
// may have the same number.
func (r *reader) cores(online []int, read *cpuinfo) {
	const dir = "sys/devices/system/cpu"
	places := map[[3]string]bool{}
	for _, cpu := range online {
		at := path.Join(dir, "cpu"+strconv.Itoa(cpu), "topology")
		core := r.text(at + "/core_id")
		if core == "" {
			places = nil
			break
		}
		places[[3]string{r.text(at + "/physical_package_id"), r.text(at + "/cluster_id"), core}] = true
	}
	switch {
	case len(places) > 0:
		r.p.CPU.Physical = len(places)
		r.found("n_physical", dir+"/cpu*/topology")
	case len(read.cores) > 0:
		r.p.CPU.Physical = len(read.cores)
		r.found("n_physical", "proc/cpuinfo")
	default:
		r.unknown("n_physical", "/"+dir+"/cpu*/topology")
	}
}

// clusters sorts the processors by their highest frequency. Processors without one are in no cluster.
func (r *reader) clusters(online []int) {
	const dir = "sys/devices/system/cpu"
	by := map[int64][]int{}
	for _, cpu := range online {
		if khz, ok := r.number(path.Join(dir, "cpu"+strconv.Itoa(cpu), "cpufreq/cpuinfo_max_freq"), 1e9); ok && khz > 0 {
			by[khz] = append(by[khz], cpu)
		}
	}
	for khz, cpus := range by {
		r.p.CPU.Clusters = append(r.p.CPU.Clusters, Cluster{formatCPUs(cpus), len(cpus), khz})
	}
	slices.SortFunc(r.p.CPU.Clusters, func(a, b Cluster) int { return int(b.MaxKHz - a.MaxKHz) })
	r.p.CPU.Clusters = r.p.CPU.Clusters[:min(len(by), maxList)]
	if len(by) > 0 {
		r.found("clusters", dir+"/cpu*/cpufreq/cpuinfo_max_freq")
	} else {
		r.unknown("clusters", "/"+dir+"/cpu*/cpufreq")
	}
}

// nodes reads the NUMA nodes.
func (r *reader) nodes() {
	const dir = "sys/devices/system/node"
	for _, name := range r.list(dir, "node") {
		id, ok := parseNumber(strings.TrimPrefix(name, "node"), maxCPUs)
		if !ok || len(r.p.CPU.Nodes) == maxList {
			continue
		}
		n := Node{ID: int(id)}
		if cpus, ok := parseCPUs(r.text(path.Join(dir, name, "cpulist"))); ok { // a node of memory alone has none
			n.CPUs, n.Count = formatCPUs(cpus), len(cpus)
		}
		n.Bytes, _ = parseKB(fields(r.raw(path.Join(dir, name, "meminfo")), ":")["Node "+strconv.Itoa(int(id))+" MemTotal"])
		r.p.CPU.Nodes = append(r.p.CPU.Nodes, n)
		r.found("numa_nodes", dir)
	}
	if len(r.p.CPU.Nodes) == 0 {
		r.unknown("numa_nodes", "/"+dir)
	}
}
