package convert

import (
	"bytes"
	"testing"
)

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
