package probe

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// npus are the NPUs that sit on PCI, by vendor:device.
var npus = map[string]string{"1022:1502": "AMD XDNA", "1022:17f0": "AMD XDNA 2", "8086:7d1d": "Intel NPU (Meteor Lake)", "8086:643e": "Intel NPU (Lunar Lake)"}

// hexagons are the versions of the NPU in Qualcomm's chips.
var hexagons = map[string]int{"sm8350": 68, "sm8450": 69, "sm8475": 69, "sm8550": 73, "sm8650": 75, "sm8750": 79, "sm8850": 81}

var vendors = map[string]string{"10de": "nvidia", "1002": "amd", "1022": "amd", "8086": "intel", "5143": "qualcomm"}

// accelerators looks for GPUs and NPUs.
func (r *reader) accelerators() {
	for _, name := range r.list("dev/dri", "renderD") {
		r.p.RenderNodes = append(r.p.RenderNodes, "/dev/dri/"+name)
	}
	for _, name := range r.list("dev/accel", "accel") {
		r.p.AccelNodes = append(r.p.AccelNodes, "/dev/accel/"+name)
	}
	r.p.RenderNodes, r.p.AccelNodes = r.p.RenderNodes[:min(len(r.p.RenderNodes), maxList)], r.p.AccelNodes[:min(len(r.p.AccelNodes), maxList)]
	const bus = "sys/bus/pci/devices"
	for _, slot := range r.list(bus, "") {
		if len(r.p.Accelerators) < maxList/2 {
			r.pci(slot, path.Join(bus, slot, "uevent"))
		}
	}
	r.jetson()
	r.phone()
	r.wsl()
	for i, a := range r.p.Accelerators {
		r.p.Accelerators[i].Node = r.renderNode(a.Slot)
	}
}

// pci looks at a device of the bus: its class is 03xxxx for displays.
func (r *reader) pci(slot, source string) {
	u := fields(r.raw(source), "=")
	id := strings.ToLower(u["PCI_ID"])
	vendor, device, _ := strings.Cut(id, ":")
	class, err := strconv.ParseUint(u["PCI_CLASS"], 16, 32)
	if err != nil {
		return
	}
	a := Accelerator{Vendor: vendors[vendor], Source: "/" + source, Driver: u["DRIVER"], PCI: id, Slot: slot}
	switch {
	case npus[id] != "":
		a.Kind, a.Name = NPU, npus[id]
		a.Reason = "no graphs are written for it: export writes those of phones"
		if a.Driver == "" {
			a.Reason = "no driver; and " + a.Reason
		}
	case class>>16 != 3 || a.Vendor == "":
		return
	case a.Vendor == "nvidia":
		r.nvidia(&a, device)
	default:
		a.Kind, a.Name = Discrete, a.Vendor+" GPU "+id
		if a.Vendor == "intel" && strings.HasSuffix(slot, ":00:02.0") || a.Vendor == "amd" && strings.Contains(r.p.CPU.Model, "Radeon") {
			a.Kind = Integrated
		}
		a.Bytes, _ = r.number(path.Join(path.Dir(source), "mem_info_vram_total"), maxMemory)
		a.Reason = "no path is for it; llama.cpp runs GGUF files there"
	}
	r.p.Accelerators = append(r.p.Accelerators, a)
}

// nvidia fills in what the driver says. Since Ampere, whose devices are 2080 to 20ff and from 2200 on, there is bfloat16.
func (r *reader) nvidia(a *Accelerator, device string) {
	a.Kind, a.Name, a.FP16 = Discrete, "NVIDIA GPU "+a.PCI, true
	if n, err := strconv.ParseUint(device, 16, 16); err == nil {
		a.BF16 = n >= 0x2200 || n >= 0x2080 && n < 0x2100
	}
	file := path.Join("proc/driver/nvidia/gpus", a.Slot, "information")
	f := fields(r.raw(file), ":")
	if f["Model"] != "" {
		a.Name, a.Source = f["Model"], "/"+file
	}
	minor, ok := parseNumber(f["Device Minor"], 255)
	node := "dev/nvidia" + strconv.FormatInt(minor, 10)
	switch {
	case a.Driver != "nvidia":
		a.Reason = "CUDA needs the driver nvidia, and the device has " + strconv.Quote(a.Driver)
	case !ok:
		a.Reason = "the driver says nothing in /" + file
	case f["GPU Excluded"] == "Yes":
		a.Reason = "excluded by the driver"
	case !r.exists(node):
		a.Reason = "no /" + node + ": a container must be given the GPU"
	default:
		a.Usable, a.Reason = true, "driver and device are there"
	}
}

// jetson adds the GPU of a Jetson, which shares the memory of the processors. Bfloat16 came with Orin.
func (r *reader) jetson() {
	if r.p.Jetson == "" {
		return
	}
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(r.compatible(), "nvidia,"+n) })
	}
	a := Accelerator{Kind: Integrated, Vendor: "nvidia", Name: r.p.Board, Usable: true, Source: r.p.Sources["jetson"], Driver: "nvgpu", FP16: true,
		BF16: has("tegra234", "tegra264"), Reason: "a Jetson's GPU, with the memory of the processors"}
	if a.Name == "" {
		a.Name = "Jetson"
	}
	r.p.Accelerators = append(r.p.Accelerators, a)
}

// phone adds the NPU of a Qualcomm phone.
func (r *reader) phone() {
	chip, source := "", deviceTree+"/compatible"
	for _, c := range r.compatible() {
		if name, ok := strings.CutPrefix(c, "qcom,"); ok && hexagons[name] > 0 {
			chip = name
		}
	}
	if chip == "" {
		source = "sys/devices/soc0/machine"
		if chip = strings.ToLower(r.text(source)); hexagons[chip] == 0 {
			return
		}
	}
	v := hexagons[chip]
	r.p.Accelerators = append(r.p.Accelerators, Accelerator{Kind: NPU, Vendor: "qualcomm", Name: "Hexagon v" + strconv.Itoa(v) + " of " + strings.ToUpper(chip),
		Usable: true, Source: "/" + source, HTP: v, Reason: "runs the graphs that export writes, once they are compiled on or for it"})
}

// wsl adds the GPU of a Windows host, of which WSL2 has libraries and a device without a name.
func (r *reader) wsl() {
	const lib = "usr/lib/wsl/lib/nvidia-smi"
	if r.p.HostOS != "wsl2" || !r.exists(lib) {
		return
	}
	a := Accelerator{Kind: Discrete, Vendor: "nvidia", Name: "GPU of the Windows host", Source: "/" + lib, Driver: "dxgkrnl", FP16: true,
		Usable: r.exists("dev/dxg"), Reason: "the host's driver is there; which GPU it is, no file says"}
	if !a.Usable {
		a.Reason = "no /dev/dxg"
	}
	r.p.Accelerators = append(r.p.Accelerators, a)
}

// renderNode returns the render node of a device of the bus.
func (r *reader) renderNode(slot string) string {
	for _, node := range r.p.RenderNodes {
		name := path.Base(node)
		if slot != "" && fields(r.raw(path.Join("sys/class/drm", name, "device/uevent")), "=")["PCI_SLOT_NAME"] == slot {
			return node
		}
	}
	return ""
}
