package convert

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"nibble/build"
	"nibble/fidelity"
	"nibble/hf"
	"nibble/loader"
	"nibble/quant"
	"nibble/safetensors"
)

// SensitivityVersion is that of the schema of Sensitivity.
const SensitivityVersion = 1

// Sensitivity says what it costs to quantize each linear layer of a model. The same input and settings give the same bytes.
type Sensitivity struct {
	Tool        string             `json:"tool"`
	Version     int                `json:"version"`
	Model       SensitivityModel   `json:"model"`
	Format      string             `json:"format"`
	Zero        string             `json:"zero,omitempty"`
	Scale       string             `json:"scale_dtype,omitempty"`
	Signed      bool               `json:"signed_scale"`
	Calibration *CalibrationReport `json:"calibration"`
	Rows        int                `json:"rows"`             // of a matrix from which losses are taken, at most
	Measured    *SensitivityText   `json:"measured"`         // null: without measuring
	Correlation *Figure            `json:"rank_correlation"` // Spearman's, of loss and KL of the measured candidates
	Linears     []LinearCost       `json:"linears"`
}

// SensitivityModel identifies the source.
type SensitivityModel struct {
	Architecture string `json:"architecture"`
	SHA256       string `json:"sha256"` // see ModelDigest
}

// SensitivityText is what KL divergences were measured on: the first tokens of calibration sequences.
type SensitivityText struct {
	Sequences int    `json:"sequences"`
	Tokens    int    `json:"tokens"`
	SHA256    string `json:"sha256"`
}

// LinearCost is one matrix of the checkpoint; what the checkpoint has fused counts as one.
type LinearCost struct {
	Name       string          `json:"name"` // of the module
	Role       string          `json:"role"`
	Layer      int             `json:"layer"`
	Expert     *int            `json:"expert,omitempty"`
	Shape      []int           `json:"shape"`
	Fused      string          `json:"fused,omitempty"` // what servers fuse it into: all of that have one width
	Parts      []string        `json:"parts,omitempty"` // modules that it becomes where loaders want them apart
	Candidates []CandidateCost `json:"candidates"`      // from the fewest bits per weight to the most; empty if the format has none
}

// CandidateCost is what one width and group costs a matrix, or one type of a GGUF file.
type CandidateCost struct {
	Type          string  `json:"type,omitempty"`
	Bits          int     `json:"bits,omitempty"`
	Group         int     `json:"group,omitempty"` // -1: the whole row
	BitsPerWeight float64 `json:"bits_per_weight"`
	Loss          *Figure `json:"loss"`               // Σ e H eᵀ / Σ w H wᵀ; null if the inputs are all zero
	KL            *Figure `json:"kl"`                 // in nats for a token; null without measuring
	Measured      bool    `json:"measured,omitempty"` // KL is not scaled from that of another candidate
}

// Measured returns the candidate with which a matrix was measured, or would be; nil if it has none.
func (l *LinearCost) Measured() *CandidateCost {
	if len(l.Candidates) == 0 {
		return nil
	}
	at := slices.IndexFunc(l.Candidates, func(c CandidateCost) bool { return c.BitsPerWeight >= leastMeasured })
	return &l.Candidates[max(at, 0)]
}

// SensitivityPlan is everything about an analysis that is known before weights are read.
type SensitivityPlan struct {
	Settings
	Source *build.Build
	Tokens int // to measure KL on; 0: it is not measured

	linears []*linear
	embed   *linear // an embedding that is no head; nil: the format or the target has none that is quantized
	head    *linear // likewise, or the table that the two share
}

// The candidates, and how losses and divergences are taken.
const (
	sensitivityRows   = 256 // of a matrix, evenly spaced
	measuredLength    = 128 // tokens of a sequence
	affordable        = 1e14
	mostMeasureTokens = 1 << 20
	leastMeasured     = 4 // bits per weight of a candidate that KL is measured with: with fewer it is not quadratic in errors
)

var (
	candidateBits   = []int{4, 8}
	candidateGroups = []int{-1, 128, 64, 32}
)

// linear is a matrix under analysis.
type linear struct {
	Item
	candidates []candidate
	segments   []segment
	weights    [][]float32 // of the columns' errors, of every segment
	sums       [][]float64 // see proxy
	measured   int         // the candidate that KL is measured with
	kl         float64     // of it
}

// candidate is a width and a group that the format can hold, or a type.
type candidate struct {
	spec  quant.Spec
	kind  string // of a GGUF file
	empty func(n, k int) *quant.Matrix
	solve quant.Solver
	size  float64 // bits per weight, all tensors counted
	loss  float64
	known bool // the inputs were not all zero
}

