package hf

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"nibble/safetensors"
)

// Model is an opened checkpoint: every tensor of its table has a place, every tensor of its files a row.
type Model struct {
	*Folder
	Config *Config
	Arch   *Architecture
	Set    *safetensors.Set

	// Tensors are the rows of the table that the checkpoint holds, in the order of the table, then the tensors that
	// the table does not know, as role Other.
	Tensors []Tensor
	Notes   []string // contradictions that were decided, in whole sentences
	Missing []string // matrices that a quantized checkpoint lacks; in a plain one that is an error
	Stacked bool     // experts are stored in stacked tensors
}

// Options decide what a checkpoint leaves open.
type Options struct {
	Generic bool   // no table: take every 2-D *.weight that looks like a linear
	Tie     string // "yes": head and embedding are one; "no": the head is its own; "": as config and file agree
	Vocab   string // embedding longer than vocab_size: "config" drops rows, "file" keeps them; "": refuse

	// Owner maps every tensor that belongs to a quantized module to that module.
	Owner map[string]string
	// Quantized is the set of quantized modules.
	Quantized map[string]bool
}

// Carry is Folder.Carry without the files that the model was read from.
func (m *Model) Carry() (carry, skipped []string) {
	carry, skipped = m.Folder.Carry()
	for _, f := range m.Set.Files() {
		skipped = slices.DeleteFunc(skipped, func(name string) bool { return name == f.Name })
	}
	return carry, skipped
}

// Stored returns the files that hold the weights.
func (m *Model) Stored() []StoredFile {
	list := m.Origin
	if list == nil {
		for _, f := range m.Set.Files() {
			list = append(list, StoredFile{f.Name, f.File.Size(), len(f.File.Tensors())})
		}
	}
	return list
}

// ErrMismatch is the cause where a checkpoint contradicts its config.
var ErrMismatch = errors.New("checkpoint and config disagree")

// Open resolves the table of a folder's architecture against its weights.
func Open(f *Folder, set *safetensors.Set, o Options) (*Model, error) {
	raw := f.Config
	if raw == nil {
		if !o.Generic {
			return nil, fmt.Errorf("hf: %s: %w: no config.json beside the weights (--arch generic does without)", f.Path, ErrNoModel)
		}
		raw = []byte("{}\n")
	}
	c, err := ParseConfig(raw)
	if err != nil {
		return nil, err
	}
	m := &Model{Folder: f, Config: c, Set: set}
	if o.Generic {
		m.generic(o)
		return m, nil
	}
	best := -1
	var arch *Architecture
	for _, n := range namings(c) {
		a, err := describe(c, n)
		if err != nil {
			return nil, err
		}
		if found := m.count(a); found > best {
			best, arch = found, a
		}
		if best == len(arch.Tensors) {
			break
		}
	}
	m.Arch = arch
	if err := m.resolve(o); err != nil {
		return nil, err
	}
	return m, nil
}

// namings lists the prefixes to try for a config.
func namings(c *Config) []naming {
	if c.Architecture() == "GPT2LMHeadModel" || c.get("model_type").String() == "gpt2" {
		return []naming{{"transformer.", "lm_head"}, {"", "lm_head"}}
	}
	return []naming{{"model.", "lm_head"}, {"language_model.model.", "language_model.lm_head"}, {"model.language_model.", "lm_head"}}
}

// count returns how many rows of a table the files hold by name.
func (m *Model) count(a *Architecture) int {
	n := 0
	for i := range a.Tensors {
		if _, ok := m.Set.Lookup(a.Tensors[i].Name); ok {
			n++
		}
	}
	return n
}

// resolve gives every row of the table its place and finds the tensors that no row names.
func (m *Model) resolve(o Options) error {
	used := map[string]bool{}
	var missing []string
	for i := range m.Arch.Tensors {
		t := m.Arch.Tensors[i]
		switch ok, err := m.place(&t, o, used); {
		case err != nil:
			return err
		case ok:
			m.Tensors = append(m.Tensors, t)
		case m.apart(&t, o, used):
		case t.optional:
		case o.Quantized != nil && (t.Role >= Q || t.Role == Embedding):
			m.Missing = append(m.Missing, t.Name)
		default:
			missing = append(missing, t.Name)
		}
	}
	if err := m.heads(o, &missing); err != nil {
		return err
	}
	if len(missing) > 0 {
		more := ""
		if len(missing) > 3 {
			more = fmt.Sprintf(" and %d more", len(missing)-3)
			missing = missing[:3]
		}
		return fmt.Errorf("hf: %s: %w: %s of %s missing: %s%s", m.In(m.Weights), ErrMismatch,
			map[bool]string{true: "a tensor", false: "tensors"}[len(missing) == 1], m.Arch.Name, strings.Join(missing, ", "), more)
	}
	return m.others(o, used)
}

