package convert

import (
	"bytes"
	"path/filepath"
	"reflect"
	"testing"

	"nibble/quant"
)

// Whatever a journal holds, what counts as whole is a prefix that reads the same again.
func FuzzJournal(f *testing.F) {
	f.Add([]byte("{\"plan\":\"ab\"}\n{\"job\":\"lm_head\",\"crc32c\":7,\"outcome\":{\"noise\":{\"Signal\":1,\"Error\":0.5,\"Max\":0.1,\"Count\":3}}}\n"))
	f.Add([]byte("{\"plan\":\"ab\"}\n{\"job\":\"file model.safetensors\",\"sha256\":\"00\"}\n{\"job\":"))
	f.Add([]byte("{\"plan\":\"ab\",\"settings\":{\"--group\":\"128\"}}\n"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		plan, done, size, err := readJournal(bytes.NewReader(raw))
		if err != nil {
			return
		}
		if size < 0 || size > int64(len(raw)) {
			t.Fatalf("%d of %d bytes are whole", size, len(raw))
		}
		again, rest, n, err := readJournal(bytes.NewReader(raw[:size]))
		if err != nil || again.Plan != plan.Plan || n != size || len(rest) != len(done) {
			t.Fatalf("%v, %d entries, %d bytes; read again %v, %d, %d: %v", plan, len(done), size, again, len(rest), n, err)
		}
	})
}

// What was written is read again, the sums of a matrix bit by bit.
func TestJournal(t *testing.T) {
	path, loss := filepath.Join(t.TempDir(), journalName), 0.1
	j, err := createJournal(path, head{Plan: "ab"})
	if err != nil {
		t.Fatal(err)
	}
	want := []entry{
		{Job: "norm", CRC: 7},
		{Job: "q_proj", CRC: 8, Outcome: &outcome{&quant.Noise{Signal: 1. / 3, Error: 5e-324, Max: 0.1, Count: 1 << 40}, &loss, fallbackFew, true}},
		{Job: "file model.safetensors", SHA256: "00"},
	}
	for _, e := range want {
		if err := j.line(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	j, done, err := resumeJournal(path, head{Plan: "ab"})
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	if len(done) != len(want) {
		t.Errorf("%d entries, want %d", len(done), len(want))
	}
	for _, e := range want {
		if !reflect.DeepEqual(done[e.Job], e) {
			t.Errorf("%+v, want %+v", done[e.Job], e)
		}
	}
}

// A manifest that is read can be written, and reads the same again.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"tool":"0","plan":"ab","part":1,"parts":2,"files":[{"name":"a","bytes":1,"sha256":"00","modified":5}],"items":[{"job":"q","crc32c":7,"outcome":{"noise":{"Count":1}}}]}`))
	f.Add([]byte(`{"parts":1,"items":[{"outcome":{}}]}x`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := parseManifest(raw)
		if err != nil {
			return
		}
		if m.Part < 0 || m.Part >= m.Parts || m.Parts > MaxParts {
			t.Fatalf("part %d of %d", m.Part, m.Parts)
		}
		dir := t.TempDir()
		if err := m.write(dir); err != nil {
			t.Fatal(err)
		}
		again, err := readManifest(dir)
		if err != nil || len(again.Items) != len(m.Items) || len(again.Files) != len(m.Files) || again.Plan != m.Plan {
			t.Fatalf("%+v, read again %+v: %v", m, again, err)
		}
	})
}
