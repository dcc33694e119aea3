package loader

import "cmp"

// Kind is a fault of a checkpoint that a loader does not report.
type Kind string

// The faults. The figures are the largest and the mean error of a log-probability in vLLM 0.32 on CPU.
const (
	// MoreGroups: the tensors of o_proj or down_proj have finer groups than the config says, or a rule of dynamic did
	// not match. The row-parallel loader narrows scales and zeros to the count it expects: 4.3 and 0.74, awq 8.0 and
	// 1.5. Other modules are refused, without a text.
	MoreGroups Kind = "more groups than the config says"
	// FewerGroups is refused.
	FewerGroups Kind = "fewer groups than the config says"
	// RaggedGroup: K is no multiple of the group size. In o_proj and down_proj of a GPTQ file vLLM takes K/g groups,
	// rounded down, and a wrong length: 1.8 and 0.27.
	RaggedGroup Kind = "columns are not a multiple of the group size"
	// OtherBits: the codes have another width than the config says. Surplus words of o_proj and down_proj are cut off,
	// like surplus groups; a lack of words and other modules are refused.
	OtherBits Kind = "codes of another width than the config says"
	// NoScales: uninitialised memory, NaN.
	NoScales Kind = "scales are missing"
	// NoCodes: uninitialised memory, 13.9 and 1.8.
	NoCodes Kind = "codes are missing"
	// NoModule: a matrix without any tensor is uninitialised memory, 6.3 and 1.0. A part of a fused GPTQ matrix is
	// missed.
	NoModule Kind = "the module is missing"
	// NoZeros: AWQ's zero points are uninitialised memory, 8.8 and 1.2.
	NoZeros Kind = "qzeros are missing"
	// NoZeroPoints: an asymmetric module of compressed-tensors is decoded with zero points of 0, 13.8 and 2.8.
	NoZeroPoints Kind = "zero points are missing"
	// SignedZeros: zero points of compressed-tensors packed as signed nibbles, without 8 added, are used as they are:
	// 15 and 2.9.
	SignedZeros Kind = "zero points are packed as signed"
	// AsymmetricGPTQ: under sym:true vLLM takes 8 for every zero point and never reads qzeros: 13.1 and 2.7.
	AsymmetricGPTQ Kind = "asymmetric codes under sym:true"
	// AsymmetricAWQ: the same under zero_point:false, 12.6 and 2.7.
	AsymmetricAWQ Kind = "asymmetric codes under zero_point:false"
	// ActOrder: vLLM drops g_idx by its name, so groups in activation order are taken for natural ones: 5.3 and 1.0.
	ActOrder Kind = "activation order that the config does not announce"
	// ExtraBias: the bias of a module whose class has none is dropped, 7.6 and 1.3.
	ExtraBias Kind = "a bias that the architecture has not"
	// ScaleRange: a scale above 65504 is infinite in a model served in float16, and its weights NaN.
	ScaleRange Kind = "a scale beyond the range of float16"
	// NonFinite: a scale or zero that is infinite or NaN.
	NonFinite Kind = "a scale that is not finite"
	// HeadOnly: a tied model that stores its table under the head's name gets an embedding of zeros, so that every
	// token is equally likely.
	HeadOnly Kind = "the embedding is stored as the head"
	// Int8Ignored: 4-bit weights that ask for int8 activations run with 16-bit ones, which is better than declared.
	Int8Ignored Kind = "int8 activations that are not used"
	// LostZero: auto-round stores a v1 zero point of 0 as if it were 1, so that such a group is off by one step.
	LostZero Kind = "zero points that auto-round may have lost"
	// OtherZeros: the constant zero points are those of the other GPTQ convention. Only loaders that read qzeros of a
	// symmetric file see it: GPTQModel, and vLLM for experts.
	OtherZeros Kind = "zero points of the other convention"
	// Broken: tensors that do not fit together. Row-parallel ones are narrowed like MoreGroups, others refused.
	Broken Kind = "tensors that do not fit together"
)

// effects says what becomes of a fault that is not reported. A finding of a module where it is reported says that.
var effects = map[Kind]string{
	MoreGroups:     "vLLM drops the surplus groups and computes with wrong scales",
	FewerGroups:    "vLLM refuses it",
	OtherBits:      "vLLM cuts off what it does not expect and decodes the rest wrongly",
	RaggedGroup:    "vLLM rounds the number of groups down and computes with wrong scales",
	NoScales:       "vLLM computes with uninitialised memory",
	NoCodes:        "vLLM computes with uninitialised memory",
	NoModule:       "vLLM computes with uninitialised memory",
	NoZeros:        "vLLM computes with uninitialised memory",
	NoZeroPoints:   "vLLM takes all zero points for 0",
	SignedZeros:    "vLLM is off by 8 in every zero point",
	AsymmetricGPTQ: "vLLM takes all zero points for 8",
	AsymmetricAWQ:  "vLLM takes all zero points for 8",
	ActOrder:       "vLLM ignores it and computes with the scales of other groups",
	ExtraBias:      "vLLM drops it",
	ScaleRange:     "in float16 it is infinite and the weights are NaN",
	NonFinite:      "the weights of its group are NaN",
	HeadOnly:       "vLLM leaves the embedding zero",
	Int8Ignored:    "vLLM computes with 16-bit activations",
	LostZero:       "groups whose zero point was 0 are off by one step, in every loader",
	OtherZeros:     "GPTQModel and transformers are off by one step; vLLM ignores it",
	Broken:         "vLLM refuses it",
}

// Finding is a fault in a checkpoint.
type Finding struct {
	Kind   Kind   `json:"kind"`
	Module string `json:"module"` // "" for the whole checkpoint
	Tensor string `json:"tensor"` // "" if it is not one tensor's
	Detail string `json:"detail"` // the figures
	Effect string `json:"effect"` // what a loader makes of it
	Wrong  bool   `json:"wrong"`  // results are wrong without a word
	Note   bool   `json:"note"`   // it is only worth knowing; what is neither contradicts itself, and a loader says so
}

// String is the finding in one line.
func (f Finding) String() string {
	text := string(f.Kind)
	if name := cmp.Or(f.Tensor, f.Module); name != "" {
		text = name + ": " + text
	}
	if f.Detail != "" {
		text += ": " + f.Detail
	}
	if f.Effect != "" {
		text += "; " + f.Effect
	}
	return text
}

func newFinding(k Kind, module, tensor, detail string) Finding {
	return Finding{Kind: k, Module: module, Tensor: tensor, Detail: detail, Effect: effects[k], Wrong: true}
}

// refused turns a finding into one that a loader reports by itself.
func (f Finding) refused() Finding {
	f.Effect, f.Wrong = effects[Broken], false
	return f
}

// note turns a finding into one that is only worth knowing.
func (f Finding) note() Finding {
	f.Wrong, f.Note = false, true
	return f
}

// Fold joins the findings of one kind that differ only in the module: the first of them, and how many there are.
func Fold(list []Finding) (first []Finding, count []int) {
	at := map[Finding]int{}
	for _, f := range list {
		key := Finding{Kind: f.Kind, Effect: f.Effect, Wrong: f.Wrong, Note: f.Note}
		i, ok := at[key]
		if !ok {
			i = len(first)
			at[key] = i
			first, count = append(first, f), append(count, 0)
		}
		count[i]++
	}
	return first, count
}
