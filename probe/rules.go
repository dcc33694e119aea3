package probe

import (
	"fmt"
	"math"
	"strings"
)

// Class is a kind of machine, as far as builds are concerned.
type Class string

// The classes, in the order in which they are looked for.
const (
	NPUPhone     Class = "npu_phone"
	CUDAUnified  Class = "cuda_unified"
	CUDADiscrete Class = "cuda_discrete"
	ARM64CPU     Class = "arm64_cpu"
	X86CPU       Class = "x86_cpu"
	Other        Class = "other"
)

// Priorities.
const (
	Speed    = "speed"
	Fidelity = "fidelity"
)

// Class returns the class of a machine.
func (p *Profile) Class() Class {
	switch {
	case p.find(NPU, "qualcomm") != nil:
		return NPUPhone
	case p.find(Integrated, "nvidia") != nil:
		return CUDAUnified
	case p.find(Discrete, "nvidia") != nil:
		return CUDADiscrete
	case p.Arch == "arm64":
		return ARM64CPU
	case p.Arch == "amd64":
		return X86CPU
	}
	return Other
}

// Path is a way to a build, and what runs it.
type Path struct {
	Name      string  `json:"name"`
	Format    string  `json:"format"` // of quantize; npu and float are not
	Bits      float64 `json:"bits_per_weight"`
	Group     int     `json:"group_size"`
	Zero      string  `json:"zero"`
	Runs      string  `json:"runs_on"`
	Rationale string  `json:"rationale"`
	Notes     string  `json:"notes"`    // what else to know
	Verified  string  `json:"verified"` // by what; "" if by nothing
	Command   string  `json:"command"`
}

// bits are those of a 4-bit weight with a scale in bfloat16, and zero bits of zero point, in groups of g.
func bits(g int, zero float64) float64 { return 4 + (16+zero)/float64(g) }

// The paths.
var (
	tried = "vLLM 0.32 on AVX-512, log-probabilities against a float32 run of the weights"
	graph = Path{"npu-w8a16", "npu", 8, 0, "symmetric", "Qualcomm's Hexagon NPU",
		"int8 weights with 16-bit activations are what a phone's NPU multiplies at full speed without a loss that shows",
		"ranges come from calibration: give export --calib text like that of later use; 8-bit activations lose everything, and 4-bit weights gain no time", "", "export MODEL --target npu"}
	bf16 = Path{"cuda-bf16", "float", 16, 0, "", "vLLM or transformers with CUDA",
		"the GPU multiplies bfloat16 itself, so the checkpoint as it is loses nothing; quantize only if it does not fit", whole, "", ""}
	fp16 = Path{"cuda-fp16", "float", 16, 0, "", "vLLM or transformers with CUDA",
		"the GPU has half floats and no bfloat16: load the checkpoint as float16; quantize only if it does not fit", whole, "", ""}
	gpuGPTQ = Path{"vllm-gpu-gptq", "gptq", bits(128, 4), 128, "symmetric", "vLLM with CUDA, Marlin",
		"a quarter of the memory of bfloat16, by the kernels that vLLM has for 4-bit weights on a GPU", symmetric, "", "quantize MODEL --format gptq --group 128 --target-loader vllm-gpu"}
	gpuAWQ = Path{"vllm-gpu-awq", "awq", bits(128, 4), 128, "integer", "vLLM with CUDA, Marlin",
		"like GPTQ, with a zero point in every group, which loses a little less in the same number of bits", oneSetting, "", "quantize MODEL --format awq --group 128 --target-loader vllm-gpu"}
	w4a8 = Path{"vllm-awq-w4a8", "awq", bits(128, 4), 128, "integer", "vLLM on a CPU with AMX",
		"with AMX vLLM computes 4-bit layers with int8 activations, and a grid with zero points loses less than one without",
		"for bfloat16 activations, while VLLM_CPU_INT4_W4A8 is not 0; quantize the head too, a head in bfloat16 takes a large part of a step", "", "quantize MODEL --format awq --group 128"}
	gptq = Path{"vllm-gptq", "gptq", bits(128, 4), 128, "symmetric", "vLLM on a CPU",
		"symmetric weights for stock vLLM, which takes them in the same kernels as those with zero points", symmetric, tried, "quantize MODEL --format gptq --group 128"}
	awq = Path{"vllm-awq", "awq", bits(128, 4), 128, "integer", "vLLM on a CPU",
		"for stock vLLM, which does not know cpu_int4: integer zero points, next best in the same number of bits", vectors, tried, "quantize MODEL --format awq --group 128"}
	packed = Path{"vllm-compressed-tensors", "compressed-tensors", bits(128, 0), 128, "symmetric", "vLLM on a CPU",
		"for stock vLLM with single modules in other settings, and no zero points to store", vectors, tried, "quantize MODEL --format compressed-tensors --group 128"}
	fork128 = Path{"cpu_int4-g128", "cpu_int4", bits(128, 16), 128, "float", "the vLLM-Omni fork on a CPU",
		"a float zero per group loses least of all 4-bit grids, and the embedding is quantized too, so fewest bytes are read", fork, "", "quantize MODEL --format cpu_int4 --group 128"}
	fork64 = Path{"cpu_int4-g64", "cpu_int4", bits(64, 16), 64, "float", "the vLLM-Omni fork on a CPU",
		"a float zero in groups of 64 loses least of all builds here, for a quarter of a bit more per weight", fork, "", "quantize MODEL --format cpu_int4 --group 64"}
	llama = Path{"gguf-q4_k_m", "gguf", 5.16, 32, "float", "llama.cpp on anything",
		"for who runs llama.cpp: most of the matrices in Q4_K, those that cost most in Q6_K, which makes the file larger",
		"the bits are those of the whole file of a model of 1.7 billion weights; blocks of Q4_K alone have 4.5", "sizes and losses of llama-quantize's files, docs/gguf.md",
		"quantize MODEL --format gguf --type q4_k_m"}
)

