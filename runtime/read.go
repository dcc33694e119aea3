package runtime

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"nibble/build"
	gguf "nibble/gguf/block"
	"nibble/hf"
	"nibble/internal/half"
	"nibble/internal/kernel"
	"nibble/quant"
	"nibble/safetensors"
)

// reader lays the matrices of a build out in memory, several at a time.
type reader struct {
	b       *build.Build
	m       *Model
	threads int
	cpus    []int      // to which they are pinned
	mu      sync.Mutex // of the model's weights and columns
}

// take is arena.take for several threads.
func (l *reader) take(n int) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.m.weights.take(n)
}

// share is Model.share for several threads.
func (l *reader) share(c *columns) *columns {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.m.share(c)
}

// stripSize is about how many elements are read at a time: formats that keep columns together are slow in narrow strips.
const stripSize = 6 << 20

// strips runs f over n rows of k elements in strips.
func strips(n, k int, f func(row, rows int) error) error {
	per := max(readAhead, stripSize/k/readAhead*readAhead)
	for row := 0; row < n; row += per {
		if err := f(row, min(per, n-row)); err != nil {
			return err
		}
	}
	return nil
}

// source is where the rows of a matrix come from.
type source struct {
	*matrix
	name   string
	row0   int                             // first of its rows in the tensor
	linear quant.Linear                    // of a quantized matrix
	seen   []float32                       // scales and biases of some of its rows
	read   func(dst []byte, row int) error // rows of a matrix of floats
}

// open looks at rows row0 to row0+n of a row of the table; they are to be panels, unless floats are to stay as they are.
func (l *reader) open(t *hf.Tensor, row0, n int, panels bool) (*source, error) {
	s := &source{matrix: &matrix{n: n, k: t.In(), per: kernel.PanelRows}, name: t.Name, row0: row0}
	if t.Source == "" {
		s.linear = l.b.Linears[t.Module()]
		if s.linear == nil {
			return nil, fmt.Errorf("runtime: %s: its quantized tensors cannot be read", t.Name)
		}
		if rows, k := s.linear.Shape(); rows != t.Out() || k != s.k {
			return nil, fmt.Errorf("runtime: %s is [%d,%d], the model needs [%d,%d]", t.Name, rows, k, t.Out(), s.k)
		}
		return s, l.probe(s)
	}
	x, _ := l.b.Set.Lookup(t.Source)
	if !x.DType.IsFloat() || x.DType == safetensors.F64 {
		return nil, fmt.Errorf("runtime: %s is %s: weights are BF16, F16 or F32", t.Name, x.DType)
	}
	s.dtype = x.DType
	size := x.DType.Bits() / 8
	s.read = func(dst []byte, row int) error {
		return l.b.Set.ReadAt(t.Source, dst, (t.Offset+int64(row0+row)*int64(s.k))*int64(size))
	}
	if t.Transposed {
		var whole []byte
		s.read = func(dst []byte, row int) error {
			if whole == nil {
				raw := make([]byte, t.Out()*s.k*size)
				if err := l.b.Set.ReadAt(t.Source, raw, t.Offset*int64(size)); err != nil {
					return err
				}
				whole = transpose(raw, s.k, t.Out(), size)
			}
			copy(dst, whole[(row0+row)*s.k*size:])
			return nil
		}
	}
	if panels {
		s.storage, s.cols = pairs, l.share(newColumns([]int{0, s.k}))
	}
	return s, nil
}

// readAhead is what Linear.Rows wants the first row to be a multiple of.
const readAhead = 32

// probe learns from a few rows of a quantized matrix what all are like.
func (l *reader) probe(s *source) error {
	if x := l.levels(s); x != nil {
		s.storage, s.kind, s.cols = leveled, kinds[x.Kind()], l.share(newColumns(uniform(s.k, kernel.WidestBlock)))
		return nil
	}
	base := s.row0 / readAhead * readAhead
	x, err := s.linear.Rows(base, min(readAhead, s.row0+s.n-base))
	if err != nil {
		return err
	}
	s.bits, s.zero, s.storage, s.seen = x.Bits, x.Zero, codes4, slices.Concat(x.Scales, x.Bias)
	if s.bits > 4 {
		s.storage = codes8
	}
	if from, ok := s.linear.(levels); ok && l.m.Mode >= A8 && from.Kind() == gguf.IQ4_NL {
		s.storage = listed
	}
	starts := uniform(s.k, x.Group)
	if x.GroupOf != nil {
		starts, s.order = grouped(x.GroupOf, x.Groups())
	}
	s.cols = l.share(newColumns(starts))
	return nil
}

// twins reports whether two matrices can share panels, sixteen rows of each.
func (s *source) twins(o *source) bool {
	return s.storage != floats && s.storage == o.storage && s.n == o.n && s.cols == o.cols && s.bits == o.bits && s.zero == o.zero && s.kind == o.kind &&
		s.order == nil && o.order == nil
}

// lay reads a matrix, or two that share panels.
func (l *reader) lay(list ...*source) error {
	s := list[0]
	if s.storage == floats {
		size := s.dtype.Bits() / 8
		var err error
		if s.raw, err = l.take(s.n * s.k * size); err != nil {
			return err
		}
		return strips(s.n, s.k, func(row, rows int) error { return s.read(s.raw[row*s.k*size:(row+rows)*s.k*size], row) })
	}
	for i, x := range list {
		x.per = kernel.PanelRows / len(list)
		x.first = i * x.per
	}
	if s.storage == leveled {
		return l.layLevels(list)
	}
	if s.storage == pairs {
		raw, err := l.take(s.panels() * s.panelBytes())
		if err != nil {
			return err
		}
		for _, x := range list {
			x.raw = raw
			if err := x.fillPairs(); err != nil {
				return err
			}
		}
		return nil
	}
	return l.layCodes(list)
}

