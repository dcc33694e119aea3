// Package mix chooses the types of the tensors of a GGUF file, as llama-quantize does for the mixtures of the same names.
//
// A mixture has a type for most matrices. More bits go to the output head (or the embedding that it is tied to), to v and
// down of some layers, and in some mixtures to o. "Some layers" are mostly the first eighth, the last eighth, and every
// third between. A matrix whose rows are not whole blocks of its type gets a type with blocks of 32, and if its rows are
// not whole blocks of that either, F16. Vectors, norms, routers and learned positions are F32 always.
package mix

import (
	"fmt"
	"regexp"
	"strings"

	"nibble/gguf/block"
)

// Mix is a mixture.
type Mix struct {
	Name     string
	FileType uint32 // the number that general.file_type has for it
	Base     block.Type
}

// All are the mixtures, by their names on the command line.
var All = []Mix{
	{"q4_k_m", 15, block.Q4_K}, {"q4_k_s", 14, block.Q4_K}, {"q5_k_m", 17, block.Q5_K}, {"q3_k_m", 12, block.Q3_K},
	{"q6_k", 18, block.Q6_K}, {"q8_0", 7, block.Q8_0}, {"q4_0", 2, block.Q4_0}, {"q4_1", 3, block.Q4_1}, {"q5_0", 8, block.Q5_0},
	{"q5_1", 9, block.Q5_1}, {"iq4_nl", 25, block.IQ4_NL}, {"iq4_xs", 30, block.IQ4_XS}, {"bf16", 32, block.BF16},
	{"f16", 1, block.F16}, {"f32", 0, block.F32},
}

// Names lists the names of all mixtures.
func Names() []string {
	var names []string
	for _, m := range All {
		names = append(names, m.Name)
	}
	return names
}

// Parse returns the mixture of a name, in upper or lower case; the error lists those that there are.
func Parse(name string) (*Mix, error) {
	for i := range All {
		if All[i].Name == strings.ToLower(name) {
			return &All[i], nil
		}
	}
	return nil, fmt.Errorf("type %q is unknown: it can be %s", name, strings.Join(Names(), ", "))
}

// Model is what the choice depends on.
type Model struct {
	Arch           string // its name in GGUF
	Layers         int
	Heads, KVHeads int
	Experts        int
	Tied           bool // there is no output.weight
	Weighted       bool // the columns have weights
}

// Options override a mixture.
type Options struct {
	Pure              bool // all matrices have the mixture's type
	Embedding, Output *block.Type
	Rules             []Rule
}

// Rule sets the type of the tensors whose names it matches. The first that does decides.
type Rule struct {
	Match *regexp.Regexp
	Type  block.Type
}

// Type returns the type of a tensor. layer is -1 outside the layers.
func (m *Mix) Type(x Model, o Options, name string, shape []int, layer int) block.Type {
	if !Quantizes(name, shape) {
		return block.F32
	}
	switch {
	case name == "token_embd.weight" && o.Embedding != nil:
		return *o.Embedding
	case name == "output.weight" && o.Output != nil:
		return *o.Output
	case m.Base.Size() == 1:
		return m.Base
	}
	t, ruled := m.Base, false
	for _, r := range o.Rules {
		if r.Match.MatchString(name) {
			t, ruled = r.Type, true
			break
		}
	}
	columns := shape[len(shape)-1]
	if !ruled && !o.Pure {
		t = m.choose(x, o, name, columns, layer)
	}
	return fit(t, columns)
}

// Quantizes reports whether a tensor is a matrix that has a type to choose.
func Quantizes(name string, shape []int) bool {
	for len(shape) > 0 && shape[0] == 1 {
		shape = shape[1:]
	}
	return len(shape) >= 2 && strings.HasSuffix(name, "weight") && !strings.Contains(name, "_norm.weight") &&
		!strings.Contains(name, "ffn_gate_inp.weight") && name != "position_embd.weight"
}

// more reports whether a layer is one of those that get more bits.
func more(layer, layers int) bool {
	return layer < layers/8 || layer >= 7*layers/8 || (layer-layers/8)%3 == 2
}

