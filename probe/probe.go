package probe

import (
	"io/fs"
	"os"
	"runtime"
	"strings"
	"testing/fstest"
)

// Live probes the machine whose root is at a path: "/" is this one. Links that lead out of the root are not followed.
func Live(root string) (*Profile, error) {
	dir, err := os.OpenRoot(root)
	if err != nil {
		if root != "/" {
			return nil, err
		}
		return withGo(Probe(fstest.MapFS{})), nil
	}
	defer dir.Close()
	p := Probe(dir.FS())
	if root == "/" {
		p = withGo(p)
	}
	return p, nil
}

// LiveMemory returns what Live says of this machine's memory and of what limits leave of it, from the few files that say it.
func LiveMemory() Memory {
	dir, err := os.OpenRoot("/")
	if err != nil {
		return Memory{}
	}
	defer dir.Close()
	r := &reader{dir.FS(), &Profile{Sources: map[string]string{}}}
	r.memory()
	r.cgroups()
	return r.p.Memory
}

// withGo adds what Go knows of this machine without any file.
func withGo(p *Profile) *Profile {
	if p.HostOS == "" {
		p.HostOS = runtime.GOOS
		p.Sources["host_os"] = "the program"
	}
	if p.Arch == "" {
		p.Arch = runtime.GOARCH
		p.Sources["arch"] = "the program"
	}
	if p.CPU.Logical == 0 {
		p.CPU.Logical = runtime.NumCPU()
		p.Sources["n_logical"] = "the program"
	}
	p.finish()
	return p
}

// Probe reads the files of a machine. It never fails: what cannot be read is unknown.
func Probe(fsys fs.FS) *Profile {
	p := &Profile{Form: form, Sources: map[string]string{}, Unknown: []string{}, Accelerators: []Accelerator{}, Thermal: []Zone{},
		RenderNodes: []string{}, AccelNodes: []string{}}
	p.CPU.Flags, p.CPU.Clusters, p.CPU.Nodes = []string{}, []Cluster{}, []Node{}
	r := &reader{fsys, p}
	r.host()
	r.cpu()
	r.memory()
	r.cgroups()
	r.accelerators()
	r.thermal()
	p.finish()
	return p
}

// finish derives what follows from the rest.
func (p *Profile) finish() {
	c := &p.CPU
	c.Effective = c.Logical
	if c.Allowed > 0 && (c.Effective == 0 || c.Allowed < c.Effective) {
		c.Effective = c.Allowed
	}
	if c.Quota > 0 { // a part of a processor is none: its thread would be stopped in the middle
		c.Effective = max(1, min(c.Effective, int(c.Quota)))
	}
	m := &p.Memory
	m.Effective = m.Total
	if m.Limit > 0 && (m.Total == 0 || m.Limit < m.Total) {
		m.Effective = m.Limit
	}
	p.BF16 = p.Has("avx512_bf16") || p.Has("amx_bf16") || p.Has("bf16")
	p.FP16 = p.FP16 || p.Has("fp16_arith")
	for _, a := range p.Accelerators {
		p.BF16 = p.BF16 || a.Usable && a.BF16
		p.FP16 = p.FP16 || a.Usable && a.FP16
	}
}

// host finds out what kind of system this is.
func (r *reader) host() {
	const release = "proc/sys/kernel/osrelease"
	kernel := r.text(release)
	if kernel == "" {
		kernel = r.text("proc/version")
	}
	lower := strings.ToLower(kernel)
	switch {
	case strings.Contains(lower, "wsl2"):
		r.p.HostOS = "wsl2"
	case kernel != "":
		r.p.HostOS = "linux"
	}
	if kernel == "" {
		r.unknown("host_os", "/"+release)
	} else {
		r.found("host_os", release)
	}
	for _, name := range []string{deviceTree + "/model", "proc/device-tree/model", "sys/class/dmi/id/product_name"} {
		if r.p.Board = r.text(name); r.p.Board != "" {
			r.found("board", name)
			break
		}
	}
	tegra := ""
	for _, c := range r.compatible() {
		if strings.HasPrefix(c, "nvidia,tegra") {
			tegra = c
		}
	}
	const nv = "etc/nv_tegra_release"
	if line := r.text(nv); line != "" {
		r.p.Jetson = strings.TrimSpace(strings.TrimPrefix(line, "#"))
		r.found("jetson", nv)
	} else if tegra != "" {
		r.p.Jetson = tegra
		r.found("jetson", deviceTree+"/compatible")
	}
}

// thermal reads the thermometers.
func (r *reader) thermal() {
	const dir = "sys/class/thermal"
	for _, name := range r.list(dir, "thermal_zone") {
		if len(r.p.Thermal) == maxList {
			break
		}
		milli, ok := parseSigned(r.text(dir+"/"+name+"/temp"), 1e6)
		if kind := r.text(dir + "/" + name + "/type"); ok && kind != "" {
			r.p.Thermal = append(r.p.Thermal, Zone{kind, float64(milli) / 1000})
			r.found("thermal_zones", dir)
		}
	}
}
