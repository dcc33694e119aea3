package compressed

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"nibble/quant"
)

// Values of format.
const (
	packQuantized = "pack-quantized"
	intQuantized  = "int-quantized"
	mixed         = "mixed-precision"
)

// formatVersion is the first release of compressed-tensors that packs every width as a dense stream.
const formatVersion = "0.18.0"

// config is the quantization_config.
type config struct {
	Method    string           `json:"quant_method"`
	Version   string           `json:"version"`
	Format    string           `json:"format"`
	Status    string           `json:"quantization_status"`
	Ratio     *float64         `json:"global_compression_ratio"`
	KVCache   json.RawMessage  `json:"kv_cache_scheme"`
	Ignore    []string         `json:"ignore"`
	Groups    map[string]group `json:"config_groups"`
	Sparsity  struct{}         `json:"sparsity_config"`
	Transform struct{}         `json:"transform_config"`
}

// group is one of the config_groups: a scheme and what it applies to.
type group struct {
	Targets []string `json:"targets"`
	Format  string   `json:"format"`
	Input   *scheme  `json:"input_activations"`
	Output  *scheme  `json:"output_activations"`
	Weights *scheme  `json:"weights"`
}

// scheme says how a weight or an activation is quantized. Readers reject keys they do not know.
type scheme struct {
	Bits         int      `json:"num_bits"`
	Type         string   `json:"type"`
	Symmetric    bool     `json:"symmetric"`
	Strategy     string   `json:"strategy"`
	Group        *int     `json:"group_size"`
	Dynamic      bool     `json:"dynamic"`
	ActOrder     *string  `json:"actorder"`
	Block        []int    `json:"block_structure"`
	Observer     *string  `json:"observer"`
	ObserverArgs struct{} `json:"observer_kwargs"`
	ScaleType    *string  `json:"scale_dtype"`
	ZeroType     *string  `json:"zp_dtype"`
}

// grid is the part of a spec that the config states. Modules with equal ones share a group.
type grid struct {
	bits, group int
	zero        quant.Zero
	int8        bool
}

func gridOf(s *quant.Spec) grid { return grid{s.Bits, s.Group, s.Zero, s.Int8} }

// Config returns the quantization_config. The grid of most modules is group_0 and applies to the class Linear; the
// others name their modules, which wins over a class wherever they stand.
func (Format) Config(modules []quant.Module, _ quant.Options) ([]byte, error) {
	ignore := []string{}
	members := map[grid][]quant.Module{}
	var grids []grid
	for _, m := range modules {
		if m.FloatLinear() {
			ignore = append(ignore, m.Name)
		}
		if m.Spec == nil {
			continue
		}
		if err := check(*m.Spec); err != nil {
			return nil, fmt.Errorf("compressed-tensors: %s: %w", m.Name, err)
		}
		g := gridOf(m.Spec)
		if members[g] == nil {
			grids = append(grids, g)
		}
		members[g] = append(members[g], m)
	}
	if len(grids) == 0 {
		return nil, fmt.Errorf("compressed-tensors: %w", quant.ErrNoModules)
	}
	slices.SortStableFunc(grids, func(a, b grid) int { return cmp.Compare(len(members[b]), len(members[a])) })

	c := config{
		Method: "compressed-tensors", Version: formatVersion, Status: "compressed", Ignore: ignore, Groups: map[string]group{},
	}
	for i, g := range grids {
		scheme := schemeGroup(g)
		scheme.Targets = targets(members[g], i == 0)
		c.Groups[fmt.Sprintf("group_%d", i)] = scheme
		if c.Format == "" || c.Format == scheme.Format {
			c.Format = scheme.Format
		} else {
			c.Format = mixed
		}
	}
	return json.MarshalIndent(c, "", "  ")
}

// targets returns what a group applies to: the class Linear for the first group, the names of the modules otherwise. A
// fused matrix is named beside its shards, since vLLM looks for the class before it looks for shards. A head and a module
// of another class must be named in any case.
func targets(modules []quant.Module, first bool) []string {
	var list []string
	if first {
		list = []string{"Linear"}
	}
	for _, m := range modules {
		switch {
		case m.Head:
			list = append(list, "re:.*"+m.Name[strings.LastIndexByte(m.Name, '.')+1:])
		case !first || m.Class != "Linear":
			list = append(list, m.Name)
			if m.Fused != "" && !slices.Contains(list, m.Fused) {
				list = append(list, m.Fused)
			}
		}
	}
	return list
}

// schemeGroup returns the group of a grid, without its targets.
func schemeGroup(g grid) group {
	observer := "memoryless_minmax"
	w := &scheme{Bits: g.bits, Type: "int", Symmetric: g.zero == quant.Symmetric, Strategy: "channel", Observer: &observer}
	if g.group > 0 {
		w.Strategy = "group"
		w.Group = &g.group
	}
	if g.zero == quant.Integer {
		zero := "torch.int8"
		w.ZeroType = &zero
	}
	if g.int8 {
		input := &scheme{Bits: 8, Type: "int", Symmetric: true, Strategy: "token", Dynamic: true}
		return group{Format: intQuantized, Weights: w, Input: input}
	}
	return group{Format: packQuantized, Weights: w}
}
