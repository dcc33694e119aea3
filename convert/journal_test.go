package convert

import (
	"bytes"
	"path/filepath"
	"testing"

	"nibble/quant"
)

// What a journal says of a matrix comes back, and what follows it counts, too.
func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, err := createJournal(path, head{Plan: "ab"})
	if err != nil {
		t.Fatal(err)
	}
	loss := 0.25
	for _, e := range []entry{{Job: "matrix", CRC: 7, outcome: &outcome{Noise: &quant.Noise{Signal: 2, Error: 1, Count: 3}, Loss: &loss}}, {Job: "norm", CRC: 8}} {
		if err := j.line(e); err != nil {
			t.Fatal(err)
		}
	}
	j.close()
	j, done, err := resumeJournal(path, head{Plan: "ab"})
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	if m := done["matrix"]; len(done) != 2 || m.CRC != 7 || m.outcome == nil || *m.Loss != 0.25 || m.Noise.Signal != 2 || done["norm"].outcome != nil {
		t.Errorf("the journal has %+v", done)
	}
}

// Whatever a journal holds, what counts as whole is a prefix that reads the same again.
func FuzzJournal(f *testing.F) {
	f.Add([]byte("{\"plan\":\"ab\"}\n{\"job\":\"lm_head\",\"crc32c\":7,\"noise\":{\"Signal\":1,\"Error\":0.5,\"Max\":0.1,\"Count\":3}}\n"))
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
