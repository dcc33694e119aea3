package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode"
)

// form is the version of a profile's JSON form.
const form = 1

// The most that a profile may say of a thing. More is taken for damage.
const (
	maxCPUs    = 1 << 14
	maxList    = 1 << 10        // accelerators, zones, clusters, nodes, notes
	maxMemory  = int64(1) << 50 // 1 PiB
	maxText    = 256            // bytes of a name
	maxProfile = 4 << 20        // bytes of a profile's JSON
)

// Profile is what is known of a machine. Zero and "" stand for what is not.
type Profile struct {
	Form         int           `json:"profile"`
	HostOS       string        `json:"host_os"` // linux, wsl2, or the GOOS of another system
	Arch         string        `json:"arch"`    // as Go names it
	Board        string        `json:"board"`
	Jetson       string        `json:"jetson"` // the release, or the board
	CPU          CPU           `json:"cpu"`
	Memory       Memory        `json:"memory"`
	Accelerators []Accelerator `json:"accelerators"`
	BF16         bool          `json:"supports_bf16"` // the processor, or an accelerator that is usable, multiplies bfloat16
	FP16         bool          `json:"supports_fp16"` // likewise half floats
	Thermal      []Zone        `json:"thermal_zones"`
	RenderNodes  []string      `json:"render_nodes"` // /dev/dri/renderD*
	AccelNodes   []string      `json:"accel_nodes"`  // /dev/accel/accel*

	Sources map[string]string `json:"source"`  // where a thing was found, by its name
	Unknown []string          `json:"unknown"` // what could not be found, and where it would have been
}

// CPU are the processors.
type CPU struct {
	Vendor    string    `json:"vendor"`
	Model     string    `json:"model"`
	Flags     []string  `json:"flags"` // in the order of flagNames: those that every processor has
	Logical   int       `json:"n_logical"`
	Physical  int       `json:"n_physical"`
	Clusters  []Cluster `json:"clusters"` // by highest frequency, the fastest first
	Nodes     []Node    `json:"numa_nodes"`
	Allowed   int       `json:"n_allowed"` // that this process may run on
	Quota     float64   `json:"cpu_limit"` // processors' worth of time that a cgroup leaves
	Effective int       `json:"n_effective"`
}

// Cluster is a number of processors with the same highest frequency.
type Cluster struct {
	CPUs   string `json:"cpus"` // like 0-3,8
	Count  int    `json:"count"`
	MaxKHz int64  `json:"max_khz"`
}

// Node is a NUMA node.
type Node struct {
	ID    int    `json:"id"`
	CPUs  string `json:"cpus"`
	Count int    `json:"count"`
	Bytes int64  `json:"bytes"`
}

// Memory is in bytes.
type Memory struct {
	Total     int64 `json:"total"`
	Available int64 `json:"available"`
	Limit     int64 `json:"cgroup_limit"`
	Effective int64 `json:"effective"`           // the lesser of total and limit
	Free      int64 `json:"effective_available"` // what is available of that
}

// The kinds of accelerators.
const (
	Discrete   = "gpu_discrete"
	Integrated = "gpu_integrated"
	NPU        = "npu"
)

// Accelerator is a GPU or an NPU. Usable means that the builds of some path run on it as it is.
type Accelerator struct {
	Kind   string `json:"kind"`
	Vendor string `json:"vendor"`
	Name   string `json:"name"`
	Usable bool   `json:"usable"`
	Source string `json:"source"`
	Reason string `json:"reason"` // why it is or is not
	Driver string `json:"driver"`
	PCI    string `json:"pci"`   // vendor:device
	Slot   string `json:"slot"`  // of the bus
	Node   string `json:"node"`  // its render node
	Bytes  int64  `json:"bytes"` // of its own memory
	BF16   bool   `json:"supports_bf16"`
	FP16   bool   `json:"supports_fp16"`
	HTP    int    `json:"htp,omitempty"` // version of a Hexagon NPU
}

