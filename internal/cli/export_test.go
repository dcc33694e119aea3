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

// A gate that is missed names what was not asked for yet, and nothing that cannot be asked for.
func TestAdvice(t *testing.T) {
	for want, o := range map[string]*exportOptions{
		"; --promote 40 may help":                                 {scheme: "w8a16", kv: "int16", minSQNR: 40},
		"; --promote 40 or --kv int16 or --scheme w8a16 may help": {scheme: "w8a8", kv: "uint8", minSQNR: 40},
		"; --kv int16 may help":                                   {scheme: "w8a16", kv: "uint8", minSQNR: 101},
		"":                                                        {scheme: "w8a16", kv: "uint8", style: genaiStyle, minSQNR: 40, goal: npu.Goal{SQNR: 45}},
	} {
		if got := (&exporting{exportOptions: o}).advice(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := (&exporting{exportOptions: &exportOptions{scheme: "w16a16", kv: "int16", minSQNR: 90}}).advice(); got != "" {
		t.Errorf("16 bits everywhere: %q", got)
	}
}
