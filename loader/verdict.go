package loader

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"nibble/build"
	"nibble/hf"
	"nibble/quant"
)

// Verdict says whether a target loads a build and computes what was meant.
type Verdict struct {
	Target   Target    `json:"target"`
	Loads    bool      `json:"loads"` // no problem but soft ones
	Problems []Problem `json:"problems"`
}

// Verdicts judges a build for all targets but [None]: its config, its modules and the faults that show without reading
// weights. [Scan] finds the others.
func Verdicts(b *build.Build) []Verdict {
	var list []Verdict
	for _, t := range Targets {
		if t == None {
			continue
		}
		v := Verdict{Target: t, Problems: judge(t, b)}
		v.Loads = !slices.ContainsFunc(v.Problems, func(p Problem) bool { return !p.Soft })
		list = append(list, v)
	}
	return list
}

func judge(t Target, b *build.Build) []Problem {
	in := Input{
		Format: formatOf(b), CheckpointFormat: checkpointFormat(quantization(b)), Arch: b.Arch,
		Listed: quantization(b).Get("modules_in_block_to_quantize").Exists(),
		Tied:   tiedInFile(b),
	}
	if t == LlamaCpp {
		return Check(t, in)
	}
	v := &verdict{Build: b, target: t, format: in.Format, options: quantization(b)}
	for _, m := range Modules(b) {
		if b.Reader == nil || b.Linears[m.Name] == nil || b.Reader.Expect(m.Name) != nil {
			in.Modules = append(in.Modules, m)
		}
	}
	v.layout()
	switch in.Format {
	case gptq, awq, compressed, cpuInt4:
		v.config()
	case "":
	default:
		v.foreign()
		return v.problems
	}
	return append(v.problems, Check(t, in)...)
}

// foreign: a method of which only this is known: transformers 5.24 loads it with the auto-round 0.16 package.
func (v *verdict) foreign() {
	fix := "dequantize it and quantize that to another format"
	if v.target == Transformers {
		v.problems = append(v.problems, Problem{Rule: fmt.Sprintf("quant_method %s needs the auto-round package", v.format), Fix: fix, Soft: true})
		return
	}
	v.hard("", fmt.Sprintf("quant_method %s: whether it loads was not tried", v.format), fix)
}

// tiedInFile reports whether the config as it is on disk ties head and embedding. Opening a build with a quantized head
// unties it.
func tiedInFile(b *build.Build) bool {
	for _, key := range []string{"text_config.tie_word_embeddings", "tie_word_embeddings"} {
		if gjson.GetBytes(b.Config.Raw(), key).Raw != gjson.GetBytes(b.Folder.Config, key).Raw {
			return true
		}
	}
	return b.Arch.Tied
}

// verdict collects what one target has against the config and the tensors of a build.
type verdict struct {
	*build.Build
	target   Target
	format   string
	options  gjson.Result
	problems []Problem
}

func (v *verdict) hard(module, rule, fix string) {
	v.problems = append(v.problems, Problem{Module: module, Rule: rule, Fix: fix})
}

func (v *verdict) vllm() bool { return v.target == VLLMCPU || v.target == VLLMGPU }

// layout turns faults that show without reading weights into problems. They were observed in vLLM; other loaders do not
// compute anything sensible either.
func (v *verdict) layout() {
	for _, f := range layout(v.Build) {
		if f.Kind == HeadOnly && !v.vllm() {
			continue // transformers ties either to the other
		}
		rule := string(f.Kind)
		if f.Detail != "" {
			rule += ": " + f.Detail
		}
		if v.vllm() {
			rule += "; " + f.Effect
		}
		v.hard(f.Module, rule, "quantize the source model again")
	}
	if v.vllm() {
		v.surplus()
	}
}

// surplus: vLLM 0.32 refuses tensors that no parameter takes, by name.
func (v *verdict) surplus() {
	known := map[string]bool{}
	for i := range v.Tensors {
		t := &v.Tensors[i]
		known[t.Module()] = true
		l := v.Linears[t.Module()]
		if l == nil {
			continue
		}
		if t.Source != "" {
			v.hard(t.Module(), fmt.Sprintf("%s is there beside the quantized tensors: vLLM refuses it", t.Source), "delete it")
		}
		expect, spec := v.Reader.Expect(t.Module()), l.Spec()
		if v.format == compressed && expect != nil && spec.Zero != expect.Zero && slices.Contains(l.Tensors(), t.Module()+".weight_zero_point") {
			v.hard(t.Module(), "weight_zero_point is there under symmetric:true: vLLM refuses it", "symmetric: false")
		}
	}
	var unknown []string
	for m := range v.Linears {
		if !known[m] {
			unknown = append(unknown, m)
		}
	}
	slices.Sort(unknown)
	for _, m := range unknown {
		v.hard(m, fmt.Sprintf("%s has no such module: vLLM refuses it", v.Arch.Name), "delete its tensors")
	}
	for _, name := range Unknown(v.Model) {
		v.hard("", fmt.Sprintf("%s is no tensor of %s: vLLM refuses it", name, v.Arch.Name), "delete it")
	}
}