// What several paths have to be said of.
const (
	whole      = "weights take two bytes each; where they do not fit, 4 bits take a quarter"
	symmetric  = "vLLM refuses 4-bit GPTQ with zero points: those need awq or compressed-tensors"
	oneSetting = "one group size for all modules"
	vectors    = "without AMX vLLM computes it with vectors: for one sequence of a small model that was no faster than bfloat16"
	fork       = "stock vLLM does not read it; prefill_dequant and direct_dequant in its config trade memory against the speed of prompts"
)

// rules is the table: the first line that fits decides. Its first path is the choice, the others are alternatives.
var rules = []struct {
	class    Class
	priority string // "": either
	flags    []string
	bf16     bool // the accelerator must have it
	why      string
	paths    []Path
}{
	{NPUPhone, "", nil, false, "the NPU of a phone runs graphs, not checkpoints", []Path{graph, llama}},
	{CUDAUnified, "", nil, true, "a GPU with bfloat16 needs no quantization", []Path{bf16, gpuGPTQ, gpuAWQ, llama}},
	{CUDAUnified, "", nil, false, "a GPU with half floats needs no quantization", []Path{fp16, gpuGPTQ, gpuAWQ, llama}},
	{CUDADiscrete, "", nil, true, "a GPU with bfloat16 needs no quantization", []Path{bf16, gpuGPTQ, gpuAWQ, llama}},
	{CUDADiscrete, "", nil, false, "a GPU without bfloat16, as far as is known, needs no quantization", []Path{fp16, gpuGPTQ, gpuAWQ, llama}},
	{ARM64CPU, Fidelity, nil, false, "least loss; not measured on Arm", []Path{fork64, llama}},
	{ARM64CPU, "", nil, false, "fewest bytes; not measured on Arm", []Path{fork128, llama}},
	// What counts is int8 in tiles: amx_bf16 alone would not do.
	{X86CPU, Speed, []string{"amx_tile", "amx_int8"}, false, "AMX multiplies int8 several times faster than vectors do", []Path{w4a8, gptq, fork64, llama}},
	{X86CPU, Fidelity, []string{"avx2"}, false, "least loss", []Path{fork64, awq, packed, llama}},
	{X86CPU, "", []string{"avx2"}, false, "fewest bytes, for decoding waits for memory", []Path{fork128, awq, packed, llama}},
	{X86CPU, "", nil, false, "no AVX2, or flags unknown: only llama.cpp runs everywhere", []Path{llama}},
	{Other, "", nil, false, "nothing else runs on such a processor", []Path{llama}},
}

// Selection is what suits a machine.
type Selection struct {
	Class        Class   `json:"class"`
	Priority     string  `json:"priority"`
	Why          string  `json:"why"`
	Choice       Path    `json:"choice"`
	Alternatives []Path  `json:"alternatives"`
	Largest      float64 `json:"largest_model"` // see Profile.Largest; of the choice
}

// Select finds the build for a machine: the first rule of its class and of the priority, which is Speed or Fidelity.
func Select(p *Profile, priority string) (*Selection, error) {
	if priority != Speed && priority != Fidelity {
		return nil, fmt.Errorf("priority %q: want %s or %s", priority, Speed, Fidelity)
	}
	class := p.Class()
	for _, x := range rules {
		if x.class != class || x.priority != "" && x.priority != priority || !p.Has(x.flags...) || x.bf16 && !p.gpuBF16() {
			continue
		}
		s := &Selection{class, priority, x.why, x.paths[0], append([]Path{}, x.paths[1:]...), p.Largest(x.paths[0])}
		if a := p.find(NPU, "qualcomm"); class == NPUPhone && a.HTP > 0 && a.HTP < 73 {
			s.Choice.Command = strings.TrimSpace(s.Choice.Command) + " --kv uint8" // int16 caches came with 73
		}
		return s, nil
	}
	return nil, fmt.Errorf("no build for a machine of class %s", class) // cannot be: every class has a last line
}

// Largest is how many thousand millions of weights of a path fill the memory that is available, with nothing else in it; 0 where that is unknown,
// or a GPU has memory of its own.
func (p *Profile) Largest(x Path) float64 {
	if p.Class() == CUDADiscrete {
		return 0
	}
	return math.Floor(float64(p.Memory.Free)/x.Bits*8/1e8) / 10
}

// gpuBF16 reports whether a usable GPU multiplies bfloat16.
func (p *Profile) gpuBF16() bool {
	for _, a := range p.Accelerators {
		if a.Usable && a.BF16 {
			return true
		}
	}
	return false
}
