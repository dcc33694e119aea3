package convert

import (
	"cmp"
	"maps"
	"slices"

	"nibble/gguf/names"
	"nibble/gptq"
	"nibble/hf"
	"nibble/loader"
	"nibble/quant"
)

// addEnds adds the head as a matrix to judge: the table that a tied model shares, where the format quantizes it in place, else the head
// alone, as a tensor of its own. It is quantized without weights of its columns: what it receives is known only at the end, and the table
// is needed at the beginning. In a GGUF file an embedding that is no head is one more.
func (p *SensitivityPlan) addEnds() error {
	head, table := p.Source.Row(hf.Head), p.Source.Row(hf.Embedding)
	row := cmp.Or(head, table)
	shared := head == nil
	if p.Format == nil {
		list, _, err := names.Tensors(p.Source.Model)
		if err != nil {
			return err
		}
		shared = tiedGGUF(list)
		if !shared && table != nil {
			if p.embed, err = p.end(*table); err != nil {
				return err
			}
		}
	} else if shared = shared && p.Format.RowsSplit(); !loader.QuantizesHead(p.Target, p.Format.Name()) {
		return nil
	}
	if row == nil {
		return nil
	}
	t := *row
	if t.Role == hf.Embedding && !shared {
		t.Name, t.Role = headName(p.Source), hf.Head
	}
	var err error
	p.head, err = p.end(t)
	return err
}

// end is a head or an embedding to judge; nil if it has no candidates.
func (p *SensitivityPlan) end(t hf.Tensor) (*linear, error) {
	x, _, err := p.linear(t)
	if err != nil || len(x.candidates) == 0 {
		return nil, err
	}
	return x, nil
}

// all lists the linears and what stands at the ends.
func (p *SensitivityPlan) all() []*linear {
	list := slices.Clip(p.linears)
	for _, x := range []*linear{p.embed, p.head} {
		if x != nil {
			list = append(list, x)
		}
	}
	return list
}

// measureEnds takes the losses of an embedding, all of whose weights count alike, and begins the streams of models in which the embedding,
// or the head, or the table that they share, is quantized as the candidate to measure.
func (r *SensitivityRun) measureEnds() error {
	if x := r.embed; x != nil {
		x.segments, x.weights = []segment{{rows: x.N}}, [][]float32{nil}
		if err := run(r.ctx, []*job{x.proxy(0, gptq.NewDiagonal(slices.Repeat([]float64{1}, x.K)))}, r.Threads, nil); err != nil {
			return err
		}
		x.settle()
		err := r.measureEnd(x)
		if r.Progress != nil {
			r.Progress(x.Name, x.cost())
		}
		if err != nil {
			return err
		}
	}
	if r.head == nil {
		return nil
	}
	return r.measureEnd(r.head)
}

// measureEnd begins one of the streams.
func (r *SensitivityRun) measureEnd(x *linear) error {
	if r.streams == nil {
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
	if x == r.embed {
		err := r.streams.ChangeEmbedding(&b)
		m.Recycle()
		return err
	}
	return r.streams.ChangeHead(&b, x.Embed)
}
