package calib

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"

	"nibble/hf"
)

// Replay shows what a file of statistics has, instead of a pass.
type Replay struct {
	Step func(layer int, stage string) // told what comes next; may be nil

	file    *os.File
	size    int64
	tensors matrices
	records []stored // in the order of the file
}

// stored is where a record is in a file.
type stored struct {
	record
	at, end int64
	crc     uint32
}

// OpenReplay reads the file of a key and checks all of it against its checksums and the model's table. Without a file the error is
// fs.ErrNotExist, with one that is not whole ErrStatistics.
func OpenReplay(folder, key string, kind Kind, tensors []hf.Tensor) (*Replay, error) {
	f, err := os.Open(statisticsPath(folder, key))
	if err != nil {
		return nil, fmt.Errorf("calib: %w", err)
	}
	r := &Replay{file: f}
	info, err := f.Stat()
	if err == nil {
		r.size = info.Size()
		r.tensors = newMatrices(tensors)
		r.records, err = scan(f, r.size, statisticsHeader{key, kindNames[kind]}, r.tensors)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%w: %s: %v; delete it", ErrStatistics, f.Name(), err)
	}
	return r, nil
}

// Name returns that of the file.
func (r *Replay) Name() string { return r.file.Name() }

// Close closes the file.
func (r *Replay) Close() error { return r.file.Close() }

// matrices are those of the layers: by name, and the columns of o and down.
type matrices struct {
	named map[string]*hf.Tensor
	last  map[place]int
}

// place is a stage of a layer, and of an expert.
type place struct {
	layer, expert int
	role          hf.Role
}

func newMatrices(tensors []hf.Tensor) matrices {
	m := matrices{map[string]*hf.Tensor{}, map[place]int{}}
	for i := range tensors {
		if t := &tensors[i]; t.Role.Linear() {
			m.named[t.Name] = t
			m.last[place{t.Layer, t.Expert, t.Role}] = t.In()
		}
	}
	return m
}

// ahead is how many columns the matrix behind a stage has, 0 if there is none to look ahead to.
func (m *matrices) ahead(t *hf.Tensor) int {
	switch t.Role {
	case hf.Q, hf.K, hf.V, hf.QKV:
		return m.last[place{t.Layer, t.Expert, hf.O}]
	case hf.Gate, hf.Up, hf.GateUp:
		return m.last[place{t.Layer, t.Expert, hf.Down}]
	}
	return 0
}

// scanner reads a file from its beginning.
type scanner struct {
	r    *bufio.Reader
	at   int64 // of the next byte
	size int64
	crc  uint32 // of what was read since the last seal
}

func (s *scanner) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.crc = crc32.Update(s.crc, castagnoli, p[:n])
	s.at += int64(n)
	return n, err
}

// take reads n bytes, which the file has to have.
func (s *scanner) take(n int64) ([]byte, error) {
	if n > s.size-s.at {
		return nil, fmt.Errorf("byte %d: %d bytes are wanted, %d are left", s.at, n, s.size-s.at)
	}
	p := make([]byte, n)
	_, err := io.ReadFull(s, p)
	return p, err
}

// header reads the length of a JSON object and the object into v. It reports false at the length 0.
func (s *scanner) header(most uint32, v any) (bool, error) {
	at := s.at
	raw, err := s.take(4)
	if err != nil {
		return false, err
	}
	n := binary.LittleEndian.Uint32(raw)
	if n == 0 {
		return false, nil
	}
	if n > most {
		return false, fmt.Errorf("byte %d: a header of %d bytes: at most %d", at, n, most)
	}
	if raw, err = s.take(int64(n)); err != nil {
		return false, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return false, fmt.Errorf("byte %d: header: %w", at, err)
	}
	return true, nil
}

// seal compares the checksum of what was read.
func (s *scanner) seal() (uint32, error) {
	sum, at := s.crc, s.at
	raw, err := s.take(4)
	if err == nil && binary.LittleEndian.Uint32(raw) != sum {
		err = fmt.Errorf("byte %d: the checksum is wrong", at)
	}
	s.crc = 0
	return sum, err
}