// layCodes reads codes into panels, those of two matrices that share them together. The type of scales is that of the rows that probe
// saw; where others have values that it does not hold, all begins again with a type that does.
func (l *reader) layCodes(list []*source) (err error) {
	var raw []byte
	var misfit, seen []float32
	for _, x := range list {
		seen = append(seen, x.seen...)
	}
	for {
		head := kernel.NewHead(smallest(seen), list[0].zero == quant.Integer, list[0].zero == quant.Float)
		for _, x := range list {
			x.head = head
		}
		if size := list[0].panels() * list[0].panelBytes(); size != len(raw) {
			if raw, err = l.take(size); err != nil {
				return err
			}
		}
		for _, x := range list {
			x.raw = raw
			if misfit, err = x.fillCodes(); err != nil {
				return err
			}
			if misfit != nil {
				break
			}
		}
		if misfit == nil {
			return nil
		}
		seen = append(seen, misfit...)
	}
}

// fillPairs reads floats into panels of bfloat16.
func (s *source) fillPairs() error {
	size := s.dtype.Bits() / 8
	values, short, padded := make([]float32, s.k), make([]byte, 2*s.k), make([]byte, 2*s.cols.padded)
	return strips(s.n, s.k, func(row, rows int) error {
		raw := make([]byte, rows*s.k*size)
		if err := s.read(raw, row); err != nil {
			return err
		}
		for i := range rows {
			from := raw[i*s.k*size : (i+1)*s.k*size]
			if s.dtype != safetensors.BF16 {
				quant.DecodeFloats(values, from, s.dtype)
				half.EncodeBF16(short, values)
				from = short
			}
			copy(padded, from)
			s.packPairs(row+i, padded)
		}
		return nil
	})
}

// fillCodes reads codes, scales, biases and zero points into panels, until scales or biases do not fit: it returns those.
func (s *source) fillCodes() (misfit []float32, err error) {
	base := s.row0 / readAhead * readAhead
	padded := make([]uint8, kernel.PanelRows*s.cols.padded)
	rowsOf := s.linear.Rows
	if s.storage == listed {
		rowsOf = s.linear.(numbered).Numbers
	}
	err = strips(s.row0+s.n-base, s.k, func(row, rows int) error {
		if misfit != nil {
			return nil
		}
		x, err := rowsOf(base+row, rows)
		if err != nil {
			return err
		}
		defer x.Recycle()
		h := heads{zeros: x.Zeros, groups: x.Groups()}
		for _, part := range []struct {
			to   *[]byte
			from []float32
		}{{&h.scales, x.Scales}, {&h.biases, x.Bias}} {
			var exact bool
			if *part.to, exact = encode(part.from, s.head.Type); !exact {
				misfit = part.from
				return nil
			}
		}
		for i := max(0, s.row0-base-row); i < rows; {
			r := base + row + i - s.row0
			n := s.packCodes(r, x.Codes[i*s.k:], padded)
			s.packHeads(r, &h, i, n)
			i += n
		}
		return nil
	})
	return misfit, err
}

// transpose turns [rows, cols] elements of size bytes into [cols, rows].
func transpose(src []byte, rows, cols, size int) []byte {
	dst := make([]byte, len(src))
	for r := range rows {
		for c := range cols {
			copy(dst[(c*rows+r)*size:(c*rows+r+1)*size], src[(r*cols+c)*size:])
		}
	}
	return dst
}

// grouped orders columns group by group, in file order inside a group, and returns where the groups start.
func grouped(groupOf []int32, groups int) (starts []int, order []int32) {
	starts = make([]int, groups+1)
	for _, g := range groupOf {
		starts[g+1]++
	}
	for i := range groups {
		starts[i+1] += starts[i]
	}
	next := slices.Clone(starts)
	order = make([]int32, len(groupOf))
	for col, g := range groupOf {
		order[next[g]] = int32(col)
		next[g]++
	}
	return starts, order
}

// smallest returns the smallest type that holds all values exactly.
func smallest(values []float32) kernel.Float {
	for _, f := range []kernel.Float{kernel.BFloat16, kernel.Float16} {
		if _, exact := encode(values, f); exact {
			return f
		}
	}
	return kernel.Float32
}

// encode returns values in a type, and whether it holds them exactly.
func encode(values []float32, f kernel.Float) (b []byte, exact bool) {
	b = make([]byte, len(values)*f.Size())
	back := make([]float32, len(values))
	switch f {
	case kernel.BFloat16:
		half.EncodeBF16(b, values)
		half.DecodeBF16(back, b)
	case kernel.Float16:
		half.EncodeF16(b, values)
		half.DecodeF16(back, b)
	default:
		half.EncodeF32(b, values)
		return b, true
	}
	for i, v := range values {
		if math.Float32bits(v) != math.Float32bits(back[i]) {
			return b, false
		}
	}
	return b, true
}

// vector reads a one-dimensional tensor as float32.
func (l *reader) vector(t *hf.Tensor) ([]float32, error) {
	x, _ := l.b.Set.Lookup(t.Source)
	if !x.DType.IsFloat() || x.DType == safetensors.F64 {
		return nil, fmt.Errorf("runtime: %s is %s: vectors are BF16, F16 or F32", t.Name, x.DType)
	}
	v := make([]float32, t.Elements())
	size := x.DType.Bits() / 8
	raw := make([]byte, len(v)*size)
	if err := l.b.Set.ReadAt(t.Source, raw, t.Offset*int64(size)); err != nil {
		return nil, err
	}
	quant.DecodeFloats(v, raw, x.DType)
	return v, nil
}
