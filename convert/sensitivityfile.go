package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"

	"nibble/build"
)

// MaxSensitivity is the most bytes of an analysis in a file: some 800 for every matrix, and models have tens of thousands.
const MaxSensitivity = 256 << 20

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
					return nil, fmt.Errorf("%s: %d bits, group %d: a cost of %v", l.Name, c.Bits, c.Group, float64(*f))
				}
			}
		}
	}
	return s, nil
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
	for _, x := range []struct{ what, is, want string }{
		{"--format", s.Format, set.Format.Name()},
		{"zero points (--sym, --asym)", s.Zero, set.Spec.Zero.String()},
		{"--scale-dtype", s.Scale, set.Spec.Scale.String()},
		{"--signed-scale", fmt.Sprint(s.Signed), fmt.Sprint(set.Spec.Signed)},
	} {
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
