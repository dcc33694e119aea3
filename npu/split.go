package npu

import "slices"

// Split cuts a graph into parts of about as many bytes of weights each, between layers. What goes from one to the next is the
// residual stream, as codes.
func (g *Graph) Split(parts int, bytes func(p *Param) int64) []*Graph {
	if parts < 2 {
		return []*Graph{g}
	}
	layers := g.Model.Layers
	size, all := make([]int64, layers+2), int64(0) // of what comes before, of the layers, and of the head
	for _, n := range g.Nodes {
		for _, v := range n.In {
			if v.Kind == Weight {
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
	var list []*Graph
	made := map[*Value]int{}
	for p := range parts {
		x := &Graph{Name: g.Name, Tokens: g.Tokens, Context: g.Context, Model: g.Model, length: g.length}
		for _, n := range g.Nodes {
			if part[n.Layer+1] != p {
				continue
			}
			x.Nodes = append(x.Nodes, n)
			made[n.Out] = p
			for _, v := range n.In {
				from, computed := made[v]
				if (v.Kind == Fed || computed && from != p) && !slices.Contains(x.Inputs, v) {
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
