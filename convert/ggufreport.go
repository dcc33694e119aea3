package convert

import (
	"cmp"
	"math"
	"path/filepath"
	"regexp"
	"strings"

	codec "nibble/gguf/block"
	"nibble/hf"
	"nibble/quant"
)

// reportSuffix is what the name of the report beside a GGUF file ends in, in place of .gguf.
const reportSuffix = ".report.json"

// splitName is what the names of a file's parts end in.
var splitName = regexp.MustCompile(`-\d{5}-of-\d{5}$`)

// GGUFReport returns the name of the report beside a GGUF file, or beside any part of one.
func GGUFReport(file string) string {
	return splitName.ReplaceAllString(strings.TrimSuffix(file, filepath.Ext(file)), "") + reportSuffix
}

// flags are the settings as the report and the journal state them.
func (p *GGUFPlan) flags() map[string]any {
	flags := map[string]any{"format": "gguf"}
	if p.Allotment != nil {
		p.Allotment.flags(flags)
	} else {
		flags["type"] = p.Mix.Name
	}
	if p.Method != quant.Search {
		flags["method"] = p.Method
	}
	if p.Calibration != nil && p.Calibration.Independent {
		flags["independent"] = true
	}
	if p.Pure {
		flags["pure"] = true
	}
	for name, t := range map[string]*codec.Type{"token_embedding_type": p.Embedding, "output_tensor_type": p.Output} {
		if t != nil {
			flags[name] = t.String()
		}
	}
	var rules []string
	for _, x := range p.Rules {
		rules = append(rules, x.Match.String()+"="+x.Type.String())
	}
	if rules != nil {
		flags["tensor_type"] = rules
	}
	if p.WeightsFrom != "" {
		flags["imatrix"] = p.WeightsFrom
	}
	return flags
}

// report is the report of a file; without outcomes the widest figures stand in it.
func (p *GGUFPlan) report(outcomes map[string]*outcome, sums map[string]string) *Report {
	r := newReport(p.Source, sums, p.Files, p.Params, p.File.Bytes, p.Calibration)
	r.Command, r.Flags, r.Notes = p.Command, p.flags(), append([]string{}, p.Notes...)
	sum := tally{worst: math.Inf(1)}
	for _, t := range p.Tensors {
		if len(t.Shape) < 2 || len(t.Sources) == 0 {
			continue
		}
		x := ReportTensor{Name: t.Name, Source: t.Sources[0].Name, Shape: t.Shape, Method: t.Type.String(), Bytes: blockBytes(t.Type, t.Shape)}
		if t.Type.Size() > 1 {
			for _, s := range t.Sources {
				r.Totals.Quantized += s.Elements()
			}
			if p.Method != quant.Search {
				loss := widestFigure
				x.Loss, x.Fallback = &loss, widestFallback
			}
			var noise *quant.Noise
			if outcomes != nil {
				noise, x.Loss, x.Fallback = merged(t.Sources, outcomes)
			}
			sum.add(&x, noise)
		}
		r.Tensors = append(r.Tensors, x)
	}
	sum.totals(&r.Totals, outcomes != nil)
	return r
}

// merged sums up what became of the matrices of a tensor: the loss is the mean of theirs, the fallback the first.
func merged(sources []*hf.Tensor, outcomes map[string]*outcome) (n *quant.Noise, loss *Figure, fallback string) {
	n = new(quant.Noise)
	var sum Figure
	count := 0
	for _, s := range sources {
		o := outcomes[s.Name]
		n.Merge(*o.Noise)
		if o.Loss != nil {
			sum += Figure(*o.Loss)
			count++
		}
		fallback = cmp.Or(fallback, o.Fallback)
	}
	if count > 0 {
		sum /= Figure(count)
		loss = &sum
	}
	return n, loss, fallback
}

// reportSize is the length of a report in which every figure takes its widest form.
func (p *GGUFPlan) reportSize() int64 {
	r := p.report(nil, nil)
	p.Allotment.widest(r)
	if p.Measured {
		r.Check = strings.Repeat(" ", widestCheck)
	}
	return r.widest()
}
