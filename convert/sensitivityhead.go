package convert

import (
	"maps"
	"slices"

	"nibble/hf"
	"nibble/loader"
	"nibble/quant"
)

// addHead adds the head as a matrix to judge: the table that a tied model shares, where the format quantizes it in place, else the head
// alone, as a tensor of its own. It is quantized without weights of its columns: what it receives is known only at the end, and the table
// is needed at the beginning.
func (p *SensitivityPlan) addHead() error {
	row := p.Source.Row(hf.Head)
	if row == nil {
		row = p.Source.Row(hf.Embedding)
	}
	if row == nil || !loader.QuantizesHead(p.Target, p.Format.Name()) {
		return nil
	}
	x := &linear{Item: Item{Tensor: *row}}
	if row.Role == hf.Embedding && !p.Format.RowsSplit() {
		x.Tensor.Name, x.Tensor.Role = headName(p.Source), hf.Head
	}
	x.Module = loader.NewModule(&x.Tensor)
	var err error
	if x.rows, err = newRows(p.Source.Model, x.Tensor); err != nil {
		return err
	}
	if x.candidates, _ = candidates(p.Settings, x.N, x.K); len(x.candidates) > 0 {
		p.head = x
	}
	return nil
}

// all lists the linears and the head.
func (p *SensitivityPlan) all() []*linear {
	if p.head == nil {
		return p.linears
	}
	return append(slices.Clip(p.linears), p.head)
}

// measureHead begins the stream of the model whose head, or whose shared table, is quantized as its coarsest candidate.
func (r *SensitivityRun) measureHead() error {
	x := r.head
	if x == nil {
		return nil
	}
	x.segments, x.weights = []segment{{rows: x.N}}, [][]float32{nil}
	m, err := x.whole(r.ctx, r.Threads)
	if err != nil {
		return err
	}
	b := *r.Source
	model := *b.Model
	b.Model, b.Linears = &model, maps.Clone(b.Linears)
	b.Linears[x.Name] = quant.InMemory(m)
	row := x.Tensor
	row.Source = ""
	model.Tensors = slices.DeleteFunc(slices.Clone(model.Tensors), func(t hf.Tensor) bool { return t.Role == row.Role })
	model.Tensors = append(model.Tensors, row)
	return r.streams.ChangeHead(&b, x.Embed)
}
