package convert

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"nibble/build"
	"nibble/calib"
	"nibble/internal/version"
)

// MaxSensitivity is the most bytes of an analysis in a file: some 800 for every matrix, and models have tens of thousands.
const MaxSensitivity = 256 << 20

// empty is an analysis of no matrix.
func (p *SensitivityPlan) empty() *Sensitivity {
	s := &Sensitivity{Tool: "nibble " + version.String(), Version: SensitivityVersion, Format: p.formatName(), Rows: sensitivityRows,
		Model:       SensitivityModel{Architecture: p.Source.Arch.Name},
		Calibration: &CalibrationReport{Text: p.Calibration.Settings}}
	if p.Format != nil {
		s.Zero, s.Scale, s.Signed = p.Spec.Zero.String(), p.Spec.Scale.String(), p.Spec.Signed
	}
	return s
}

// describe is a matrix with its candidates, without costs.
func (x *linear) describe() LinearCost {
	c := LinearCost{Name: x.Name, Role: x.Role.String(), Layer: x.Layer, Shape: []int{x.N, x.K}, Fused: x.Fused, Candidates: []CandidateCost{}}
	if x.Expert >= 0 {
		c.Expert = &x.Expert
	}
	for _, part := range x.Tensor.Parts {
		c.Parts = append(c.Parts, part.Module)
	}
	for _, y := range x.candidates {
		z := CandidateCost{Type: y.kind, BitsPerWeight: y.size}
		if y.kind == "" {
			z.Bits, z.Group = y.spec.Bits, y.spec.Group
		}
		c.Candidates = append(c.Candidates, z)
	}
	return c
}

// sensitivity fills in what is known of all matrices.
func (p *SensitivityPlan) sensitivity(model string, q *calib.Sequences, text [][]int32) *Sensitivity {
	s := p.empty()
	s.Model.SHA256 = model
	s.Calibration.set(q)
	if text != nil {
		x := calib.Sequences{IDs: text}
		s.Measured = &SensitivityText{len(text), x.Tokens(), x.Digest()}
	}
	var losses, divergences []float64
	for _, x := range p.all() {
		c := x.describe()
		for i, y := range x.candidates {
			z := &c.Candidates[i]
			if first := x.candidates[x.measured]; y.known {
				z.Loss = figure(y.loss)
				if text != nil && (i == x.measured || first.loss > 0) {
					kl := x.kl
					if i != x.measured {
						kl *= y.loss / first.loss
					} else if x.Role.Linear() {
						losses, divergences = append(losses, y.loss), append(divergences, kl)
					}
					z.KL, z.Measured = figure(kl), i == x.measured
				}
			}
		}
		s.Linears = append(s.Linears, c)
	}
	if r, ok := spearman(losses, divergences); ok {
		s.Correlation = figure(r)
	}
	return s
}

// Unmeasured is what an analysis will be but for its costs, of which the larger candidates have less: what budgets it can serve does not
// depend on more.
func (p *SensitivityPlan) Unmeasured() *Sensitivity {
	s := p.empty()
	if p.Tokens > 0 {
		s.Measured = new(SensitivityText)
	}
	for _, x := range p.all() {
		c := x.describe()
		for i := range c.Candidates {
			y := &c.Candidates[i]
			y.Loss = figure(1 / y.BitsPerWeight)
			y.KL = y.Loss
		}
		s.Linears = append(s.Linears, c)
	}
	return s
}

func figure(v float64) *Figure {
	f := Figure(v)
	return &f
}

// Encode writes the analysis as JSON, one matrix a line.
func (s *Sensitivity) Encode() ([]byte, error) {
	head := *s
	head.Linears = nil
	raw, err := json.MarshalIndent(head, "", "  ")
	if err != nil {
		return nil, err
	}
	var lines []string
	for i := range s.Linears {
		line, err := json.Marshal(&s.Linears[i])
		if err != nil {
			return nil, err
		}
		lines = append(lines, "    "+string(line))
	}
	return fmt.Appendf(bytes.TrimSuffix(raw, []byte("null\n}")), "[\n%s\n  ]\n}\n", strings.Join(lines, ",\n")), nil
}

// ParseSensitivity reads what Encode wrote.
func ParseSensitivity(raw []byte) (*Sensitivity, error) {
	s := new(Sensitivity)
	if err := decodeOwn(raw, MaxSensitivity, s); err != nil {
		return nil, fmt.Errorf("not what --sensitivity writes: %w", err)
	}
	if s.Version != SensitivityVersion {
		return nil, fmt.Errorf("version %d of the schema: this program reads %d", s.Version, SensitivityVersion)
	}
	seen := map[string]bool{}
	for i := range s.Linears {
		l := &s.Linears[i]
		if seen[l.Name] {
			return nil, fmt.Errorf("%s stands there twice", l.Name)
		}
		if seen[l.Name] = true; len(l.Shape) != 2 || l.Shape[0] < 1 || l.Shape[1] < 1 {
			return nil, fmt.Errorf("%s: a matrix of shape %v", l.Name, l.Shape)
		}
		for _, c := range l.Candidates {
			for _, f := range []*Figure{c.Loss, c.KL} {
				if f != nil && (*f < 0 || math.IsInf(float64(*f), 0)) {
					return nil, fmt.Errorf("%s: %s: a cost of %v", l.Name, c.grid(), float64(*f))
				}
			}
		}
	}
	return s, nil
}

// grid names a candidate.
func (c *CandidateCost) grid() string {
	if c.Type != "" {
		return fmt.Sprintf("type %.20q", c.Type)
	}
	return fmt.Sprintf("%d bits, group %d", c.Bits, c.Group)
}

// digest is the SHA-256 of an analysis as Encode writes it.
func (s *Sensitivity) digest() (string, error) {
	raw, err := s.Encode()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// Fits refuses an analysis of another model, or of another grid than that of the settings.
func (s *Sensitivity) Fits(src *build.Build, set Settings) error {
	grid := []struct{ what, is, want string }{
		{"--format", s.Format, set.formatName()},
		{"zero points (--sym, --asym)", s.Zero, set.Spec.Zero.String()},
		{"--scale-dtype", s.Scale, set.Spec.Scale.String()},
		{"--signed-scale", fmt.Sprint(s.Signed), fmt.Sprint(set.Spec.Signed)},
	}
	if set.Format == nil {
		grid = grid[:1]
	}
	for _, x := range grid {
		if x.is != x.want {
			return fmt.Errorf("it was made for another grid: %s %s, the build has %s", x.what, x.is, x.want)
		}
	}
	sum, err := ModelDigest(src)
	if err != nil {
		return err
	}
	if s.Model.SHA256 != sum {
		return fmt.Errorf("it is of another model: a %s with SHA-256 %.12s…, this one's is %.12s…", s.Model.Architecture, s.Model.SHA256, sum)
	}
	return nil
}
