package probe

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
)

// TestMachines holds what is derived of every snapshot against what a person reads in it.
func TestMachines(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		machine           string
		arch, model       string
		flags             string
		cores, processors int // physical ones, and those that may be used
		memory, free      int64
		class             Class
		speed, fidelity   string // the choices
		bf16              bool
		accelerator       string // kind, vendor and whether the first is usable
	}{
		{"amx-server", "amd64", "Intel(R) Xeon(R) Platinum 8480C", "avx2 avx512 avx512_bf16 avx512_vnni avx_vnni amx_bf16 amx_tile amx_int8 fma f16c", 4, 8,
			131072000 << 10, 120000000 << 10, X86CPU, "vllm-awq-w4a8", "cpu_int4-g64", true, ""},
		{"avx512-client", "amd64", "AMD Ryzen 5 7640U w/ Radeon 760M Graphics", "avx2 avx512 avx512_bf16 avx512_vnni fma f16c", 2, 4,
			16000000 << 10, 9000000 << 10, X86CPU, "cpu_int4-g128", "cpu_int4-g64", true, "gpu_integrated amd false"},
		{"avx2-laptop", "amd64", "Intel(R) Core(TM) i5-7200U CPU @ 2.50GHz", "avx2 fma f16c", 2, 4,
			8000000 << 10, 5000000 << 10, X86CPU, "cpu_int4-g128", "cpu_int4-g64", false, "gpu_integrated intel false"},
		{"hybrid", "amd64", "Intel(R) Core(TM) Ultra 7 155H", "avx2 avx_vnni fma f16c", 6, 6,
			32000000 << 10, 20000000 << 10, X86CPU, "cpu_int4-g128", "cpu_int4-g64", false, "npu intel false"},
		{"arm-server", "arm64", "Neoverse-V2", "neon fp16_arith dotprod i8mm bf16 sve sve2", 2, 2,
			64000000 << 10, 60000000 << 10, ARM64CPU, "cpu_int4-g128", "cpu_int4-g64", true, ""},
		{"raspberry-pi", "arm64", "Cortex-A76", "neon fp16_arith dotprod", 4, 4,
			8000000 << 10, 7000000 << 10, ARM64CPU, "cpu_int4-g128", "cpu_int4-g64", false, ""},
		{"jetson", "arm64", "Cortex-A78AE", "neon fp16_arith dotprod", 2, 2,
			32000000 << 10, 28000000 << 10, CUDAUnified, "cuda-bf16", "cuda-bf16", true, "gpu_integrated nvidia true"},
		{"phone", "arm64", "Cortex-A520, Cortex-A720, Cortex-X4", "neon fp16_arith dotprod i8mm bf16", 4, 4,
			12000000 << 10, 6000000 << 10, NPUPhone, "npu-w8a16", "npu-w8a16", true, "npu qualcomm true"},
		{"gpu-host", "amd64", "AMD EPYC 7543", "avx2 fma f16c", 2, 4,
			256000000 << 10, 250000000 << 10, CUDADiscrete, "cuda-bf16", "cuda-bf16", true, "gpu_discrete nvidia true"},
		{"gpu-without-device", "amd64", "AMD EPYC 7543", "avx2 fma f16c", 2, 4,
			256000000 << 10, 250000000 << 10, X86CPU, "cpu_int4-g128", "cpu_int4-g64", false, "gpu_discrete nvidia false"},
		{"wsl2", "amd64", "Intel(R) Core(TM) i7-12700H", "avx2 avx_vnni fma f16c", 2, 4,
			16000000 << 10, 12000000 << 10, X86CPU, "cpu_int4-g128", "cpu_int4-g64", false, ""},
		// 2.5 processors' worth of time are two threads; of 8 GiB 3 are used, one of them by files that can go.
		{"container", "amd64", "AMD EPYC 9654", "avx2 avx512 avx512_vnni fma f16c", 8, 2, 8 * gib, 6 * gib, X86CPU, "cpu_int4-g128", "cpu_int4-g64", false, ""},
		{"container-v1", "amd64", "Intel(R) Xeon(R) CPU", "avx2 avx512 avx512_vnni fma f16c", 4, 1, 2 * gib, 1 * gib, X86CPU, "cpu_int4-g128", "cpu_int4-g64", false, ""},
		{"nothing", "", "", "", 0, 0, 0, 0, Other, "gguf-q4_k_m", "gguf-q4_k_m", false, ""},
	} {
		t.Run(c.machine, func(t *testing.T) {
			p := Probe(snapshot(c.machine))
			got := []any{p.Arch, p.CPU.Model, strings.Join(p.CPU.Flags, " "), p.CPU.Physical, p.CPU.Effective, p.Memory.Effective, p.Memory.Free, p.Class(), p.BF16}
			want := []any{c.arch, c.model, c.flags, c.cores, c.processors, c.memory, c.free, c.class, c.bf16}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
			accelerator := ""
			if len(p.Accelerators) > 0 {
				a := p.Accelerators[0]
				accelerator = a.Kind + " " + a.Vendor + " " + map[bool]string{true: "true", false: "false"}[a.Usable]
				if a.Reason == "" || a.Source == "" || a.Name == "" {
					t.Errorf("an accelerator without name, reason or source: %+v", a)
				}
			}
			if accelerator != c.accelerator {
				t.Errorf("the accelerator is %q, want %q", accelerator, c.accelerator)
			}
			for priority, name := range map[string]string{Speed: c.speed, Fidelity: c.fidelity} {
				s, err := Select(p, priority)
				if err != nil {
					t.Fatal(err)
				}
				if s.Choice.Name != name {
					t.Errorf("%s: %s, want %s", priority, s.Choice.Name, name)
				}
			}
			raw, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := Read(bytes.NewReader(raw)); err != nil || !reflect.DeepEqual(again, p) {
				t.Errorf("read again: %v\n%+v\n%+v", err, again, p)
			}
		})
	}
}

