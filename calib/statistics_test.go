package calib

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nibble/hf"
	"nibble/quant"
	"nibble/runtime"
)

// table is a model of one layer, with one expert.
func table() []hf.Tensor {
	return []hf.Tensor{
		{Name: "k.weight", Shape: []int{1, 2}, Role: hf.K, Expert: -1},
		{Name: "o.weight", Shape: []int{2, 3}, Role: hf.O, Expert: -1},
		{Name: "down.weight", Shape: []int{2, 2}, Role: hf.Down},
		{Name: "norm.weight", Shape: []int{2}, Role: hf.AttnNorm},
	}
}

// square is a moment [k, k] of numbers that rounding to less than float64 would change.
func square(k int) *Moment {
	m := &Moment{K: k, Tokens: 7, Weight: 7.1, Second: make([]float64, k*k), Diag: make([]float64, k)}
	for i := range k {
		for j := range i + 1 {
			m.Second[i*k+j] = 1 / float64(3+i*k+j)
		}
		m.Diag[i] = m.Second[i*k+i]
	}
	return m
}

// pass shows what a pass over table's model might.
func pass(solve Solve) error {
	t := table()
	ahead := func() (*Moment, error) { return square(3), nil }
	for _, in := range []*Input{
		{Expert: -1, Tensors: t[:1], Tokens: 9, Plain: square(2), Received: square(2), Ahead: ahead},
		{Expert: -1, Tensors: t[1:2], Tokens: 9, Plain: square(3)},
		{Tensors: t[2:3], Tokens: 1, Plain: &Moment{K: 2, Diag: []float64{0.1, 0}}, Diagonal: true},
		{Layer: -1, Expert: -1, Tensors: []hf.Tensor{{Name: "head.weight", Shape: []int{4, 2}}}, Tokens: 9, Plain: square(2)},
	} {
		if _, err := solve(in); err != nil {
			return err
		}
	}
	return nil
}

