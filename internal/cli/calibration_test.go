package cli

import (
	"testing"

	"nibble/calib"
)

// A model that does not fit into --max-memory writes no text. The demo has 2,623,744 parameters in bfloat16.
func TestOwnTextMemory(t *testing.T) {
	b, _, err := (&exportOptions{}).open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Set.Close()
	o := &quantizeOptions{memory: "1MB"}
	o.calibration.Source = calib.SelfSource
	const want = "the model takes 5.2 MB of memory, --max-memory allows 1.0 MB; to have it write its calibration text allow more, or take a text, --calib FILE"
	if _, err := o.sequences(t.Context(), nil, b, nil); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