// scan reads all of a file and returns its records. It keeps no more than one row of a moment in memory.
func scan(file io.ReaderAt, size int64, want statisticsHeader, tensors matrices) (list []stored, err error) {
	s := &scanner{r: bufio.NewReaderSize(io.NewSectionReader(file, 0, size), 1<<18), size: size}
	if raw, err := s.take(int64(len(statisticsMagic))); err != nil || string(raw) != statisticsMagic {
		return nil, errors.New("it does not begin as one")
	}
	var h statisticsHeader
	if ok, err := s.header(mostStatisticsHeader, &h); err != nil || !ok {
		return nil, cmpError(err, "no header")
	}
	if _, err := s.seal(); err != nil {
		return nil, err
	}
	if h != want {
		return nil, errors.New("it is of another model, text or kind")
	}
	seen, head := map[string]bool{}, false
	for {
		x := stored{at: s.at}
		ok, err := s.header(mostRecordHeader, &x.record)
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		if err := x.check(tensors, want.Kind); err != nil {
			return nil, fmt.Errorf("byte %d: %w", x.at, err)
		}
		for _, name := range x.Tensors {
			if seen[name] {
				return nil, fmt.Errorf("byte %d: %s is there twice", x.at, name)
			}
			seen[name] = true
		}
		if x.Layer < 0 && head {
			return nil, fmt.Errorf("byte %d: the head is there twice", x.at)
		}
		head = head || x.Layer < 0
		var n int64
		for i := range x.Moments {
			n += 8 * x.Moments[i].numbers()
		}
		if n > s.size-s.at {
			return nil, fmt.Errorf("byte %d: %d bytes of moments, %d are left", s.at, n, s.size-s.at)
		}
		if _, err := io.CopyN(io.Discard, s, n); err != nil {
			return nil, err
		}
		x.end = s.at
		if x.crc, err = s.seal(); err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	if s.at != size {
		return nil, fmt.Errorf("%d bytes behind the last record", size-s.at)
	}
	if len(seen) < len(tensors.named) || !head {
		return nil, fmt.Errorf("it has %d of %d matrices, the head not counted", len(seen), len(tensors.named))
	}
	return list, nil
}

// cmpError is err, or an error of its own.
func cmpError(err error, text string) error {
	if err != nil {
		return err
	}
	return errors.New(text)
}

// check holds a record against the model's table.
func (x *record) check(tensors matrices, kind string) error {
	width, ahead, few := 0, 0, len(x.Tensors) > 0 // columns of all matrices, and of the one behind them; may few tokens be enough
	for _, name := range x.Tensors {
		t := tensors.named[name]
		if t == nil || t.Layer != x.Layer || t.Expert != x.Expert {
			return fmt.Errorf("%q is no matrix of layer %d", name, x.Layer)
		}
		if width > 0 && width != t.In() {
			return fmt.Errorf("%s has %d columns, others of the record %d", name, t.In(), width)
		}
		width, ahead = t.In(), tensors.ahead(t)
		few = few && t.Role == hf.Down && t.Expert >= 0
	}
	if x.Diagonal && !few {
		return errors.New("a diagonal of what is no expert's down")
	}
	if (len(x.Tensors) == 0) != (x.Layer == -1) || x.Tokens < 0 {
		return fmt.Errorf("a record of layer %d about %d matrices and %d tokens", x.Layer, len(x.Tensors), x.Tokens)
	}
	if len(x.Moments) == 0 || x.Moments[0].Name != plainMoment {
		return errors.New("a record without a plain moment")
	}
	if width == 0 {
		width = x.Moments[0].K
	}
	for i := range x.Moments {
		m := &x.Moments[i]
		known := i == 0 || m.Name == receivedMoment && i == 1 || m.Name == aheadMoment && i == len(x.Moments)-1
		switch {
		case !known:
			return fmt.Errorf("moment %d is %q", i, m.Name)
		case m.K < 1 || m.K > mostColumns || m.Name != aheadMoment && m.K != width || m.Name == aheadMoment && m.K != ahead:
			return fmt.Errorf("a moment of %d columns, the matrices have %d and those behind them %d", m.K, width, ahead)
		case m.Tokens < 0 || !(m.Weight >= 0) || math.IsInf(m.Weight, 0):
			return fmt.Errorf("a moment of %d tokens that weigh %g", m.Tokens, m.Weight)
		case m.Second != (kind != kindNames[Diagonals]) && !(x.Diagonal && !m.Second):
			return fmt.Errorf("a moment of the wrong kind in a file of %s", kind)
		}
	}
	return nil
}

// Layer shows the inputs of a layer in the order of the pass.
func (r *Replay) Layer(ctx context.Context, index int, solve Solve) error {
	for i := range r.records {
		x := &r.records[i]
		if x.Layer != index || solve == nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		in := &Input{Layer: x.Layer, Expert: x.Expert, Tokens: x.Tokens, Diagonal: x.Diagonal}
		for _, name := range x.Tensors {
			in.Tensors = append(in.Tensors, *r.tensors.named[name])
		}
		if err := r.show(x, in, solve); err != nil {
			return err
		}
	}
	return nil
}

// Head shows the head what it receives.
func (r *Replay) Head(_ context.Context, head []hf.Tensor, solve Solve) error {
	for i := range r.records {
		x := &r.records[i]
		if x.Layer >= 0 {
			continue
		}
		if k := head[0].In(); x.Moments[0].K != k {
			return fmt.Errorf("%w: %s: a moment of %d columns, the head has %d; delete it", ErrStatistics, r.file.Name(), x.Moments[0].K, k)
		}
		return r.show(x, &Input{Layer: -1, Expert: -1, Tensors: head, Tokens: x.Tokens}, solve)
	}
	return nil
}

// show reads the moments of a record, and hands the input to the solver.
func (r *Replay) show(x *stored, in *Input, solve Solve) error {
	s := &scanner{r: bufio.NewReaderSize(io.NewSectionReader(r.file, x.at, x.end-x.at+4), 1<<18), at: x.at, size: r.size}
	var again record
	_, err := s.header(mostRecordHeader, &again)
	for i := range x.Moments {
		m := &x.Moments[i]
		y := &Moment{K: m.K, Tokens: m.Tokens, Weight: m.Weight}
		if err == nil {
			err = s.moment(y, m.Second)
		}
		switch m.Name {
		case plainMoment:
			in.Plain = y
		case receivedMoment:
			in.Received = y
		case aheadMoment:
			in.Ahead = func() (*Moment, error) { return y, nil }
		}
	}
	if err == nil && s.crc != x.crc {
		err = errors.New("it has changed while it was read")
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %v; delete it", ErrStatistics, r.file.Name(), err)
	}
	if r.Step != nil {
		r.Step(x.Layer, "from "+r.file.Name())
	}
	_, err = solve(in)
	return err
}

// moment reads the numbers of one.
func (s *scanner) moment(m *Moment, second bool) error {
	if !second {
		m.Diag = make([]float64, m.K)
		return s.floats(m.Diag)
	}
	m.Second, m.Diag = make([]float64, m.K*m.K), make([]float64, m.K)
	for i := range m.K {
		row := m.Second[i*m.K : i*m.K+i+1]
		if err := s.floats(row); err != nil {
			return err
		}
		m.Diag[i] = row[i]
	}
	return nil
}

func (s *scanner) floats(x []float64) error {
	at := s.at
	raw, err := s.take(8 * int64(len(x)))
	if err != nil {
		return err
	}
	for i := range x {
		x[i] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
		if math.IsNaN(x[i]) || math.IsInf(x[i], 0) {
			return fmt.Errorf("byte %d: %v in a moment", at+int64(8*i), x[i])
		}
	}
	return nil
}
