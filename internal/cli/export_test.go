package cli

import (
	"strings"
	"testing"

	"nibble/npu"
)

// A model of 135 million parameters is not simulated for hours without a word, nor does its memory count for it.
func TestObstacle(t *testing.T) {
	o := &exportOptions{promote: promoteNeeded, scheme: "w8a16", kv: "int16"}
	for shape, large := range map[string]bool{"smollm-135m": true, "": false} {
		o.shape = shape
		b, _, err := o.open(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Set.Close()
		m, err := npu.NewModel(b)
		if err != nil {
			t.Fatal(err)
		}
		o.shape, o.text.holdout = "", 4
		if why := o.obstacle(m); strings.Contains(why, "30 million parameters") != large || (o.checks(m) == 0) != large {
			t.Errorf("%d parameters: %q, %d sequences", m.Parameters(), why, o.checks(m))
		}
	}
}
