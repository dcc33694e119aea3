package npu

import "slices"

// split cuts a graph into parts of about as many bytes of weights each, between layers. What goes from one to the next is the
// residual stream, as codes.
func (g *graph) split(parts int, bytes func(p *param) int64) []*graph {
	if parts < 2 {
		return []*graph{g}
	}
	layers := g.Model.Layers
	size, all := make([]int64, layers+2), int64(0) // of what comes before, of the layers, and of the head
	for _, n := range g.Nodes {
		for _, v := range n.In {
			if v.Kind == weight {
				size[n.Layer+1] += bytes(v.Param)
				all += bytes(v.Param)
			}
		}
	}
	part, sum := make([]int, layers+2), int64(0)
	for i, s := range size {
		part[i] = min(int((sum+s/2)*int64(parts)/max(all, 1)), parts-1)
		sum += s
	}
	var list []*graph
	made := map[*value]int{}
	for p := range parts {
		x := &graph{Name: g.Name, Tokens: g.Tokens, Context: g.Context, Model: g.Model, length: g.length}
		for _, n := range g.Nodes {
			if part[n.Layer+1] != p {
				continue
			}
			x.Nodes = append(x.Nodes, n)
			made[n.Out] = p
			for _, v := range n.In {
				from, computed := made[v]
				if (v.Kind == fed || computed && from != p) && !slices.Contains(x.Inputs, v) {
					x.Inputs = append(x.Inputs, v)
				}
				if computed && from != p && v.Out == "" {
					v.Out, v.Crossing = v.Name+".out", true
					list[from].Outputs = append(list[from].Outputs, v)
				}
			}
		}
		for _, v := range g.Outputs {
			if from, ok := made[v]; ok && from == p && !v.Crossing {
				x.Outputs = append(x.Outputs, v)
			}
		}
		if len(x.Nodes) > 0 {
			list = append(list, x)
		}
	}
	return list
}
