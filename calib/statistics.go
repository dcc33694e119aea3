package calib

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"path/filepath"

	"nibble/build"
	"nibble/hf"
	"nibble/internal/stage"
	"nibble/internal/version"
	"nibble/quant"
	"nibble/runtime"
)

// Kind says how much a file of statistics has. A file serves whoever wants less.
type Kind int

// The kindNames, each with what the ones before it have.
const (
	Diagonals Kind = iota // of the second moments
	Moments               // lower triangles
	Aheads                // and what Input.Ahead returns
)

// The kindNames as files and keys have them.
var kindNames = [...]string{"diagonals", "moments", "moments and those ahead"}

// statisticsMagic begins a file of statistics, with its version. statisticsRules counts up when other statistics come of the same
// sequences.
const (
	statisticsMagic = "nibmom1\n"
	statisticsRules = 1
)

// Limits of what a file may claim.
const (
	mostStatisticsHeader = 1 << 12 // bytes of JSON
	mostRecordHeader     = 1 << 16
	mostColumns          = 1 << 20 // of a matrix
)

// ErrStatistics is a file of statistics that is not what was written.
var ErrStatistics = errors.New("calib: not a whole file of statistics")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// StatisticsKey names what the matrices of a float model receive: model is the checksum of its files, tokens that of the sequences.
func StatisticsKey(model, tokens string, mode runtime.Mode, kind Kind) string {
	raw, err := json.Marshal([]string{fmt.Sprint(statisticsRules), version.Number(), model, tokens, fmt.Sprint(mode), kindNames[kind]})
	if err != nil {
		panic(err) // strings only
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// statisticsPath is the file of a key.
func statisticsPath(folder, key string) string { return filepath.Join(folder, "moments-"+key+".bin") }

// statisticsHeader is the JSON at the beginning of a file.
type statisticsHeader struct {
	Key  string `json:"key"`
	Kind string `json:"kind"`
}

// record is the JSON in front of the numbers of an input.
type record struct {
	Layer    int            `json:"layer"`
	Expert   int            `json:"expert"`
	Tensors  []string       `json:"tensors,omitempty"` // none for the head
	Tokens   int            `json:"tokens"`
	Diagonal bool           `json:"diagonal,omitempty"`
	Moments  []recordMoment `json:"moments"`
}

// recordMoment says what one run of numbers is.
type recordMoment struct {
	Name   string  `json:"name"` // one of momentNames
	K      int     `json:"k"`
	Tokens int     `json:"tokens"`
	Weight float64 `json:"weight"`
	Second bool    `json:"second"`
}

// The moments of an input, in the order in which they are written.
const (
	plainMoment    = "plain"
	receivedMoment = "received"
	aheadMoment    = "ahead"
)

// numbers is how many of them a moment has in a file.
func (m *recordMoment) numbers() int64 {
	if k := int64(m.K); m.Second {
		return k * (k + 1) / 2
	}
	return int64(m.K)
}

// StatisticsSpace returns the bytes that a file about a model takes, its headers apart.
func StatisticsSpace(b *build.Build, kind Kind) (n int64) {
	size := func(k int) int64 {
		m := recordMoment{K: k, Second: kind > Diagonals}
		return 8 * m.numbers()
	}
	seen := map[place]bool{}
	for _, t := range b.Tensors {
		p, copies := place{t.Layer, t.Expert, t.Role}, int64(1)
		switch t.Role {
		case hf.Q, hf.K, hf.V, hf.QKV:
			p.role, copies = hf.Q, 2
		case hf.Gate, hf.Up, hf.GateUp:
			p.role = hf.Gate
		case hf.O, hf.Down:
			if kind == Aheads {
				copies = 2
			}
		default:
			continue
		}
		if !seen[p] {
			n += copies * size(t.In())
		}
		seen[p] = true
	}
	return n + size(b.Arch.Hidden)
}

// Recorder writes a file of statistics while a pass takes them.
type Recorder struct {
	kind Kind
	file *stage.Whole
	w    *bufio.Writer
	crc  uint32
	buf  []byte
}

// NewRecorder begins the file of a key in a folder that exists. Close ends it.
func NewRecorder(folder, key string, kind Kind) (*Recorder, error) {
	f, err := stage.CreateWhole(statisticsPath(folder, key))
	if err != nil {
		return nil, fmt.Errorf("calib: %w", err)
	}
	r := &Recorder{kind: kind, file: f, w: bufio.NewWriterSize(f, 1<<18)}
	_, err = r.w.WriteString(statisticsMagic)
	r.crc = crc32.Checksum([]byte(statisticsMagic), castagnoli)
	if err = errors.Join(err, r.json(statisticsHeader{key, kindNames[kind]}), r.seal()); err != nil {
		return nil, errors.Join(err, r.Close(err))
	}
	return r, nil
}

// Recording returns a solver that writes what it is shown before it hands it on to solve, which may be nil.
func (r *Recorder) Recording(solve Solve) Solve {
	return func(in *Input) (map[string]quant.Linear, error) {
		if err := r.input(in); err != nil || solve == nil {
			return nil, err
		}
		return solve(in)
	}
}

// input writes a record.
func (r *Recorder) input(in *Input) error {
	x := record{Layer: in.Layer, Expert: in.Expert, Tokens: in.Tokens, Diagonal: in.Diagonal}
	if in.Layer >= 0 {
		for _, t := range in.Tensors {
			x.Tensors = append(x.Tensors, t.Name)
		}
	}
	var list []*Moment
	add := func(name string, m *Moment) {
		x.Moments = append(x.Moments, recordMoment{name, m.K, m.Tokens, m.Weight, m.Second != nil})
		list = append(list, m)
	}
	add(plainMoment, in.Plain)
	if in.Received != nil {
		add(receivedMoment, in.Received)
	}
	if in.Ahead != nil && r.kind == Aheads {
		m, err := in.Ahead()
		if err != nil {
			return err
		}
		in.Ahead = func() (*Moment, error) { return m, nil }
		add(aheadMoment, m)
	}
	if err := r.json(x); err != nil {
		return err
	}
	for _, m := range list {
		if err := r.moment(m); err != nil {
			return err
		}
	}
	return r.seal()
}

// json writes the length of a header and the header.
func (r *Recorder) json(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return r.write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(raw))), raw...))
}