// Zone is a thermometer.
type Zone struct {
	Type    string  `json:"type"`
	Celsius float64 `json:"celsius"`
}

// Has reports whether every processor has all of the flags.
func (p *Profile) Has(flags ...string) bool {
	for _, f := range flags {
		if !slices.Contains(p.CPU.Flags, f) {
			return false
		}
	}
	return true
}

// find returns the first usable accelerator of a kind and vendor.
func (p *Profile) find(kind, vendor string) *Accelerator {
	for i := range p.Accelerators {
		if a := &p.Accelerators[i]; a.Usable && a.Kind == kind && a.Vendor == vendor {
			return a
		}
	}
	return nil
}

// ErrProfile is the cause where a profile is not one, or says what cannot be.
var ErrProfile = errors.New("not a machine's profile")

// Read reads a profile that runtime probe --json has written.
func Read(r io.Reader) (*Profile, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxProfile+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxProfile {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrProfile, maxProfile)
	}
	p := new(Profile)
	if err := json.Unmarshal(raw, p); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrProfile, err)
	}
	if p.Form != form {
		return nil, fmt.Errorf(`%w: "profile" is %d, this version reads %d; runtime probe --json writes one`, ErrProfile, p.Form, form)
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProfile, err)
	}
	return p, nil
}

// check refuses numbers that cannot be, and texts that a terminal would obey.
func (p *Profile) check() error {
	for name, n := range map[string]int{"n_logical": p.CPU.Logical, "n_physical": p.CPU.Physical, "n_allowed": p.CPU.Allowed, "n_effective": p.CPU.Effective} {
		if n < 0 || n > maxCPUs {
			return fmt.Errorf("%s is %d, want 0 to %d", name, n, maxCPUs)
		}
	}
	sizes := map[string]int64{"memory total": p.Memory.Total, "memory available": p.Memory.Available, "cgroup_limit": p.Memory.Limit,
		"memory effective": p.Memory.Effective, "effective_available": p.Memory.Free}
	texts := []string{p.HostOS, p.Arch, p.Board, p.Jetson, p.CPU.Vendor, p.CPU.Model}
	texts = slices.Concat(texts, p.CPU.Flags, p.RenderNodes, p.AccelNodes, p.Unknown)
	for k, v := range p.Sources {
		texts = append(texts, k, v)
	}
	for i, a := range p.Accelerators {
		sizes[fmt.Sprintf("bytes of accelerator %d", i)] = a.Bytes
		texts = append(texts, a.Kind, a.Vendor, a.Name, a.Source, a.Reason, a.Driver, a.PCI, a.Slot, a.Node)
	}
	for _, z := range p.Thermal {
		texts = append(texts, z.Type)
	}
	for i, c := range p.CPU.Clusters {
		sizes[fmt.Sprintf("max_khz of cluster %d", i)] = c.MaxKHz
		texts = append(texts, c.CPUs)
	}
	for i, n := range p.CPU.Nodes {
		sizes[fmt.Sprintf("bytes of node %d", i)] = n.Bytes
		texts = append(texts, n.CPUs)
	}
	for name, n := range sizes {
		if n < 0 || n > maxMemory {
			return fmt.Errorf("%s is %d, want 0 to %d", name, n, maxMemory)
		}
	}
	if q := p.CPU.Quota; math.IsNaN(q) || q < 0 || q > maxCPUs {
		return fmt.Errorf("cpu_limit is %g, want 0 to %d", q, maxCPUs)
	}
	for _, s := range texts {
		if len(s) > 4*maxText || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return fmt.Errorf("%.40q… is too long for a name, or not printable", s)
		}
	}
	for _, n := range []int{len(p.Accelerators), len(p.Thermal), len(p.CPU.Clusters), len(p.CPU.Nodes), len(p.RenderNodes), len(p.AccelNodes), len(p.Unknown), len(p.Sources)} {
		if n > maxList {
			return fmt.Errorf("a list of %d, want %d at most", n, maxList)
		}
	}
	return nil
}