// TestDetails looks at what only some machines have.
func TestDetails(t *testing.T) {
	for _, c := range []struct {
		machine, what string
		got           func(p *Profile) any
		want          any
	}{
		{"amx-server", "NUMA nodes", func(p *Profile) any { return p.CPU.Nodes }, []Node{{0, "0-3", 4, 65536000 << 10}, {1, "4-7", 4, 65536000 << 10}}},
		{"hybrid", "clusters", func(p *Profile) any { return p.CPU.Clusters }, []Cluster{{"0-1", 2, 4800000}, {"2-5", 4, 3800000}}},
		{"phone", "clusters", func(p *Profile) any { return p.CPU.Clusters }, []Cluster{{"3", 1, 3400000}, {"2", 1, 3200000}, {"0-1", 2, 2300000}}},
		{"phone", "the NPU's version", func(p *Profile) any { return p.Accelerators[0].HTP }, 75},
		{"raspberry-pi", "board", func(p *Profile) any { return p.Board }, "Raspberry Pi 5 Model B Rev 1.0"},
		{"jetson", "release", func(p *Profile) any { return p.Jetson }, "R36 (release), REVISION: 4.0"},
		{"wsl2", "system", func(p *Profile) any { return p.HostOS }, "wsl2"},
		{"avx2-laptop", "render node", func(p *Profile) any { return p.Accelerators[0].Node }, "/dev/dri/renderD128"},
		{"avx2-laptop", "temperature", func(p *Profile) any { return p.Thermal }, []Zone{{"x86_pkg_temp", 48.5}}},
		{"avx512-client", "the NPU", func(p *Profile) any { return p.Accelerators[1].Name }, "AMD XDNA"},
		{"avx512-client", "its device", func(p *Profile) any { return p.AccelNodes }, []string{"/dev/accel/accel0"}},
		{"container", "limit of time", func(p *Profile) any { return p.CPU.Quota }, 2.5},
		{"container", "processors allowed", func(p *Profile) any { return p.CPU.Allowed }, 8},
		{"container-v1", "limit of memory", func(p *Profile) any { return p.Memory.Limit }, int64(2 << 30)},
		// 6 GiB by 4.25 bits; 6,144,000,000 bytes by 8 bits; a GPU has its own.
		{"container", "largest model", func(p *Profile) any { return p.Largest(fork128) }, 12.1},
		{"phone", "largest model", func(p *Profile) any { return p.Largest(graph) }, 6.1},
		{"gpu-host", "largest model", func(p *Profile) any { return p.Largest(bf16) }, 0.0},
		{"nothing", "largest model", func(p *Profile) any { return p.Largest(llama) }, 0.0},
	} {
		if got := c.got(Probe(snapshot(c.machine))); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %s: %v, want %v", c.machine, c.what, got, c.want)
		}
	}
}