func (r *Recorder) write(p []byte) error {
	r.crc = crc32.Update(r.crc, castagnoli, p)
	_, err := r.w.Write(p)
	return err
}

// moment writes the rows of the lower triangle, or the diagonal.
func (r *Recorder) moment(m *Moment) error {
	if m.Second == nil {
		return r.floats(m.Diag)
	}
	for i := range m.K {
		if err := r.floats(m.Second[i*m.K : i*m.K+i+1]); err != nil {
			return err
		}
	}
	return nil
}

func (r *Recorder) floats(x []float64) error {
	r.buf = r.buf[:0]
	for _, v := range x {
		r.buf = binary.LittleEndian.AppendUint64(r.buf, math.Float64bits(v))
	}
	return r.write(r.buf)
}

// seal ends a part of the file with its checksum.
func (r *Recorder) seal() error {
	_, err := r.w.Write(binary.LittleEndian.AppendUint32(nil, r.crc))
	r.crc = 0
	return err
}

// Close gives the file its name, or removes it where the pass has ended with an error.
func (r *Recorder) Close(failed error) error {
	if failed != nil {
		return wrapped(r.file.Abort())
	}
	_, err := r.w.Write(make([]byte, 4))
	if err = errors.Join(err, r.w.Flush()); err != nil {
		return wrapped(errors.Join(err, r.file.Abort()))
	}
	return wrapped(r.file.Commit())
}

// wrapped names the package of an error.
func wrapped(err error) error {
	if err != nil {
		return fmt.Errorf("calib: %w", err)
	}
	return nil
}