// NewSensitivity finds the linear layers and their candidates. With tokens < 0 KL is measured on that many tokens only if the
// model is small enough, see Work.
func NewSensitivity(src *build.Build, s Settings, tokens int) (*SensitivityPlan, error) {
	switch {
	case src.Reader != nil:
		return nil, fmt.Errorf("convert: %s is %w (%s); what quantization costs is found in the original", src.In("config.json"), ErrQuantized, src.Reader.Format())
	case s.Calibration == nil:
		return nil, errors.New("convert: sensitivity needs a calibration text")
	case max(tokens, -tokens) > mostMeasureTokens:
		return nil, fmt.Errorf("convert: %d tokens to measure on: at most %d", max(tokens, -tokens), mostMeasureTokens)
	}
	p := &SensitivityPlan{Settings: s, Source: src}
	fits := false
	var refusal error
	for _, t := range src.Tensors {
		if !t.Role.Linear() {
			continue
		}
		x, refused, err := p.linear(t)
		if err != nil {
			return nil, err
		}
		if refused != nil {
			refusal = refused
		}
		fits = fits || len(x.candidates) > 0
		p.linears = append(p.linears, x)
	}
	if err := p.addEnds(); err != nil {
		return nil, err
	}
	if !fits {
		return nil, fmt.Errorf("convert: no linear layer has a candidate that %s can hold: %w", s.formatName(), refusal)
	}
	if p.Tokens = tokens; tokens < 0 {
		if p.Tokens = -tokens; p.Work() > affordable {
			p.Tokens = 0
		}
	}
	return p, p.memory()
}

// formatName names the format.
func (s *Settings) formatName() string {
	if s.Format == nil {
		return "gguf"
	}
	return s.Format.Name()
}

// linear returns a matrix to judge, and why a candidate was refused.
func (p *SensitivityPlan) linear(t hf.Tensor) (x *linear, refusal, err error) {
	x = &linear{Item: Item{Tensor: t, Module: loader.NewModule(&t)}}
	if x.rows, err = newRows(p.Source.Model, t); err != nil {
		return nil, nil, err
	}
	x.candidates, refusal = candidates(p.Settings, x.N, x.K)
	x.measured = max(slices.IndexFunc(x.candidates, func(c candidate) bool { return c.size >= leastMeasured }), 0)
	return x, refusal, nil
}

// candidates lists what a format can hold of a matrix [n, k], the coarsest first. The error is why the last that it cannot hold
// was refused.
func candidates(s Settings, n, k int) (list []candidate, refusal error) {
	if s.Format == nil {
		return blockCandidates(k)
	}
	for _, bits := range candidateBits {
		whole := false // the row as one group is a candidate
		for _, group := range candidateGroups {
			c := candidate{spec: s.Spec}
			c.spec.Bits, c.spec.Group, c.spec.Method = bits, group, quant.Search
			c.empty = func(n, k int) *quant.Matrix { return quant.NewMatrix(n, k, bits, c.spec.GroupSize(k), c.spec.Zero) }
			if group > k || group == k && whole {
				continue
			}
			var err error
			if c.solve, err = s.Format.Solver(c.spec); err == nil {
				err = s.Format.CheckShape(c.spec, n, k)
			}
			if err != nil {
				refusal = err
				continue
			}
			var bits int64
			for _, x := range s.Format.Tensors(c.spec, n, k) {
				bits += 8 * bytesOf(safetensors.Spec{DType: x.DType, Shape: x.Shape})
			}
			c.size = float64(bits) / (float64(n) * float64(k))
			list = append(list, c)
			whole = whole || group == -1
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(a.size, b.size) })
	return list, refusal
}

// Work is about how many multiplications and additions measuring takes: every change goes through half of the layers and the
// head. Up to 1e14 of them it is done unless asked otherwise: minutes on a few cores.
func (p *SensitivityPlan) Work() float64 {
	a := p.Source.Arch
	layers := 0.0
	for _, x := range p.linears {
		n := float64(x.N) * float64(x.K)
		if x.Expert >= 0 && a.Experts > 0 {
			n *= float64(a.TopK) / float64(a.Experts)
		}
		layers += n
	}
	return 2 * float64(p.changes()) * float64(p.Tokens) * (float64(layers/2) + float64(float64(a.Hidden)*float64(a.Vocab)))
}

// changes is the number of matrices that are measured.
func (p *SensitivityPlan) changes() (n int) {
	for _, x := range p.all() {
		if len(x.candidates) > 0 && x != p.head {
			n++
		}
	}
	return n
}

