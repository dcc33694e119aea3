// Package synthetic makes checkpoints out of nothing but a config.json: every tensor of the architecture's table, in float
// or in any format, with values that are computed when they are read. Whatever opens checkpoints opens these, and reads
// them faster than any disk; they measure time and memory of models that are not there.
//
// The values are the same on every machine. Matrices are random with rows of about unit length, so that activations stay
// finite; the same rows come again after a while.
package synthetic

import (
	"fmt"
	"slices"

	"nibble/hf"
	"nibble/internal/version"
	"nibble/loader"
	"nibble/quant"
	"nibble/safetensors"
)

// Settings say what kind of checkpoint is wanted.
type Settings struct {
	Format   quant.Format // nil: bfloat16
	Spec     quant.Spec   // of all quantized matrices
	KeepHead bool         // leave the head in float
}

// Checkpoint is a model that is not there.
type Checkpoint struct {
	Config     []byte            // config.json
	Weights    *safetensors.Plan // one file
	Parameters int64             // of the model; a head that is the embedding counts once

	patterns map[string]pattern // by tensor
}

// maker builds a checkpoint.
type maker struct {
	Settings
	*Checkpoint
	arch    *hf.Architecture
	tied    bool // in the checkpoint
	specs   []safetensors.Spec
	modules []quant.Module
	known   map[kind][]pattern
	floats  []byte
}

// kind is what quantized matrices with the same values have in common.
type kind struct {
	role hf.Role
	n, k int
}

// New makes a checkpoint for a config. A matrix that the format cannot hold is an error.
func New(config []byte, s Settings) (*Checkpoint, error) {
	c, err := hf.ParseConfig(config)
	if err != nil {
		return nil, err
	}
	if c.Quantization() != nil {
		if c, err = c.Delete("quantization_config"); err != nil {
			return nil, err
		}
	}
	arch, err := hf.Describe(c)
	if err != nil {
		return nil, err
	}
	m := &maker{Settings: s, Checkpoint: &Checkpoint{patterns: map[string]pattern{}}, arch: arch, known: map[kind][]pattern{},
		floats: floatTile()}
	m.tied = arch.Tied && (s.Format == nil || s.KeepHead || s.Format.RowsSplit())
	for _, t := range arch.Tensors {
		if t.Role == hf.Buffer {
			continue
		}
		if t.Role != hf.Head || !arch.Tied {
			m.Parameters += t.Elements()
		}
		if t.Role == hf.Head && m.tied {
			continue
		}
		if err := m.add(t); err != nil {
			return nil, err
		}
	}
	return m.Checkpoint, m.finish(c)
}

// finish writes the config and lays the tensors out.
func (m *maker) finish(c *hf.Config) (err error) {
	if m.arch.Tied && !m.tied {
		if c, err = c.Set("tie_word_embeddings", []byte("false")); err != nil {
			return err
		}
	}
	if m.Format != nil {
		q, err := m.Format.Config(m.modules, options)
		if err != nil {
			return err
		}
		if c, err = c.Set("quantization_config", q); err != nil {
			return err
		}
	}
	m.Config = c.Raw()
	m.Weights, err = safetensors.NewPlan(m.specs, map[string]string{"format": "pt"}, 0)
	return err
}

// options are those that quantize has by default.
var options = quant.Options{CheckpointFormat: "gptq", Version: version.Number()}

// add adds a tensor, apart where the format's loaders want its parts apart.
func (m *maker) add(t hf.Tensor) error {
	switch {
	case !t.Role.Linear() && t.Role != hf.Head && t.Role != hf.Embedding:
		m.float(t)
		return nil
	case m.Format == nil || t.Parts == nil || m.Format.RowsSplit():
		return m.matrix(t)
	}
	for _, part := range t.Parts {
		x := t
		x.Name, x.Role, x.Shape = part.Module+".weight", part.Role, []int{part.Rows, t.In()}
		if err := m.matrix(x); err != nil {
			return err
		}
	}
	return nil
}

// matrix adds a matrix of attention or MLP, the head or the embedding.
func (m *maker) matrix(t hf.Tensor) error {
	module := loader.NewModule(&t).Module
	if m.Format == nil || !m.quantizes(t.Role) {
		m.modules = append(m.modules, module)
		m.float(t)
		return nil
	}
	module.Spec = &m.Spec
	m.modules = append(m.modules, module)
	patterns, err := m.pack(kind{t.Role, module.N, module.K})
	if err != nil {
		return fmt.Errorf("%s: %w", module.Name, err)
	}
	for i, x := range m.Format.Tensors(m.Spec, module.N, module.K) {
		name := module.Name + x.Suffix
		m.specs = append(m.specs, safetensors.Spec{Name: name, DType: x.DType, Shape: x.Shape})
		m.patterns[name] = patterns[i]
	}
	return nil
}

// quantizes says what is quantized, as the command does it by default, and the head unless it is to be kept. Only formats
// whose matrices split by rows have a quantized embedding.
func (m *maker) quantizes(r hf.Role) bool {
	switch r {
	case hf.Head:
		return !m.KeepHead
	case hf.Embedding:
		return m.Format.RowsSplit() && !(m.tied && m.KeepHead)
	}
	return true
}

// float adds a tensor in bfloat16.
func (m *maker) float(t hf.Tensor) {
	m.specs = append(m.specs, safetensors.Spec{Name: t.Name, DType: safetensors.BF16, Shape: t.Shape})
	m.patterns[t.Name] = m.floatPattern(&t)
}

// strip is how many rows of a matrix are different.
const strip = 32

// pack returns what the tensors of a quantized matrix hold: the rows of a small matrix over and over.
func (m *maker) pack(x kind) ([]pattern, error) {
	if known := m.known[x]; known != nil {
		return known, nil
	}
	if err := m.Format.CheckShape(m.Spec, x.n, x.k); err != nil {
		return nil, err
	}
	small, whole := m.Format.Tensors(m.Spec, strip, x.k), m.Format.Tensors(m.Spec, x.n, x.k)
	rows := m.random(x)
	stored := make([][]byte, len(small))
	for i, t := range small {
		stored[i] = make([]byte, bytes(t, 0))
	}
	err := m.Format.Pack(m.Spec, options, rows, 0, strip, func(tensor int, off int64, p []byte) error {
		copy(stored[tensor][off:], p)
		return nil
	})
	if err != nil {
		return nil, err
	}
	// A tensor that is as large whatever the rows may name their number: it is taken from the first strip of the whole.
	err = m.Format.Pack(m.Spec, options, rows, 0, x.n, func(tensor int, off int64, p []byte) error {
		if slices.Equal(small[tensor].Shape, whole[tensor].Shape) {
			copy(stored[tensor][off:], p)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	list := make([]pattern, len(small))
	for i := range small {
		dim := 0 // that grows with the rows
		for dim < len(small[i].Shape)-1 && small[i].Shape[dim] == whole[i].Shape[dim] {
			dim++
		}
		list[i] = pattern{stored[i], bytes(small[i], dim), bytes(whole[i], dim)}
	}
	m.known[x] = list
	return list, nil
}

// bytes returns the size of what the dimensions from dim on span.
func bytes(t quant.TensorSpec, dim int) int64 {
	n := int64(t.DType.Bits())
	for _, d := range t.Shape[dim:] {
		n *= int64(d)
	}
	return n / 8
}
