package probe

import (
	"fmt"
	"strings"
	"testing/fstest"
)

// The snapshots are made up after what machines of each kind have in these files. Only what decides is in them.

// x86 are n processors with flags, two threads a core if threads is 2.
func x86(m fstest.MapFS, n, threads int, vendor, model, flags string) {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "processor\t: %d\nvendor_id\t: %s\nmodel name\t: %s\nphysical id\t: 0\ncore id\t\t: %d\nflags\t\t: fpu lm %s\n\n", i, vendor, model, i/threads, flags)
		put(m, fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/core_id", i), fmt.Sprint(i/threads))
		put(m, fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/physical_package_id", i), "0")
	}
	put(m, "proc/cpuinfo", b.String())
	put(m, "sys/devices/system/cpu/online", fmt.Sprintf("0-%d\n", n-1))
	put(m, "proc/sys/kernel/osrelease", "6.12.9\n")
}

// arm are processors of the given parts, with a highest frequency each.
func arm(m fstest.MapFS, features string, parts []string, khz []int) {
	var b strings.Builder
	for i, part := range parts {
		fmt.Fprintf(&b, "processor\t: %d\nBogoMIPS\t: 38.40\nFeatures\t: fp asimd %s\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: %s\n\n", i, features, part)
		put(m, fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpufreq/cpuinfo_max_freq", i), fmt.Sprintf("%d\n", khz[i]))
		put(m, fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/core_id", i), fmt.Sprint(i))
		put(m, fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/physical_package_id", i), "0")
	}
	put(m, "proc/cpuinfo", b.String())
	put(m, "proc/sys/kernel/osrelease", "6.6.30\n")
}

func put(m fstest.MapFS, name, content string) { m[name] = &fstest.MapFile{Data: []byte(content)} }

func memory(m fstest.MapFS, totalKB, availableKB int) {
	put(m, "proc/meminfo", fmt.Sprintf("MemTotal:       %d kB\nMemFree:        1 kB\nMemAvailable:   %d kB\n", totalKB, availableKB))
}

func pci(m fstest.MapFS, slot, class, id, driver string) {
	put(m, "sys/bus/pci/devices/"+slot+"/uevent", fmt.Sprintf("DRIVER=%s\nPCI_CLASS=%s\nPCI_ID=%s\nPCI_SLOT_NAME=%s\n", driver, class, id, slot))
}

const (
	avx2Flags   = "fma f16c avx2"
	avx512Flags = avx2Flags + " avx512f avx512bw avx512vl avx512dq avx512_vnni"
	amxFlags    = avx512Flags + " avx512_bf16 avx_vnni amx_bf16 amx_tile amx_int8"
)

// machines are the snapshots, by name.
var machines = map[string]func(m fstest.MapFS){
	"amx-server": func(m fstest.MapFS) {
		x86(m, 8, 2, "GenuineIntel", "Intel(R) Xeon(R) Platinum 8480C", amxFlags)
		memory(m, 131072000, 120000000)
		for i := range 2 {
			put(m, fmt.Sprintf("sys/devices/system/node/node%d/cpulist", i), fmt.Sprintf("%d-%d\n", 4*i, 4*i+3))
			put(m, fmt.Sprintf("sys/devices/system/node/node%d/meminfo", i), fmt.Sprintf("Node %d MemTotal:       65536000 kB\n", i))
		}
	},
	"avx512-client": func(m fstest.MapFS) {
		x86(m, 4, 2, "AuthenticAMD", "AMD Ryzen 5 7640U w/ Radeon 760M Graphics", avx512Flags+" avx512_bf16")
		memory(m, 16000000, 9000000)
		pci(m, "0000:c1:00.0", "30000", "1002:15BF", "amdgpu")
		pci(m, "0000:c2:00.1", "118000", "1022:1502", "amdxdna")
		put(m, "dev/accel/accel0", "")
	},
	"avx2-laptop": func(m fstest.MapFS) {
		x86(m, 4, 2, "GenuineIntel", "Intel(R) Core(TM) i5-7200U CPU @ 2.50GHz", avx2Flags)
		memory(m, 8000000, 5000000)
		pci(m, "0000:00:02.0", "30000", "8086:5916", "i915")
		put(m, "dev/dri/renderD128", "")
		put(m, "sys/class/drm/renderD128/device/uevent", "PCI_SLOT_NAME=0000:00:02.0\n")
		put(m, "sys/class/thermal/thermal_zone0/type", "x86_pkg_temp\n")
		put(m, "sys/class/thermal/thermal_zone0/temp", "48500\n")
	},
	"hybrid": func(m fstest.MapFS) {
		x86(m, 6, 1, "GenuineIntel", "Intel(R) Core(TM) Ultra 7 155H", avx2Flags+" avx_vnni")
		memory(m, 32000000, 20000000)
		for i := range 6 {
			put(m, fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpufreq/cpuinfo_max_freq", i), map[bool]string{true: "4800000", false: "3800000"}[i < 2])
		}
		pci(m, "0000:00:0b.0", "120000", "8086:7D1D", "")
	},
	"arm-server": func(m fstest.MapFS) {
		arm(m, "asimdhp asimddp sve i8mm bf16 sve2", []string{"0xd4f", "0xd4f"}, []int{3000000, 3000000})
		memory(m, 64000000, 60000000)
	},
	"raspberry-pi": func(m fstest.MapFS) {
		arm(m, "asimdhp asimddp", []string{"0xd0b", "0xd0b", "0xd0b", "0xd0b"}, []int{2400000, 2400000, 2400000, 2400000})
		memory(m, 8000000, 7000000)
		put(m, deviceTree+"/model", "Raspberry Pi 5 Model B Rev 1.0\x00")
		put(m, deviceTree+"/compatible", "raspberrypi,5-model-b\x00brcm,bcm2712\x00")
	},
	"jetson": func(m fstest.MapFS) {
		arm(m, "asimdhp asimddp", []string{"0xd42", "0xd42"}, []int{2200000, 2200000})
		memory(m, 32000000, 28000000)
		put(m, "etc/nv_tegra_release", "# R36 (release), REVISION: 4.0\n")
		put(m, deviceTree+"/model", "NVIDIA Jetson AGX Orin Developer Kit\x00")
		put(m, deviceTree+"/compatible", "nvidia,p3737-0000+p3701-0005\x00nvidia,tegra234\x00")
	},
	"phone": func(m fstest.MapFS) {
		arm(m, "asimdhp asimddp i8mm bf16", []string{"0xd80", "0xd80", "0xd81", "0xd82"}, []int{2300000, 2300000, 3200000, 3400000})
		memory(m, 12000000, 6000000)
		put(m, "sys/devices/soc0/machine", "SM8650\n")
	},
	"gpu-host": func(m fstest.MapFS) {
		x86(m, 4, 2, "AuthenticAMD", "AMD EPYC 7543", avx2Flags)
		memory(m, 256000000, 250000000)
		pci(m, "0000:41:00.0", "30200", "10DE:20B5", "nvidia")
		put(m, "proc/driver/nvidia/gpus/0000:41:00.0/information", "Model: \t\t NVIDIA A100 80GB PCIe\nDevice Minor: \t 0\nGPU Excluded:\t No\n")
		put(m, "dev/nvidia0", "")
	},
	"gpu-without-device": func(m fstest.MapFS) { // in a container that was not given it
		x86(m, 4, 2, "AuthenticAMD", "AMD EPYC 7543", avx2Flags)
		memory(m, 256000000, 250000000)
		pci(m, "0000:41:00.0", "30200", "10DE:20B5", "nvidia")
		put(m, "proc/driver/nvidia/gpus/0000:41:00.0/information", "Model: \t\t NVIDIA A100 80GB PCIe\nDevice Minor: \t 0\nGPU Excluded:\t No\n")
	},
	"wsl2": func(m fstest.MapFS) {
		x86(m, 4, 2, "GenuineIntel", "Intel(R) Core(TM) i7-12700H", avx2Flags+" avx_vnni")
		memory(m, 16000000, 12000000)
		put(m, "proc/sys/kernel/osrelease", "5.15.167.4-microsoft-standard-WSL2\n")
	},
	"container": func(m fstest.MapFS) {
		x86(m, 16, 2, "AuthenticAMD", "AMD EPYC 9654", amxFlags[:len(avx512Flags)])
		memory(m, 128000000, 100000000)
		put(m, "proc/self/cgroup", "0::/pod/job\n")
		put(m, "proc/self/status", "Name:\tprobe\nCpus_allowed_list:\t0-7\n")
		put(m, "sys/fs/cgroup/pod/memory.max", "8589934592\n")
		put(m, "sys/fs/cgroup/pod/memory.current", "3959422976\n")
		put(m, "sys/fs/cgroup/pod/memory.stat", "anon 1\nfile 1610612736\ninactive_file 1073741824\nactive_file 536870912\nslab_reclaimable 201326592\n")
		put(m, "sys/fs/cgroup/pod/job/memory.max", "max\n")
		put(m, "sys/fs/cgroup/pod/job/cpu.max", "250000 100000\n")
	},
	"container-v1": func(m fstest.MapFS) {
		x86(m, 4, 1, "GenuineIntel", "Intel(R) Xeon(R) CPU", avx512Flags)
		memory(m, 32000000, 30000000)
		put(m, "proc/self/cgroup", "4:memory:/docker/ab\n3:cpu,cpuacct:/docker/ab\n")
		put(m, "sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n") // the container's own root
		put(m, "sys/fs/cgroup/memory/memory.usage_in_bytes", "1610612736\n")
		put(m, "sys/fs/cgroup/memory/memory.stat", "inactive_file 1\nactive_file 2\ntotal_inactive_file 134217728\ntotal_active_file 402653184\n")
		put(m, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n")
		put(m, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
	},
	"nothing": func(fstest.MapFS) {},
}

func snapshot(name string) fstest.MapFS {
	m := fstest.MapFS{}
	machines[name](m)
	return m
}