// Memory is about what an analysis takes beside the page cache: moments of the widest inputs with their forms, and to measure
// the residual streams of all changes, one layer twice, and the distributions of the head.
func (p *SensitivityPlan) Memory() int64 {
	a := p.Source.Arch
	threads := int64(max(p.Threads, 1))
	var wide, largest, down int64
	for _, x := range p.linears {
		wide, largest = max(wide, int64(x.K)), max(largest, int64(x.N)*int64(x.K))
		if x.Role == hf.Down {
			down = max(down, int64(x.K))
		}
	}
	d, layer, head := int64(a.Hidden), p.layerMemory(), p.headMemory()
	begin := tokenizerMemory(p.Source) + baseMemory
	most := begin + max(48*d*d, 24*wide*wide) + layer + threads*wide*(4*solveRows*8)
	lanes := threads * laneBytes(a.Hidden, int(down))
	if p.Tokens == 0 {
		return most + lanes
	}
	most += lanes + largest + layer
	changes := p.changes()
	if p.head != nil { // its codes wait for the end
		most, changes = most+d*int64(a.Vocab), changes+1
	}
	if p.Format == nil { // blocks beside the codes
		most += d * int64(a.Vocab)
	}
	return max(most, begin+head+fidelity.HeadBytes(int(threads), a.Vocab)) + fidelity.StreamBytes(changes, p.Tokens, a.Hidden)
}

// layerMemory is what the matrices of the largest layer take in bfloat16.
func (p *SensitivityPlan) layerMemory() int64 {
	layers := make([]int64, p.Source.Arch.Layers)
	for _, x := range p.linears {
		layers[x.Layer] += 2 * int64(x.N) * int64(x.K)
	}
	return slices.Max(layers)
}

// headMemory is what the head takes, twice where it is measured.
func (p *SensitivityPlan) headMemory() int64 {
	n := 2 * int64(p.Source.Arch.Hidden) * int64(p.Source.Arch.Vocab)
	if p.head != nil {
		n *= 2
	}
	return n
}

// HeapLimit is how much of MaxMemory the heap may take, beside the program and matrices; 0: there is no limit.
func (p *SensitivityPlan) HeapLimit() int64 {
	outside := p.layerMemory()
	if p.Tokens > 0 {
		outside = max(2*outside, p.headMemory())
	}
	return heapLimit(p.MaxMemory, outside)
}

// memory holds it against what is allowed.
func (p *SensitivityPlan) memory() error {
	need := p.Memory()
	if p.MaxMemory == 0 || need <= p.MaxMemory {
		return nil
	}
	what := "fewer --threads"
	if p.Tokens > 0 {
		what = fmt.Sprintf("%d MB of it are for %d changes over %d tokens: fewer --sensitivity-tokens or --threads, or --sensitivity-measure=false",
			fidelity.StreamBytes(p.changes(), p.Tokens, p.Source.Arch.Hidden)/1e6, p.changes(), p.Tokens)
	}
	return p.outOfMemory("sensitivity needs about %d MB; %s", need/1e6+1, what)
}

// Costs returns the bytes and the layer of every module, for the progress display.
func (p *SensitivityPlan) Costs() (bytes map[string]int64, layers map[string]string) {
	bytes, layers = map[string]int64{}, map[string]string{}
	for _, x := range p.all() {
		bytes[x.Name], layers[x.Name] = x.cost(), layerName(&x.Tensor)
	}
	if p.Tokens > 0 {
		bytes[headJob], layers[headJob] = p.headCost(), "KL divergence"
	}
	return bytes, layers
}

// headJob is what the progress display is told of the comparison of distributions.
const headJob = "head"

// headCost counts the head, through which every change goes, as much as matrices through which half of them go.
func (p *SensitivityPlan) headCost() int64 {
	return 4 * int64(p.Source.Arch.Hidden) * int64(p.Source.Arch.Vocab)
}

// cost is the bytes of a matrix in the source.
func (x *linear) cost() int64 { return int64(x.N) * int64(x.K) * int64(x.rows.elements) }

// ModelDigest is the SHA-256 of a model's config.json and of the names, sizes and bytes of its weight files.
func ModelDigest(b *build.Build) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%d\n%s\n", len(b.Config.Raw()), b.Config.Raw())
	for _, f := range b.Set.Files() {
		fmt.Fprintf(h, "%s %d\n", f.Name, f.File.Size())
		in, err := b.FS.Open(f.Name)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(h, in)
		if err := errors.Join(err, in.Close()); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
