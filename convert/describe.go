package convert

import (
	"fmt"

	"nibble/hf"
	"nibble/quant"
)

// Costs returns the input bytes of every job, by name, for a progress display.
func (p *Plan) Costs() map[string]int64 {
	costs := map[string]int64{}
	for i := range p.Items {
		costs[p.Items[i].Name] = p.cost(&p.Items[i])
	}
	return costs
}

// cost returns the input bytes of an item.
func (p *Plan) cost(it *Item) int64 {
	x, ok := p.Source.Set.Lookup(it.Tensor.Source)
	if !ok {
		return 0 // it is computed
	}
	return it.Tensor.Elements() * int64(x.DType.Bits()) / 8
}

// Layers names the part of the model that a job belongs to: "layer 3", "embedding", "head", or "" for
// what is small.
func (p *Plan) Layers() map[string]string {
	names := map[string]string{}
	for i := range p.Items {
		names[p.Items[i].Name] = layerName(&p.Items[i].Tensor)
	}
	return names
}

func layerName(t *hf.Tensor) string {
	switch {
	case t.Layer >= 0:
		return fmt.Sprintf("layer %d", t.Layer)
	case t.Role == hf.Embedding || t.Role == hf.Head:
		return t.Role.String()
	}
	return ""
}

// PlannedTensor is a tensor of the output with its place.
type PlannedTensor struct {
	Name   string `json:"name"`
	DType  string `json:"dtype"`
	Shape  []int  `json:"shape"`
	File   string `json:"file"`
	Offset int64  `json:"offset"` // from the start of the file
	Bytes  int64  `json:"bytes"`
}

// Tensors lists all tensors of the output in file order.
func (p *Plan) Tensors() []PlannedTensor {
	list := []PlannedTensor{}
	for _, f := range p.Weights.Files {
		for _, t := range f.Tensors {
			list = append(list, PlannedTensor{t.Name, t.DType.String(), t.Shape, f.Name, int64(len(f.Header)) + t.Begin, t.Bytes()})
		}
	}
	return list
}

// flags are the settings as the report states them. What changes no byte (threads, memory) is left out.
func (p *Plan) flags() map[string]any {
	f := map[string]any{
		"format": p.Format.Name(), "bits": p.Spec.Bits, "group": p.Spec.Group, "zero": p.Spec.Zero.String(), "method": p.Spec.Method,
		"scale_dtype": p.Spec.Scale.String(), "target_loader": string(p.Target), "max_shard_size": p.MaxShard,
	}
	if p.Spec.Zero == quant.Symmetric {
		f["signed_scale"] = p.Spec.Signed
	}
	if p.Format.Name() == "gptq" {
		f["checkpoint_format"] = p.Options.CheckpointFormat
	}
	if p.TensorParallel > 1 {
		f["tensor_parallel"] = p.TensorParallel
	}
	if p.PadMLP > 0 {
		f["pad_mlp"] = p.PadMLP
	}
	for name, c := range map[string]Choice{"lm_head": p.Head, "embedding": p.Embedding} {
		if c != Default {
			f[name] = map[Choice]string{Keep: "keep", Quantize: "quantize"}[c]
		}
	}
	if p.KeepUnfit {
		f["unfit"] = "keep"
	}
	if p.AllowNonFinite {
		f["allow_nonfinite"] = true
	}
	if p.Recipe != nil {
		f["recipe"] = p.Recipe.Rules
	}
	if x := p.Allotment; x != nil {
		delete(f, "bits")
		delete(f, "group")
		x.flags(f)
	}
	return f
}

// Costs returns the input bytes of every job, by name, for a progress display.
func (x *Expansion) Costs() map[string]int64 {
	costs := map[string]int64{}
	for i := range x.pieces {
		t := &x.pieces[i].tensor
		if x.pieces[i].linear != nil {
			costs[t.Module()] = t.Elements() / 2
			continue
		}
		s, _ := x.Build.Set.Lookup(t.Source)
		costs[t.Name] = t.Elements() * int64(s.DType.Bits()) / 8
	}
	return costs
}

// Layers names the part of the model that a job belongs to, as for a plan.
func (x *Expansion) Layers() map[string]string {
	names := map[string]string{}
	for i := range x.pieces {
		t := &x.pieces[i].tensor
		names[t.Name], names[t.Module()] = layerName(t), layerName(t)
	}
	return names
}
