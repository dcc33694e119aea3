package report

import (
	"cmp"
	"math"
	"slices"
)

// cost is what a build is judged by: KL divergence, or noise where it is not measured. known is false without either.
func (x *Build) cost(measured bool) (cost float64, known bool) {
	switch {
	case measured && x.Measured != nil:
		return x.Measured.KLMean, true
	case !measured && x.SQNR != nil && !math.IsInf(float64(*x.SQNR), 0):
		return -float64(*x.SQNR), true
	}
	return 0, false
}

// Judge names for every build one that needs no more bits and loses no more.
func (r *Report) Judge() {
	measured := slices.ContainsFunc(r.Builds, func(x *Build) bool { return x.Measured != nil })
	for _, x := range r.Builds {
		mine, ok := x.cost(measured)
		best := math.Inf(1)
		for _, y := range r.Builds {
			theirs, known := y.cost(measured)
			better := y.BitsPerWeight < x.BitsPerWeight || theirs < mine
			if ok && known && y != x && y.BitsPerWeight <= x.BitsPerWeight && theirs <= mine && better && theirs < best {
				x.DominatedBy, best = y.Name, theirs
			}
		}
	}
}

// mostRoles and mostLayers bound what a report that was made up can make of a page.
const (
	mostRoles  = 32
	mostLayers = 512
)

// roleSum sums up the matrices of a role.
type roleSum struct {
	Role            string
	Matrices        int
	Weights, Bytes  int64
	Bits            float64
	Lowest, Average float64 // dB, of those with a finite SQNR
	Judged          int
}

// roles sums up the matrices by role, in the order in which roles come.
func (x *Build) roles() []*roleSum {
	var list []*roleSum
	for i := range x.Matrices {
		m := &x.Matrices[i]
		at := slices.IndexFunc(list, func(r *roleSum) bool { return r.Role == m.Role })
		if at < 0 && len(list) == mostRoles {
			continue
		}
		if at < 0 {
			at, list = len(list), append(list, &roleSum{Role: m.Role, Lowest: math.Inf(1)})
		}
		r := list[at]
		r.Matrices++
		r.Weights += m.weights()
		r.Bytes += m.Bytes
		if m.SQNR != nil && !math.IsInf(float64(*m.SQNR), 0) {
			r.Judged++
			r.Lowest = min(r.Lowest, float64(*m.SQNR))
			r.Average += float64(*m.SQNR)
		}
	}
	for _, r := range list {
		r.Bits = 8 * float64(r.Bytes) / float64(max(r.Weights, 1))
		r.Average /= float64(max(r.Judged, 1))
	}
	return list
}

// grid is a figure by layer and role: the lowest SQNR or the largest loss of a cell's matrices. NaN: nothing there.
type grid struct {
	Roles  []string
	Layers []int // -1, which comes first, is outside of the decoder
	Cells  [][]float64
	Lo, Hi float64
}

// newGrid arranges the figures of matrices, of several in a cell the worst.
func (x *Build) newGrid(figure func(*Matrix) (float64, bool), worst func(a, b float64) float64) *grid {
	g := &grid{Lo: math.Inf(1), Hi: math.Inf(-1)}
	type cell struct {
		layer int
		role  string
	}
	values := map[cell]float64{}
	for i := range x.Matrices {
		m := &x.Matrices[i]
		v, ok := figure(m)
		if !ok {
			continue
		}
		at := cell{m.Layer, m.Role}
		newRole, newLayer := !slices.Contains(g.Roles, m.Role), !slices.Contains(g.Layers, m.Layer)
		if newRole && len(g.Roles) == mostRoles || newLayer && len(g.Layers) == mostLayers {
			continue
		}
		if old, there := values[at]; there {
			v = worst(old, v)
		}
		values[at] = v
		if newRole {
			g.Roles = append(g.Roles, m.Role)
		}
		if newLayer {
			g.Layers = append(g.Layers, m.Layer)
		}
	}
	slices.SortFunc(g.Layers, cmp.Compare)
	for _, layer := range g.Layers {
		row := make([]float64, len(g.Roles))
		for i, role := range g.Roles {
			v, ok := values[cell{layer, role}]
			if !ok {
				row[i] = math.NaN()
				continue
			}
			row[i], g.Lo, g.Hi = v, min(g.Lo, v), max(g.Hi, v)
		}
		g.Cells = append(g.Cells, row)
	}
	if len(g.Cells) == 0 {
		return nil
	}
	return g
}

// sqnrGrid is the lowest SQNR by layer and role.
func (x *Build) sqnrGrid() *grid {
	return x.newGrid(func(m *Matrix) (float64, bool) {
		if m.SQNR == nil || math.IsInf(float64(*m.SQNR), 0) {
			return 0, false
		}
		return float64(*m.SQNR), true
	}, func(a, b float64) float64 { return min(a, b) })
}

// lossGrid is the largest loss by layer and role; nil if the build was not calibrated.
func (x *Build) lossGrid() *grid {
	return x.newGrid(func(m *Matrix) (float64, bool) {
		if m.Loss == nil {
			return 0, false
		}
		return *m.Loss, true
	}, func(a, b float64) float64 { return max(a, b) })
}
