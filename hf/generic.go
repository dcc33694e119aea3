package hf

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	genericLayer = regexp.MustCompile(`\.(?:layers|h|blocks|block|layer)\.(\d+)\.`)
	// notLinear are words in the names of matrices that are looked up or must not be rounded.
	notLinear = regexp.MustCompile(`(?i)embed|\bwte\b|\bwpe\b|position|norm|router|gate\.weight$|rotary|lookup|conv`)
)

// generic makes rows without a table: a 2-D *.weight whose name says nothing against it is a linear, everything else is
// carried over. A quantized module becomes a row without a shape: only its layout knows it.
func (m *Model) generic(o Options) {
	m.Arch = &Architecture{Name: "generic"}
	seen := map[string]bool{}
	for _, x := range m.Set.Tensors() {
		t := Tensor{Name: x.Name, Shape: x.Shape, Role: Other, Layer: -1, Expert: -1, Source: x.Name}
		if g := genericLayer.FindStringSubmatch("." + x.Name); g != nil {
			if n, err := strconv.Atoi(g[1]); err == nil && n < maxTensors {
				t.Layer = n
				m.Arch.Layers = max(m.Arch.Layers, n+1)
			}
		}
		if module := o.Owner[x.Name]; module != "" {
			if !seen[module] {
				seen[module] = true
				t.Name, t.Shape, t.Source, t.Role = module+".weight", nil, "", Up
				m.Tensors = append(m.Tensors, t)
			}
			continue
		}
		if len(x.Shape) == 2 && x.DType.IsFloat() && strings.HasSuffix(x.Name, ".weight") {
			switch {
			case strings.HasSuffix("."+x.Name, ".lm_head.weight"):
				t.Role = Head
			case notLinear.MatchString(x.Name):
			default:
				t.Role = Up // any linear
			}
		}
		m.Tensors = append(m.Tensors, t)
	}
}