// place looks for a tensor under its own name, then inside the stacked tensor of its layer, then among the quantized.
func (m *Model) place(t *Tensor, o Options, used map[string]bool) (bool, error) {
	if x, ok := m.Set.Lookup(t.Name); ok && o.Owner[t.Name] == "" {
		used[t.Name] = true
		if !x.DType.IsFloat() && t.Role != Buffer {
			if o.Quantized != nil && t.Role >= Q {
				return false, nil // codes whose scales are missing
			}
			return false, fmt.Errorf("hf: %s: %w: %s is %s: weights are BF16, F16, F32 or F64", m.In(m.Weights), ErrMismatch, t.Name, x.DType)
		}
		t.Source = t.Name
		return true, m.shape(t, x, o)
	}
	if x, ok := m.Set.Lookup(t.stacked); ok && t.stacked != "" {
		used[t.stacked] = true
		t.Source, t.Offset = t.stacked, t.at
		m.Stacked = m.Stacked || t.Expert >= 0
		if !slices.Equal(x.Shape, t.stack) {
			return false, m.wrongShape(x, t.stack)
		}
		return true, nil
	}
	return t.Role.Matrix() && o.Quantized[t.Module()], nil
}

// shape compares a tensor with its row. A vocabulary may be padded.
func (m *Model) shape(t *Tensor, x safetensors.Tensor, o Options) error {
	if slices.Equal(x.Shape, t.Shape) {
		return nil
	}
	padded := (t.Role == Embedding || t.Role == Head) && len(x.Shape) == 2 && x.Shape[1] == t.Shape[1] && x.Shape[0] > t.Shape[0]
	switch {
	case !padded:
		return m.wrongShape(x, t.Shape)
	case o.Vocab == "config": // the first vocab_size rows
		return nil
	case o.Vocab == "file":
		t.Shape = x.Shape
		var err error
		m.Arch.Vocab = x.Shape[0]
		m.Config, err = m.Config.Set("vocab_size", fmt.Append(nil, x.Shape[0]))
		return err
	}
	return fmt.Errorf("hf: %s: %w: %s has %d rows, config.json's vocab_size is %d; --vocab config drops the surplus rows, --vocab file keeps them and raises vocab_size",
		m.In(m.Weights), ErrMismatch, t.Name, x.Shape[0], t.Shape[0])
}

func (m *Model) wrongShape(x safetensors.Tensor, want []int) error {
	return fmt.Errorf("hf: %s: %w: %s is %v, config.json demands %v", m.In(m.Weights), ErrMismatch, x.Name, x.Shape, want)
}

// apart takes the parts of a fused matrix that the checkpoint holds one by one.
func (m *Model) apart(t *Tensor, o Options, used map[string]bool) bool {
	var parts []Tensor
	for _, p := range t.Parts {
		x := *t
		x.Name, x.Shape, x.Role = p.Module+".weight", []int{p.Rows, t.Shape[1]}, p.Role
		x.Parts, x.PartOf = nil, t.Name
		if ok, err := m.place(&x, o, used); !ok || err != nil {
			return false
		}
		parts = append(parts, x)
	}
	m.Tensors = append(m.Tensors, parts...)
	return len(parts) > 0
}

// others adds the tensors that no row of the table names. Those of a layer that the config does not have contradict it.
func (m *Model) others(o Options, used map[string]bool) error {
	prefix := m.layerPrefix()
	for _, x := range m.Set.Tensors() {
		if rest, ok := strings.CutPrefix(x.Name, prefix); ok && prefix != "" {
			number, _, _ := strings.Cut(rest, ".")
			if n, err := strconv.Atoi(number); err == nil && n >= m.Arch.Layers {
				return fmt.Errorf("hf: %s: %w: there is %s, config.json has %d layers", m.In(m.Weights), ErrMismatch, x.Name, m.Arch.Layers)
			}
		}
		if used[x.Name] || o.Owner[x.Name] != "" {
			continue
		}
		m.Tensors = append(m.Tensors, Tensor{Name: x.Name, Shape: x.Shape, Role: Other, Layer: -1, Expert: -1, Source: x.Name})
	}
	return nil
}

// layerPrefix is what the names of a layer's tensors have before the number of the layer.
func (m *Model) layerPrefix() string {
	for i := range m.Arch.Tensors {
		if t := &m.Arch.Tensors[i]; t.Layer == 0 {
			if at := strings.Index(t.Name, ".0."); at >= 0 {
				return t.Name[:at+1]
			}
		}
	}
	return ""
}