// choose returns the type of a mixture for a matrix, whatever its columns.
func (m *Mix) choose(x Model, o Options, name string, columns, layer int) block.Type {
	kind := name[strings.LastIndexByte(strings.TrimSuffix(name, ".weight"), '.')+1:]
	is := func(kinds ...string) bool {
		for _, k := range kinds {
			if strings.HasPrefix(kind, k) {
				return true
			}
		}
		return false
	}
	levels := m.Name == "iq4_nl" || m.Name == "iq4_xs"
	early := layer < x.Layers/8
	switch {
	case name == "output.weight" || x.Tied && name == "token_embd.weight":
		switch {
		case o.Output != nil:
			return *o.Output
		case columns%m.Base.Size() != 0 || m.Base == block.Q8_0:
			return block.Q8_0
		}
		return block.Q6_K
	case is("attn_v.weight", "attn_qkv.weight"):
		return m.value(x, layer, levels)
	case is("attn_k.weight") && x.Experts == 8:
		return block.Q8_0
	case is("ffn_down"):
		switch {
		case m.Name == "q3_k_m" && layer < x.Layers/16:
			return block.Q5_K
		case m.Name == "q3_k_m":
			return block.Q4_K
		case (m.Name == "q4_k_m" || m.Name == "q5_k_m") && more(layer, x.Layers):
			return block.Q6_K
		case early && (levels && !x.Weighted || m.Name == "q4_k_s"):
			return block.Q5_K
		case early && x.Weighted && m.Name == "q4_0":
			return block.Q4_1
		case early && x.Weighted && m.Name == "q5_0":
			return block.Q5_1
		}
	case is("attn_output.weight"):
		switch {
		case x.Experts == 8 && (levels || m.Name == "q3_k_m" || m.Name == "q4_k_s" || m.Name == "q4_k_m"):
			return block.Q5_K
		case x.Experts != 8 && m.Name == "q3_k_m":
			return block.Q4_K
		}
	}
	return m.Base
}

// value returns the type of v, or of q, k and v in one.
func (m *Mix) value(x Model, layer int, levels bool) block.Type {
	t := m.Base
	switch {
	case m.Name == "q3_k_m" && layer < 2:
		t = block.Q5_K
	case m.Name == "q3_k_m":
		t = block.Q4_K
	case levels && x.KVHeads > 0 && x.Heads/x.KVHeads >= 4:
		t = block.Q5_K
	case (m.Name == "q4_k_m" || m.Name == "q5_k_m") && more(layer, x.Layers):
		t = block.Q6_K
	case m.Name == "q4_k_s" && layer < 4:
		t = block.Q5_K
	}
	seventy := x.Layers == 80 && (x.Arch == "qwen2" || x.Arch == "llama" && x.Heads != x.KVHeads) // models of 70B
	if seventy && (t == block.Q3_K || t == block.Q4_K) {
		t = block.Q5_K
	}
	if x.Experts == 8 {
		t = block.Q8_0
	}
	return t
}

// smaller is the type with blocks of 32 that takes the place of one with blocks of 256.
var smaller = map[block.Type]block.Type{block.IQ4_XS: block.IQ4_NL, block.Q2_K: block.Q4_0, block.Q3_K: block.Q4_0,
	block.Q4_K: block.Q5_0, block.Q5_K: block.Q5_1, block.Q6_K: block.Q8_0}

// FileType returns the number that general.file_type has for a file of matrices that are mostly of a type: that of the mixture which llama.cpp
// takes a file for that says nothing of itself, q4_k_m where most are Q4_K.
func FileType(most block.Type) uint32 {
	for i := range All {
		if All[i].Base == most {
			return All[i].FileType
		}
	}
	return 10 // Q2_K, for which there is no mixture here
}

// Choices are the types that a matrix with rows of so many columns can have, floats apart, in the order of their sizes; of equal ones either
// may lose less.
func Choices(columns int) []block.Type {
	switch {
	case columns%256 == 0:
		return []block.Type{block.Q2_K, block.Q3_K, block.IQ4_XS, block.Q4_K, block.Q5_K, block.Q6_K, block.Q8_0}
	case columns%32 == 0:
		return []block.Type{block.Q4_0, block.IQ4_NL, block.Q4_1, block.Q5_0, block.Q5_1, block.Q8_0}
	}
	return nil
}

// fit returns the type, or what takes its place in rows of so many columns.
func fit(t block.Type, columns int) block.Type {
	if columns%t.Size() == 0 {
		return t
	}
	if other, ok := smaller[t]; ok && columns%other.Size() == 0 {
		return other
	}
	return block.F16
}