// saved writes the file of a key and returns its bytes.
func saved(t testing.TB, folder, key string) (path string, raw []byte) {
	t.Helper()
	r, err := NewRecorder(folder, key, Aheads)
	if err != nil {
		t.Fatal(err)
	}
	if err = pass(r.Recording(nil)); err == nil {
		err = r.Close(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	path = statisticsPath(folder, key)
	if raw, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return path, raw
}

// What a pass has shown is shown again, to the last bit; of damage in any byte, or an end anywhere, the file is refused.
func TestStatistics(t *testing.T) {
	dir := t.TempDir()
	key := StatisticsKey("model", "tokens", runtime.A16, Aheads)
	if _, err := OpenReplay(dir, key, Aheads, table()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before: %v", err)
	}
	path, raw := saved(t, dir, key)
	show := func(list *[]*Input) Solve {
		return func(in *Input) (map[string]quant.Linear, error) {
			c := *in
			if in.Ahead != nil {
				m, err := in.Ahead()
				if err != nil {
					return nil, err
				}
				c.Received, c.Ahead = m, nil // of the first input, whose other moments are alike
			}
			*list = append(*list, &c)
			return nil, nil
		}
	}
	var want, got []*Input
	if err := pass(show(&want)); err != nil {
		t.Fatal(err)
	}
	r, err := OpenReplay(dir, key, Aheads, table())
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{r.Layer(t.Context(), 0, show(&got)), r.Layer(t.Context(), 1, show(&got)),
		r.Head(t.Context(), []hf.Tensor{{Name: "head.weight", Shape: []int{4, 2}}}, show(&got)), r.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(hf.Tensor{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for i := range raw {
		bad := bytes.Clone(raw)
		bad[i] ^= 4
		if _, err := scanned(bad, key, table()); err == nil {
			t.Errorf("byte %d may be wrong", i)
		}
		if _, err := scanned(raw[:i], key, table()); err == nil {
			t.Errorf("the file may end at %d", i)
		}
	}
	if err := os.WriteFile(path, raw[:len(raw)-1], 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenReplay(dir, key, Aheads, table()); !errors.Is(err, ErrStatistics) || !strings.Contains(err.Error(), path) {
		t.Errorf("a file without its last byte: %v", err)
	}

	// What changes while it is read is noticed too, and a pass that fails leaves nothing.
	if err := os.WriteFile(path, raw, 0o666); err != nil {
		t.Fatal(err)
	}
	if r, err = OpenReplay(dir, key, Aheads, table()); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	raw[r.records[1].end-1] ^= 1
	if err := os.WriteFile(path, raw, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := r.Layer(t.Context(), 0, show(&got)); !errors.Is(err, ErrStatistics) {
		t.Errorf("a file that changes: %v", err)
	}
	w, err := NewRecorder(dir, "other", Moments)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(errors.New("stopped")); err != nil {
		t.Error(err)
	}
	if list, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

func scanned(raw []byte, key string, tensors []hf.Tensor) ([]stored, error) {
	return scan(bytes.NewReader(raw), int64(len(raw)), statisticsHeader{key, kindNames[Aheads]}, newMatrices(tensors))
}

// fileOf is a file whose checksums are right, with one record.
func fileOf(record string, numbers int) []byte {
	part := func(b []byte, from int, header string, n int) []byte {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(header)))
		b = append(append(b, header...), make([]byte, 8*n)...)
		return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[from:], castagnoli))
	}
	b := part([]byte(statisticsMagic), 0, fmt.Sprintf(`{"key":"k","kind":%q}`, kindNames[Aheads]), 0)
	return append(part(b, len(b), record, numbers), 0, 0, 0, 0)
}

// Whatever a file claims, it is refused with what is wrong.
func TestHostileStatistics(t *testing.T) {
	plain := func(head, moments string) string {
		return fmt.Sprintf(`{"layer":0,"expert":-1,%s,"moments":[%s]}`, head, moments)
	}
	const k2 = `{"name":"plain","k":2,"tokens":7,"weight":7,"second":true}`
	for _, c := range []struct {
		record string
		n      int
		want   string
	}{
		{plain(`"tensors":["k.weight"]`, k2), 3, "1 of 3 matrices"},
		{plain(`"tensors":["k.weight"]`, k2), 0, "24 bytes of moments"},
		{plain(`"tensors":["k.weight","k.weight"]`, k2), 3, "twice"},
		{plain(`"tensors":["norm.weight"]`, k2), 3, "no matrix of layer 0"},
		{plain(`"tensors":["down.weight"]`, k2), 3, "no matrix of layer 0"},
		{plain(`"tensors":["k.weight","o.weight"]`, k2), 3, "o.weight has 3 columns"},
		{plain(`"tensors":["k.weight"],"diagonal":true`, strings.Replace(k2, "true", "false", 1)), 2, "no expert's down"},
		{plain(`"tensors":["o.weight"]`, k2), 3, "the matrices have 3"},
		{plain(`"tensors":[]`, k2), 3, "about 0 matrices"},
		{plain(`"tensors":["k.weight"]`, ""), 0, "without a plain moment"},
		{plain(`"tensors":["k.weight"]`, strings.Replace(k2, "plain", "ahead", 1)), 3, "without a plain moment"},
		{plain(`"tensors":["k.weight"]`, k2+","+k2), 6, "moment 1 is"},
		{plain(`"tensors":["k.weight"]`, strings.Replace(k2, "true", "false", 1)), 2, "wrong kind"},
		{plain(`"tensors":["k.weight"]`, strings.Replace(k2, `"tokens":7`, `"tokens":-7`, 1)), 3, "-7 tokens"},
		{plain(`"tensors":["k.weight"]`, strings.Replace(k2, `"weight":7`, `"weight":-7`, 1)), 3, "weigh -7"},
		{plain(`"tensors":["k.weight"]`, k2+","+strings.NewReplacer("plain", "ahead", `"k":2`, `"k":1048576`).Replace(k2)), 3, "those behind them 3"},
		{plain(`"tensors":["k.weight"]`, strings.Replace(k2, `"k":2`, `"k":9223372036854775807`, 1)), 3, "columns"},
		{`{"layer":0,"more":1}`, 0, "unknown field"},
		{fmt.Sprintf(`{"layer":-1,"expert":-1,"moments":[%s]}`, strings.Replace(k2, `"k":2`, `"k":1048576`, 1)), 3, "bytes of moments"},
		{fmt.Sprintf(`{"layer":-1,"expert":-1,"moments":[%s,%s]}`, k2, strings.NewReplacer("plain", "received", `"k":2`, `"k":3`).Replace(k2)), 9,
			"a moment of 3 columns, the matrices have 2"},
	} {
		_, err := scanned(fileOf(c.record, c.n), "k", table())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.record, err, c.want)
		}
	}
	long := binary.LittleEndian.AppendUint32([]byte(statisticsMagic), 1<<31)
	if _, err := scanned(long, "k", table()); err == nil || !strings.Contains(err.Error(), "a header of 2147483648 bytes") {
		t.Errorf("a long header: %v", err)
	}
	if _, err := scanned(fileOf(`{}`, 0), "other", table()); err == nil || !strings.Contains(err.Error(), "of another model") {
		t.Errorf("another key: %v", err)
	}
}

// Any bytes are an error or records that lie in the file one behind the other.
func FuzzStatistics(f *testing.F) {
	_, raw := saved(f, f.TempDir(), "k")
	f.Add(raw)
	f.Add(fileOf(`{"layer":-1,"expert":-1,"tokens":1,"moments":[{"name":"plain","k":1,"tokens":1,"weight":1,"second":true}]}`, 1))
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, err := scanned(raw, "k", table())
		if err != nil {
			return
		}
		at := list[0].at
		for _, x := range list {
			if x.at != at || x.end <= x.at {
				t.Errorf("a record from %d to %d, want from %d", x.at, x.end, at)
			}
			at = x.end + 4
		}
		if at+4 != int64(len(raw)) {
			t.Errorf("the records end at %d of %d bytes", at, len(raw))
		}
	})
}