// Unknown returns the tensors that no parameter of the architecture takes. Biases are not among them, which vLLM drops,
// nor what the other half of a multimodal model has.
func Unknown(m *hf.Model) []string {
	if generic(m.Arch) || m.Arch.Name == "Gemma3ForConditionalGeneration" {
		return nil
	}
	var names []string
	for i := range m.Tensors {
		if t := &m.Tensors[i]; t.Role == hf.Other && !strings.HasSuffix(t.Name, ".bias") {
			names = append(names, t.Name)
		}
	}
	return names
}

// config judges the options of a quantized checkpoint.
func (v *verdict) config() {
	v.legacy()
	if v.vllm() {
		v.keys()
		v.coverage()
	}
	switch {
	case v.format == gptq && v.vllm():
		v.gptqConfig()
	case v.format == awq && v.vllm():
		v.awqConfig()
	case v.format == compressed:
		v.compressedConfig()
	}
}

// legacy: vLLM and transformers look into config.json only, unless vLLM is told the method.
func (v *verdict) legacy() {
	if !v.Legacy {
		return
	}
	fix := "copy the options into config.json as quantization_config"
	if v.vllm() {
		fix += fmt.Sprintf(", or serve with --quantization %s", v.format)
	}
	v.hard("", fmt.Sprintf("the options are in %s only, and config.json has no quantization_config", v.LegacyName), fix)
}

// keys: what vLLM 0.32 demands of the options beside bits and group size, without which no reader opens a file.
func (v *verdict) keys() {
	demanded := map[string][]string{gptq: {"desc_act", "sym"}, awq: {"zero_point"}}
	for _, key := range demanded[v.format] {
		if !v.options.Get(key).Exists() {
			v.hard("", fmt.Sprintf("quantization_config lacks %s", key), "add the key")
		}
	}
}

// coverage: what is quantized in the file must be so by the config, and the other way round where vLLM 0.32 does not
// look at the tensors to find out: it does for GPTQ, and for AWQ if the config lists no module.
func (v *verdict) coverage() {
	if generic(v.Arch) {
		return
	}
	inferred := v.format == gptq || v.format == awq && len(v.options.Get("modules_to_not_convert").Array()) == 0
	for i := range v.Tensors {
		t := &v.Tensors[i]
		m := t.Module()
		expect := v.Reader.Expect(m)
		switch quantized := v.Linears[m] != nil; {
		case quantized && expect == nil:
			v.excluded(t)
		case quantized && t.Fused != "" && v.format == gptq:
			v.fusedRule(t, expect)
		case t.Role.Linear() && t.Source != "" && !quantized && expect != nil && !inferred:
			v.hard(m, "its tensor is float, the config says quantized", "correct quantization_config")
		}
	}
}

// excluded: vLLM has no parameters for the tensors of a module that the config leaves in float. GPTQ and AWQ have a key
// of its own for the head.
func (v *verdict) excluded(t *hf.Tensor) {
	if t.Role == hf.Head && (v.format == gptq || v.format == awq) && !v.options.Get("lm_head").Bool() {
		v.hard(t.Module(), "the head is quantized and quantization_config lacks lm_head:true", "lm_head: true")
		return
	}
	v.hard(t.Module(), "its tensors are quantized, the config says float", "correct quantization_config")
}

// fusedRule: vLLM looks for rules of dynamic by the name of the fused matrix.
func (v *verdict) fusedRule(t *hf.Tensor, part *quant.Spec) {
	if whole := v.Reader.Expect(t.Fused); whole != nil && !alike(whole, part) {
		v.hard(t.Module(), fmt.Sprintf("dynamic says it is %s, but %s for %s, and vLLM asks by that name", part, whole, base(t.Fused)),
			"name the fused matrix in the same rule")
	}
}

// gptqConfig: settings that vLLM refuses whatever the tensors hold. Modules show sym:false by themselves.
func (v *verdict) gptqConfig() {
	// Since 0.32, even where every group is a natural one; with one group a row the order means nothing.
	if announced(gptq, v.options) && v.options.Get("group_size").Int() != -1 {
		v.hard("", "desc_act:true: vLLM no longer supports activation order", "set desc_act to false if every g_idx is in natural order; otherwise dequantize and quantize again")
	}
}

// awqConfig: vLLM takes every file for the gemm version without looking at the key.
func (v *verdict) awqConfig() {
	if version := strings.ToLower(v.options.Get("version").String()); version != "" && version != "gemm" {
		v.hard("", fmt.Sprintf("version %s: vLLM reads it as gemm, which has other shapes", version), "dequantize it and quantize that")
	}
}
