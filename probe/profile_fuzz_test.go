package probe

import (
	"bytes"
	"testing"
)

// FuzzRead wants an error of any bytes, or a profile for which a build can be chosen.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"profile":1,"n_logical":4,"memory":{"total":1}}`))
	f.Add([]byte(`{"profile":1,"cpu":{"flags":["avx2"],"n_effective":65536},"accelerators":[{"kind":"npu"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := Read(bytes.NewReader(raw))
		if err != nil {
			return
		}
		for _, priority := range []string{Speed, Fidelity} {
			_, _ = Select(p, priority)
		}
	})
}