// Every line of the table is reached or is the last of its class; every path argues for itself, and its bits are those of its grid:
// four, a scale in bfloat16 for a group, and a zero point of 4 bits, or in bfloat16, or none. Those of llama.cpp are of a whole file: Q4_K_M of
// Spark-X2.5-1.7B has 1,102,073,856 bytes of tensors for 1,707,657,216 weights.
func TestRules(t *testing.T) {
	bits := map[string]float64{"npu-w8a16": 8, "cuda-bf16": 16, "cuda-fp16": 16, "vllm-gpu-gptq": 4.15625, "vllm-gpu-awq": 4.15625, "vllm-awq-w4a8": 4.15625,
		"vllm-gptq": 4.15625, "vllm-awq": 4.15625, "vllm-compressed-tensors": 4.125, "cpu_int4-g128": 4.25, "cpu_int4-g64": 4.5, "gguf-q4_k_m": 5.16}
	seen := map[string]bool{}
	for i, x := range rules {
		if x.why == "" || len(x.paths) == 0 {
			t.Errorf("line %d says nothing", i)
		}
		for _, y := range x.paths {
			seen[y.Name] = true
			if len(y.Rationale) < 40 || y.Notes == "" || y.Runs == "" || y.Bits != bits[y.Name] || y.Command == "" != (y.Format == "float") {
				t.Errorf("line %d: %+v", i, y)
			}
		}
	}
	if !strings.Contains(graph.Notes, "calibration") {
		t.Error("a phone's build has to be calibrated, and its notes do not say so")
	}
	if len(seen) != len(bits) {
		t.Errorf("%d paths, want %d", len(seen), len(bits))
	}
	if _, err := Select(new(Profile), "size"); err == nil {
		t.Error("there is no priority of size")
	}
}

// TestRead refuses what no machine is.
func TestRead(t *testing.T) {
	for _, text := range []string{"", "{}", `{"profile":2}`, `{"profile":1,"cpu":{"n_logical":-1}}`, `{"profile":1,"memory":{"total":-5}}`,
		`{"profile":1,"board":"\u001b[2J"}`, `{"profile":1,"cpu":{"cpu_limit":1e9}}`, `{"profile":1,"memory":{"total":2251799813685248}}`} {
		if _, err := Read(strings.NewReader(text)); !errors.Is(err, ErrProfile) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Files may say anything: what comes of them is a profile that can be written, read and decided by.
func FuzzProbe(f *testing.F) {
	for name := range machines {
		m := snapshot(name)
		f.Add(read(m, "proc/cpuinfo"), read(m, "proc/meminfo"), read(m, "proc/self/cgroup"), read(m, "sys/fs/cgroup/pod/job/cpu.max"), read(m, "sys/devices/system/cpu/online"))
	}
	f.Fuzz(func(t *testing.T, cpuinfo, meminfo, cgroup, limit, online string) {
		m := fstest.MapFS{}
		for name, content := range map[string]string{"proc/cpuinfo": cpuinfo, "proc/meminfo": meminfo, "proc/self/cgroup": cgroup,
			"sys/fs/cgroup/cpu.max": limit, "sys/fs/cgroup/memory.max": limit, "sys/devices/system/cpu/online": online,
			"sys/bus/pci/devices/0/uevent": cgroup, "sys/firmware/devicetree/base/compatible": meminfo} {
			put(m, name, content)
		}
		p := Probe(m)
		if math.IsNaN(p.CPU.Quota) || p.CPU.Effective < 0 || p.Memory.Free < 0 {
			t.Fatalf("%+v", p)
		}
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Read(bytes.NewReader(raw)); err != nil {
			t.Fatalf("%v\n%s", err, raw)
		}
		for _, priority := range []string{Speed, Fidelity} {
			if _, err := Select(p, priority); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func read(m fstest.MapFS, name string) string {
	if f := m[name]; f != nil {
		return string(f.Data)
	}
	return ""
}
