package runtime

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"nibble/build"
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
const stripSize = 12 << 20

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

// matrix reads rows row0 to row0+n of a row of the table; as panels, unless rows are to stay as they are in the file.
func (l *reader) matrix(t *hf.Tensor, row0, n int, panels bool) (*matrix, error) {
	m := &matrix{n: n, k: t.In()}
	if t.Source == "" {
		linear := l.b.Linears[t.Module()]
		if linear == nil {
			return nil, fmt.Errorf("runtime: %s: its quantized tensors cannot be read", t.Name)
		}
		if rows, k := linear.Shape(); rows != t.Out() || k != m.k {
			return nil, fmt.Errorf("runtime: %s is [%d,%d], the model needs [%d,%d]", t.Name, rows, k, t.Out(), m.k)
		}
		return m, l.codes(m, linear, row0)
	}
	x, _ := l.b.Set.Lookup(t.Source)
	if !x.DType.IsFloat() || x.DType == safetensors.F64 {
		return nil, fmt.Errorf("runtime: %s is %s: weights are BF16, F16 or F32", t.Name, x.DType)
	}
	m.dtype = x.DType
	size := x.DType.Bits() / 8
	read := func(dst []byte, row int) error {
		return l.b.Set.ReadAt(t.Source, dst, (t.Offset+int64(row0+row)*int64(m.k))*int64(size))
	}
	if t.Transposed {
		whole := make([]byte, t.Out()*m.k*size)
		if err := l.b.Set.ReadAt(t.Source, whole, t.Offset*int64(size)); err != nil {
			return nil, err
		}
		whole = transpose(whole, m.k, t.Out(), size)
		read = func(dst []byte, row int) error {
			copy(dst, whole[(row0+row)*m.k*size:])
			return nil
		}
	}
	if !panels {
		var err error
		if m.raw, err = l.take(n * m.k * size); err != nil {
			return nil, err
		}
		return m, strips(n, m.k, func(row, rows int) error { return read(m.raw[row*m.k*size:(row+rows)*m.k*size], row) })
	}
	m.storage, m.cols = pairs, l.share(newColumns([]int{0, m.k}))
	var err error
	if m.raw, err = l.take(panelCount(n) * m.panelBytes()); err != nil {
		return nil, err
	}
	return m, strips(n, m.k, func(row, rows int) error {
		raw := make([]byte, rows*m.k*size)
		if err := read(raw, row); err != nil {
			return err
		}
		values, padded := make([]float32, m.k), make([]byte, 2*m.cols.padded)
		short := make([]byte, 2*m.k)
		for i := range rows {
			from := raw[i*m.k*size : (i+1)*m.k*size]
			if m.dtype != safetensors.BF16 {
				quant.DecodeFloats(values, from, m.dtype)
				half.EncodeBF16(short, values)
				from = short
			}
			copy(padded, from)
			m.packPairs(row+i, padded)
		}
		return nil
	})
}