// Row returns the row of the first tensor with the role, or nil.
func (m *Model) Row(r Role) *Tensor { return first(m.Tensors, r) }

// Row returns the first row with the role, or nil.
func (a *Architecture) Row(r Role) *Tensor { return first(a.Tensors, r) }

func first(list []Tensor, r Role) *Tensor {
	for i := range list {
		if list[i].Role == r {
			return &list[i]
		}
	}
	return nil
}

// heads decides what embedding and head are. After it, a tied model has no row for the head, and the embedding of a
// model that stores only the head is found in it.
func (m *Model) heads(o Options, missing *[]string) error {
	embed, head := m.Row(Embedding), m.Row(Head)
	tied := m.Arch.Tied
	drop := func(r Role) {
		m.Tensors = slices.DeleteFunc(m.Tensors, func(t Tensor) bool { return t.Role == r })
	}
	say := func(format string, args ...any) { m.Notes = append(m.Notes, fmt.Sprintf(format, args...)) }
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("hf: %s: %w: "+format, append([]any{m.In(m.Weights), ErrMismatch}, args...)...)
	}
	switch {
	case embed == nil && head != nil && (tied || o.Tie == "yes") && o.Tie != "no" && head.Source != "":
		say("%s is missing and the model is tied: %s is used for both (--tie no refuses)", m.Arch.Row(Embedding).Name, head.Name)
		e := *m.Arch.Row(Embedding)
		e.Source, e.Offset, e.Shape = head.Source, head.Offset, head.Shape
		drop(Head)
		m.Tensors = slices.Insert(m.Tensors, 0, e)
		*missing = slices.DeleteFunc(*missing, func(name string) bool { return name == e.Name })
	case embed == nil:
		return nil // named among the missing
	case head == nil && !tied && o.Tie == "yes":
		say("%s is missing although the config does not tie it: --tie yes takes %s", m.Arch.Row(Head).Name, embed.Name)
		*missing = slices.DeleteFunc(*missing, func(name string) bool { return name == m.Arch.Row(Head).Name })
		return m.setTied(true)
	case head == nil && o.Quantized != nil:
		return nil // tied, or among m.Missing
	case head == nil && !tied:
		return refuse("tie_word_embeddings is false but there is no %s; --tie yes takes %s for it", m.Arch.Row(Head).Name, embed.Name)
	case head == nil && o.Tie == "no":
		return refuse("--tie no, but there is no %s", m.Arch.Row(Head).Name)
	case head == nil:
		return nil
	case o.Tie == "yes":
		if !tied {
			say("%s is dropped: --tie yes", head.Name)
		}
		drop(Head)
		return m.setTied(true)
	case tied && o.Tie == "no":
		say("tie_word_embeddings is true but %s is there: --tie no keeps it", head.Name)
		return m.setTied(false)
	case tied && (embed.Source == "" || head.Source == ""):
		return m.setTied(false) // a quantized head is never the embedding
	case tied:
		same, err := m.equal(embed, head)
		if err != nil {
			return err
		}
		if !same {
			return refuse("tie_word_embeddings is true but %s differs from %s; --tie no keeps it, as transformers 5 does, --tie yes drops it", head.Name, embed.Name)
		}
		drop(Head)
	}
	return nil
}

// HeadIsEmbedding reports whether the model stores a head of its own that has the very bytes of the embedding.
func (m *Model) HeadIsEmbedding() (bool, error) {
	embed, head := m.Row(Embedding), m.Row(Head)
	if embed == nil || head == nil || embed.Source == "" || head.Source == "" {
		return false, nil
	}
	return m.equal(embed, head)
}

func (m *Model) setTied(tied bool) (err error) {
	m.Arch.Tied = tied
	m.Config, err = m.Config.Set("tie_word_embeddings", fmt.Append(nil, tied))
	return err
}

// equal compares the stored bytes of two tensors.
func (m *Model) equal(a, b *Tensor) (bool, error) {
	x, _ := m.Set.Lookup(a.Source)
	y, _ := m.Set.Lookup(b.Source)
	if x.DType != y.DType || x.Bytes() != y.Bytes() {
		return false, nil
	}
	const chunk = 1 << 20
	p, q := make([]byte, chunk), make([]byte, chunk)
	for off := int64(0); off < x.Bytes(); off += chunk {
		n := min(chunk, x.Bytes()-off)
		if err := m.Set.ReadAt(a.Source, p[:n], off); err != nil {
			return false, err
		}
		if err := m.Set.ReadAt(b.Source, q[:n], off); err != nil {
			return false, err
		}
		if !bytes.Equal(p[:n], q[:n]) {
			return false, nil
		}
	}
	return true, nil
}
