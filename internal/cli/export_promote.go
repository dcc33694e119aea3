package cli

import (
	"errors"
	"fmt"

	"nibble/calib"
	"nibble/npu"
)

// needed is what a w8a16 graph has unless --promote says otherwise: 36.9 dB is what a calibrated one reached on a phone, and was right there.
var needed = npu.Goal{SQNR: 36.9, Top1: 0.99}

// mostPromoted is up to how many parameters weights get 16 bits without being asked for. Which ones help is simulated, some fifty times on
// more text than is held out: that takes minutes below, and hours far above.
const mostPromoted = 30e6

// sensitivitySequences is on how many sequences sensitivity is measured.
const sensitivitySequences = 4

// raises reports whether graphs are to have what is needed. Weights that are made up need nothing.
func (o *exportOptions) raises() bool {
	return o.promote == promoteNeeded && o.scheme == "w8a16" && o.shape == ""
}

// obstacle is why a model does not get what is needed without being asked for it.
func (o *exportOptions) obstacle(m *npu.Model) string {
	switch {
	case o.kv != "int16":
		return "devices for which --kv uint8 is made may have no 16-bit weights"
	case m.Parameters() > mostPromoted:
		return fmt.Sprintf("with more than %g million parameters it may take hours to find the weights that need 16 bits", mostPromoted/1e6)
	}
	return ""
}

// raiseNeeded gives 16-bit weights to a graph that needs them, by what was measured on held-out text, and measures again.
func (x *exporting) raiseNeeded(held [][]int32) error {
	goal := needed
	if x.text.Source == randomSource { // which have many successors that are hardly less likely
		goal.Top1 = 0
	}
	if !x.raises() || !goal.Missed(x.result) {
		return nil
	}
	misses := func(what, why string) {
		top1, _ := x.result.Top1()
		x.notes = append(x.notes, fmt.Sprintf("%s: SQNR %.2f dB (prompts) and %.2f dB (single tokens), top-1 agreement %.2f %%; %s needed%s", what,
			float64(x.result.Prefill.SQNR), float64(x.result.Decode.SQNR), 100*top1, figures(goal), why))
	}
	if why := x.obstacle(x.model); why != "" {
		misses("8-bit weights", fmt.Sprintf(", but %s; --promote %g does it", why, float64(goal.Alone(x.result))))
		return nil
	}
	x.goal = goal
	var little *calib.TooLittleError
	if err := x.raise(nil); errors.As(err, &little) {
		misses("8-bit weights", ", but which weights get 16 bits is measured on text of its own: "+little.Error())
		return nil
	} else if err != nil {
		return err
	}
	if !x.reached {
		x.quantizer.Raised, x.promoted = map[string]int{}, nil
		misses("8-bit weights", ", but 16-bit weights are not enough for that: what --sensitivity shows of activations costs more")
		return nil
	}
	if err := x.simulate(held); err != nil {
		return err
	}
	if goal.Missed(x.result) {
		misses("16-bit weights where they pay", "")
	}
	return nil
}

// figures states a goal.
func figures(g npu.Goal) string {
	if g.Top1 == 0 {
		return fmt.Sprintf("%g dB are", float64(g.SQNR))
	}
	return fmt.Sprintf("%g dB and %g %% are", float64(g.SQNR), 100*g.Top1)
}

// raise measures what every tensor costs, and gives more bits where that is wanted: on text of its own for a figure, and on that of the
// ranges otherwise.
func (x *exporting) raise(text [][]int32) (err error) {
	ctx := x.cmd.Context()
	if x.goal.SQNR > 0 {
		if text, err = x.others(x.checks(x.model)); err != nil {
			return err
		}
	}
	if x.costs == nil {
		if err := x.measure(text); err != nil {
			return err
		}
	}
	x.before = x.quantizer.WeightBytes(x.model, x.graph)
	switch {
	case x.promote == promoteAuto:
		x.promoted = x.quantizer.Promote(x.model, x.graph, x.costs)
	case x.goal.SQNR > 0:
		show := newCounter(x.cmd, x.quiet, "promotion", 1)
		t := &npu.Test{Sequences: text, Decode: x.text.decode, Threads: x.threads, Progress: show.reportNodes}
		x.promoted, x.reached, err = x.quantizer.NewPromotion(x.model, x.graph, x.costs).Reach(ctx, t, x.goal, x.text.holdout)
		show.finish()
	}
	return err
}

// measure finds what every tensor costs alone, or every matrix where only these can have more bits and nobody asked for the others.
func (x *exporting) measure(text [][]int32) (err error) {
	t := &npu.Test{Threads: x.threads}
	for _, ids := range text {
		if n := x.graph.Prefill; len(ids) >= n && len(t.Sequences) < sensitivitySequences {
			t.Sequences = append(t.Sequences, ids[:n])
		}
	}
	if len(t.Sequences) == 0 {
		return inputError(fmt.Errorf("calibration: no sequence has the %d tokens of a prefill", x.graph.Prefill))
	}
	var kinds []string
	if x.promote == promoteNeeded && !x.sensitivity {
		kinds = []string{npu.MatrixKind}
	}
	show := newCounter(x.cmd, x.quiet, "sensitivity", 1)
	t.Progress = show.reportNodes
	x.costs, err = t.Sensitivity(x.cmd.Context(), x.model, x.graph, x.quantizer, kinds...)
	show.finish()
	return err
}
