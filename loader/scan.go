package loader

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"nibble/build"
	"nibble/hf"
	"nibble/internal/parallel"
	"nibble/quant"
)

// Scan returns the faults of a build that vLLM loads without a word, and what else is worth knowing, those of the whole
// checkpoint first, then the modules in their order. Scales are read in full, codes only where they alone can show a
// fault; memory is bounded by a few strips of rows. An error is one of reading, or of the context.
func Scan(ctx context.Context, b *build.Build) ([]Finding, error) {
	list := layout(b)
	options := quantization(b)
	if int8Ignored(options) {
		list = append(list, newFinding(Int8Ignored, "", "", "4-bit weights and input_activations in config_groups").note())
	}
	s := &scan{Build: b, format: formatOf(b), options: options, rows: rowsOf(b)}
	modules := linears(b)
	found := make([][]Finding, len(modules))
	err := parallel.Each(ctx, len(modules), runtime.GOMAXPROCS(0), func(i int) (err error) {
		found[i], err = s.module(ctx, modules[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	biases, err := extraBiases(b)
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		list = append(list, f...)
	}
	return append(list, biases...), nil
}

// scan looks into the modules of a build. Its methods may run at once.
type scan struct {
	*build.Build
	format  string
	options gjson.Result
	rows    map[string]hf.Tensor
}

// strip is how many codes are read at once.
const strip = 1 << 22

// module looks for faults in the data of one module.
func (s *scan) module(ctx context.Context, module string) ([]Finding, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l := s.Linears[module]
	var list []Finding
	for _, name := range l.Tensors() {
		t, _ := s.Set.Lookup(name)
		if !t.DType.IsFloat() {
			continue
		}
		f, err := s.scales(module, t)
		switch {
		case err != nil:
			return nil, err
		case f != nil && f.Kind == NonFinite:
			return []Finding{*f}, nil // its rows cannot be read
		case f != nil:
			list = append(list, *f)
		}
	}
	f, err := s.convention(module, l)
	if err != nil {
		return nil, err
	}
	if f != nil {
		list = append(list, *f)
	}
	permuted, err := s.permuted(l)
	switch {
	case err != nil:
		return nil, err
	case permuted == "":
		more, err := s.codes(ctx, module, l)
		return append(list, more...), err
	case !announced(s.format, s.options):
		list = append(list, newFinding(ActOrder, module, permuted, "the groups of its columns are permuted"))
	}
	return list, nil
}

// permuted returns the name of the tensor that maps columns to groups, if it is not the natural map.
func (s *scan) permuted(l quant.Linear) (string, error) {
	i := slices.IndexFunc(l.Tensors(), func(name string) bool { return strings.HasSuffix(name, "g_idx") })
	if i < 0 {
		return "", nil
	}
	n, _ := l.Shape()
	m, err := l.Rows(0, min(n, 32))
	if err != nil || m.GroupOf == nil {
		return "", err
	}
	return l.Tensors()[i], nil
}

// convention looks at the constant zero points of a symmetric GPTQ module: M − 1 in v1, M in v2.
func (s *scan) convention(module string, l quant.Linear) (*Finding, error) {
	name := module + ".qzeros"
	spec := l.Spec()
	if _, stored := s.Set.Lookup(name); !stored || s.format != gptq || spec.Zero != quant.Symmetric {
		return nil, nil
	}
	var first [1]byte
	if err := s.Set.ReadAt(name, first[:], 0); err != nil {
		return nil, err
	}
	mask := 1<<spec.Bits - 1
	z := int(first[0]) & mask
	want := 1<<(spec.Bits-1) - 1
	if checkpointFormat(s.options) != "gptq" {
		want++
	}
	if z == want {
		return nil, nil
	}
	f := newFinding(OtherZeros, module, name, fmt.Sprintf("%d is stored, %s stores %d", z, checkpointFormat(s.options), want))
	if s.rows[module].Expert >= 0 && z > want {
		f.Effect = "vLLM takes the zero points of experts for 9"
	}
	return &f, nil
}

// codes reads the codes of a module of 4 bits whose zero points are absent or in doubt.
func (s *scan) codes(ctx context.Context, module string, l quant.Linear) ([]Finding, error) {
	spec, expect := l.Spec(), s.Reader.Expect(module)
	_, stored := s.Set.Lookup(module + ".qzeros")
	assumed := expect != nil && expect.Zero == quant.Symmetric && !stored && (s.format == gptq || s.format == awq)
	packed := s.format == compressed && spec.Zero == quant.Integer
	lossy := spec.Zero == quant.Integer && lossyZeros(s.format, s.options)
	if spec.Bits != 4 || !assumed && !packed && !lossy {
		return nil, nil
	}
	c, err := sumCodes(ctx, l)
	if err != nil {
		return nil, err
	}
	var list []Finding
	if packed && c.signed() {
		list = append(list, newFinding(SignedZeros, module, module+".weight_zero_point",
			fmt.Sprintf("in %d groups they miss the mean of the codes by %.1f on average, with the top bit flipped by %.1f",
				c.inner, c.stored/float64(c.inner), c.flipped/float64(c.inner))))
	}
	if assumed && c.asymmetric() {
		kind := AsymmetricGPTQ
		if s.format == awq {
			kind = AsymmetricAWQ
		}
		list = append(list, newFinding(kind, module, "", fmt.Sprintf("%d of %d groups use both ends of the range, and their means are off the middle by %.1f",
			c.both, c.groups, math.Sqrt(c.square/float64(c.groups)))))
	}
	if lossy && c.ones > 0 {
		list = append(list, newFinding(LostZero, module, module+".qzeros", fmt.Sprintf("%d groups have a zero point of 1", c.ones)).note())
	}
	return list, nil
}

// sumCodes reads a module in strips of rows.
func sumCodes(ctx context.Context, l quant.Linear) (*codes, error) {
	c := &codes{}
	n, k := l.Shape()
	step := max(strip/k/32*32, 32)
	for row := 0; row < n; row += step {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m, err := l.Rows(row, min(step, n-row))
		if err != nil {
			return nil, err
		}
		c.add(m)
	}
	return c, nil
}