// parallel calls f for every number below n, on all threads, and returns the error of the lowest that failed.
func (l *reader) parallel(n int, f func(i int) error) error {
	errs := make([]error, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(n, l.threads) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if errs[i] = f(i); errs[i] != nil {
					next.Store(int64(n))
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
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

// readAhead is what Linear.Rows wants the first row to be a multiple of.
const readAhead = 32

// codes reads the rows of a quantized matrix from row0 on.
func (l *reader) codes(m *matrix, linear quant.Linear, row0 int) error {
	base := row0 / readAhead * readAhead
	end := row0 + m.n
	probe, err := linear.Rows(base, min(readAhead, end-base))
	if err != nil {
		return err
	}
	m.bits, m.zero, m.storage = probe.Bits, probe.Zero, codes4
	if m.bits > 4 {
		m.storage = codes8
	}
	starts := uniform(m.k, probe.Group)
	if probe.GroupOf != nil {
		starts, m.order = grouped(probe.GroupOf, probe.Groups())
	}
	m.cols = l.share(newColumns(starts))
	cells := panelCount(m.n) * m.cols.groups * kernel.PanelRows
	if m.raw, err = l.take(panelCount(m.n) * m.panelBytes()); err != nil {
		return err
	}
	if m.zero == quant.Integer {
		if m.zeros, err = l.take(cells); err != nil {
			return err
		}
	}
	scales := make([]float32, cells)
	var biases []float32
	if m.zero == quant.Float {
		biases = make([]float32, cells)
	}
	err = strips(end-base, m.k, func(row, rows int) error {
		x, err := linear.Rows(base+row, rows)
		if err != nil {
			return err
		}
		padded := make([]uint8, m.cols.padded)
		for i := range rows {
			r := base + row + i - row0
			if r < 0 {
				continue
			}
			m.packCodes(r, x.Codes[i*m.k:(i+1)*m.k], padded)
			for g := range m.cols.groups {
				cell, from := m.cell(r, g), i*m.cols.groups+g
				scales[cell] = x.Scales[from]
				if m.zeros != nil {
					m.zeros[cell] = x.Zeros[from]
				}
				if biases != nil {
					biases[cell] = x.Bias[from]
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	m.scale = smallest(scales, biases)
	if m.scales, err = l.encode(scales, m.scale); err == nil && biases != nil {
		m.biases, err = l.encode(biases, m.scale)
	}
	return err
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

// packCodes puts the codes of row r, which are in file order, into its panel.
func (m *matrix) packCodes(r int, codes, padded []uint8) {
	if m.order != nil {
		for _, s := range m.cols.spans {
			for i := range s.n {
				padded[s.at+i] = codes[m.order[s.lo+i]]
			}
		}
		codes = padded
	} else if m.cols.padded != m.k {
		pad(m.cols, padded, codes)
		codes = padded
	}
	panel := m.raw[r/kernel.PanelRows*m.panelBytes():]
	panel = panel[4*(r%kernel.PanelRows):]
	const step = 4 * kernel.PanelRows
	if m.storage == codes8 {
		for i := 0; i+4 <= len(codes); i += 4 {
			copy(panel[i/4*step:][:4], codes[i:])
		}
		return
	}
	for i := 0; i+8 <= len(codes); i += 8 {
		v := binary.LittleEndian.Uint64(codes[i:])
		binary.LittleEndian.PutUint32(panel[i/8*step:], uint32(v)|uint32(v>>32)<<4)
	}
}

// packPairs puts a padded row of bfloat16 into its panel.
func (m *matrix) packPairs(r int, row []byte) {
	panel := m.raw[r/kernel.PanelRows*m.panelBytes():]
	panel = panel[4*(r%kernel.PanelRows):]
	const step = 4 * kernel.PanelRows
	for i := 0; i+8 <= len(row); i += 8 {
		v := binary.LittleEndian.Uint64(row[i:])
		to := panel[i/4*step:]
		binary.LittleEndian.PutUint32(to, uint32(v&0xffff|v>>32&0xffff<<16))
		binary.LittleEndian.PutUint32(to[step:], uint32(v>>16&0xffff|v>>48<<16))
	}
}

// smallest returns the smallest type that holds all values exactly.
func smallest(values ...[]float32) kernel.Float {
	holds := func(exact func(v float32) bool) bool {
		for _, list := range values {
			for _, v := range list {
				if !exact(v) {
					return false
				}
			}
		}
		return true
	}
	switch {
	case holds(func(v float32) bool { return math.Float32bits(v)&0xffff == 0 }):
		return kernel.BFloat16
	case holds(func(v float32) bool { return half.RoundF16(v) == v }):
		return kernel.Float16
	}
	return kernel.Float32
}

// encode stores values as a type.
func (l *reader) encode(values []float32, f kernel.Float) ([]byte, error) {
	b, err := l.take(len(values) * f.Size())
	if err != nil {
		return nil, err
	}
	switch f {
	case kernel.BFloat16:
		half.EncodeBF16(b, values)
	case kernel.Float16:
		half.EncodeF16(b, values)
	default:
		half.EncodeF32(b, values)
	}
	return b, nil
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
