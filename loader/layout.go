package loader

import (
	"fmt"
	"strings"

	"nibble/build"
	"nibble/hf"
	"nibble/quant"
)

// layout returns the faults that show without reading weights, in the order of the tensors.
func layout(b *build.Build) []Finding {
	var list []Finding
	format := formatOf(b)
	rows := rowsOf(b)
	for i := range b.Tensors {
		t := &b.Tensors[i]
		if t.Role == hf.Embedding && t.Source != "" && t.Source != t.Name {
			list = append(list, newFinding(HeadOnly, "", t.Source, fmt.Sprintf("there is no %s", t.Name)))
		}
	}
	for _, name := range b.Missing {
		f := newFinding(NoModule, strings.TrimSuffix(name, ".weight"), "", "neither float nor quantized tensors are there")
		if format == gptq && rows[f.Module].Fused != "" {
			f = f.refused()
		}
		list = append(list, f)
	}
	for _, d := range b.Defects {
		list = append(list, broken(d, rows[d.Module].Role))
	}
	for _, module := range linears(b) {
		l := b.Linears[module]
		n, k := l.Shape()
		spec, expect := l.Spec(), b.Reader.Expect(module)
		if expect == nil {
			continue // refused
		}
		if spec.Bits != expect.Bits {
			f := newFinding(OtherBits, module, "", fmt.Sprintf("they have %d bits, the config says %d", spec.Bits, expect.Bits))
			if spec.Bits < expect.Bits || !rowParallel(rows[module].Role) {
				f = f.refused()
			}
			list = append(list, f)
			continue
		}
		if f, ok := groupCount(format, module, rows[module].Role, k, spec, *expect); ok {
			list = append(list, f)
		}
		if f, ok := zeroKind(format, module, n, spec, *expect); ok {
			list = append(list, f)
		}
	}
	return list
}

// rowsOf returns the rows of the architecture's table and of the build by their modules. Those of other names are zero.
func rowsOf(b *build.Build) map[string]hf.Tensor {
	rows := map[string]hf.Tensor{}
	for _, list := range [][]hf.Tensor{b.Arch.Tensors, b.Tensors} {
		for _, t := range list {
			rows[t.Module()] = t
		}
	}
	return rows
}

// linears returns the names of the quantized modules that could be opened, in the order of the table.
func linears(b *build.Build) []string {
	var list []string
	for i := range b.Tensors {
		if m := b.Tensors[i].Module(); b.Linears[m] != nil {
			list = append(list, m)
		}
	}
	return list
}

// broken says which fault a defect is.
func broken(d *quant.Defect, role hf.Role) Finding {
	kind := Broken
	if d.Kind == quant.MissingTensor {
		switch d.Tensor[strings.LastIndexByte(d.Tensor, '.')+1:] {
		case "scales", "weight_scale":
			kind = NoScales
		case "qweight", "weight_packed":
			kind = NoCodes
		case "qzeros":
			kind = NoZeros
		}
	}
	f := newFinding(kind, d.Module, d.Tensor, d.Detail)
	if kind == Broken && !rowParallel(role) {
		return f.refused()
	}
	if kind == Broken {
		f.Effect = effects[MoreGroups]
	}
	return f
}

// groupCount compares the groups of a module with those that the config says.
func groupCount(format, module string, role hf.Role, k int, spec, expect quant.Spec) (Finding, bool) {
	size := expect.GroupSize(k)
	have, want := (k-1)/spec.GroupSize(k)+1, (k-1)/size+1
	detail := fmt.Sprintf("%d groups of %d for %d columns, the config says groups of %d", have, spec.GroupSize(k), k, size)
	kind, silent := MoreGroups, rowParallel(role)
	switch {
	case k%size != 0 && size < k:
		kind, silent = RaggedGroup, silent && (format == gptq || format == awq)
	case have < want:
		kind, silent = FewerGroups, false
	case have == want:
		return Finding{}, false
	}
	f := newFinding(kind, module, "", detail)
	if !silent {
		f = f.refused()
	}
	return f, true
}

// zeroKind compares the kind of zero that the tensors show with the config's. The gptq and awq readers call a grid
// symmetric if all stored zero points are its middle.
func zeroKind(format, module string, n int, spec, expect quant.Spec) (Finding, bool) {
	switch {
	case format == compressed && expect.Zero == quant.Integer && spec.Zero == quant.Symmetric && !spec.Int8:
		return newFinding(NoZeroPoints, module, module+".weight_zero_point", "the config says symmetric:false"), true
	case format == gptq && expect.Zero == quant.Symmetric && spec.Zero == quant.Integer:
		return newFinding(AsymmetricGPTQ, module, module+".qzeros", fmt.Sprintf("the zero points of %d rows are not all %d", n, 1<<(spec.Bits-1))), true
	case format == awq && expect.Zero == quant.Symmetric && spec.Zero == quant.Integer:
		return newFinding(AsymmetricAWQ, module, module+".qzeros", fmt.Sprintf("the zero points of %d rows are not all 8", n)), true
	}
	return Finding{}, false
}
