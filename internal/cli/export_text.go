package cli

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/spf13/cobra"

	"nibble/calib"
	"nibble/demo"
	"nibble/npu"
	"nibble/runtime"
)

// exportText are the flags that say which text the ranges come from, and on which the graphs are measured.
type exportText struct {
	calib.Settings
	chat            string
	holdout, decode int
}

// randomSource is the value of --calib for tokens that mean nothing.
const randomSource = "random"

// Above so many parameters the defaults of samples and lengths are smaller.
const largeModel = 300e6

func (t *exportText) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&t.Source, "calib", "", "text for the ranges: a file or folder, self: text that the model writes itself, random: tokens that mean nothing (default self; the demo's text for the demo)")
	f.StringVar(&t.Field, "calib-field", "", "field of rows in jsonl and parquet files (default: text, or messages)")
	f.IntVar(&t.Samples, "samples", 0, "sequences for the ranges (default 16; 3 for large models)")
	f.IntVar(&t.Length, "seqlen", 0, "tokens of a sequence (default: three prefills, or one for large models, and what runs one by one)")
	f.IntVar(&t.holdout, "holdout", 0, "more sequences, on which the graphs are measured (default 4; 1 for large models)")
	f.IntVar(&t.decode, "decode", 64, "tokens at the end of a held-out sequence that run one by one")
	f.Uint64Var(&t.Seed, "calib-seed", 1, "which sequences are taken of a text, or written by the model")
	f.StringVar(&t.chat, "calib-chat", "auto", "auto, on, off: write text with the model's chat template (auto: if it has one)")
}

func (t *exportText) check(g *npu.Options, madeUp bool) error {
	switch {
	case t.Samples < 0 || t.holdout < 0 || t.Length < 0 || t.Samples > 1<<16 || t.holdout > 1<<16:
		return usagef("--samples %d, --holdout %d, --seqlen %d: want positive numbers", t.Samples, t.holdout, t.Length)
	case t.decode < 1 || t.decode+g.Prefill > g.Context:
		return usagef("--decode %d: want 1 to %d, so that a prefill of %d and it fit the context of %d", t.decode, g.Context-g.Prefill, g.Prefill, g.Context)
	case t.Length > g.Context:
		return usagef("--seqlen %d is longer than the context of %d", t.Length, g.Context)
	case t.Length > 0 && t.Length < g.Prefill+t.decode:
		return usagef("--seqlen %d: too short to measure anything: a prefill of %d and %d single tokens need %d", t.Length, g.Prefill, t.decode, g.Prefill+t.decode)
	case t.chat != "auto" && t.chat != "on" && t.chat != "off":
		return usagef("--calib-chat %q: want auto, on or off", t.chat)
	case madeUp && t.Source != "" && t.Source != randomSource:
		return usagef("--calib %s: a --shape has no text, only random tokens", t.Source)
	}
	if madeUp {
		t.Source = randomSource
	}
	return nil
}

// defaults fills in what depends on the model.
func (t *exportText) defaults(g *npu.Options, m *npu.Model) {
	samples, holdout, prefills := 16, 4, 3
	if m.Parameters() > largeModel {
		samples, holdout, prefills = 3, 1, 1
	}
	prefills = max(min(prefills, (g.Context-t.decode)/g.Prefill), 1)
	t.Samples, t.holdout = cmp.Or(t.Samples, samples), cmp.Or(t.holdout, holdout)
	t.Length = cmp.Or(t.Length, prefills*g.Prefill+t.decode)
}

// checks is how many more sequences a promotion to a figure is measured on.
func (o *exportOptions) checks(m *npu.Model) int {
	if o.goal.SQNR == 0 && (!o.raises() || o.obstacle(m) != "") {
		return 0
	}
	return max(2*o.text.holdout, sensitivitySequences)
}

// lanes is how many sequences run together at most, in float and on the grids.
func (o *exportOptions) lanes(m *npu.Model) int {
	return max(o.text.Samples, 2*o.text.holdout, 2*o.checks(m))
}

// ofDemo reports whether the demo is measured on its own texts.
func (x *exporting) ofDemo() bool {
	return x.build.Path == "" && x.shape == "" && (x.text.Source == "" || x.text.Source == randomSource)
}

// sequences returns those for the ranges, and those to measure on.
func (x *exporting) sequences() (ranges, held [][]int32, err error) {
	t := &x.text
	if x.ofDemo() {
		if ranges, held, err = x.demoSequences(); err == nil && t.Source == randomSource {
			ranges, x.source = x.random(t.Samples), "random tokens, measured on the demo's text"
		}
		return ranges, held, err
	}
	all, source, err := x.texts(t.Samples + t.holdout)
	if err != nil {
		return nil, nil, err
	}
	x.used, x.source = len(all), source
	for _, ids := range all { // held out are the first ones that are long enough
		if x.long(ids) && len(held) < t.holdout {
			held = append(held, x.whole(ids))
		} else {
			ranges = append(ranges, ids)
		}
	}
	if len(held) == 0 || len(ranges) == 0 {
		return nil, nil, inputError(fmt.Errorf("calibration: of %d sequences none is left that has %d tokens, a prefill and what runs one by one; take longer text, a smaller --prefill or a smaller --decode",
			len(all), x.graph.Prefill+t.decode))
	}
	return ranges, held, nil
}

// others returns n more sequences of the same text. The error wraps *calib.TooLittleError where it has none.
func (x *exporting) others(n int) (list [][]int32, err error) {
	var all [][]int32
	if x.ofDemo() {
		all, err = x.demoRest()
	} else if all, _, err = x.texts(x.used + n); err == nil {
		all = all[x.used:]
	}
	for _, ids := range all {
		if x.long(ids) {
			list = append(list, x.whole(ids))
		}
	}
	if err == nil && len(list) < n {
		err = inputError(&calib.TooLittleError{Source: x.source, Have: len(list) * x.text.Length, Wanted: n * x.text.Length})
	}
	if err != nil {
		return nil, err
	}
	for i := range n { // all, or spread over what the demo has
		list[i] = list[i*len(list)/n]
	}
	return list[:n], nil
}

// texts returns n sequences, of which the first ones are always the same, and where they come from.
func (x *exporting) texts(n int) (all [][]int32, source string, err error) {
	if x.text.Source == randomSource {
		return x.random(n), "random tokens", nil
	}
	return x.textSequences(n)
}

// long reports whether a sequence has a prefill and what runs one by one.
func (x *exporting) long(ids []int32) bool { return len(ids) >= x.graph.Prefill+x.text.decode }

// random are sequences that mean nothing.
func (x *exporting) random(n int) (list [][]int32) {
	r := rand.New(rand.NewPCG(x.text.Seed, 0))
	for range n {
		ids := make([]int32, x.text.Length)
		for i := range ids {
			ids[i] = int32(r.IntN(x.model.Vocab))
		}
		list = append(list, ids)
	}
	return list
}

// whole cuts a sequence to whole prefills and the single tokens behind.
func (x *exporting) whole(ids []int32) []int32 {
	return ids[:(len(ids)-x.text.decode)/x.graph.Prefill*x.graph.Prefill+x.text.decode]
}

// demoSequences are spread evenly over the demo's two texts.
func (x *exporting) demoSequences() (ranges, held [][]int32, err error) {
	cut := func(text string, n int) (list [][]int32, err error) {
		ids, err := x.demoText(text)
		if err != nil {
			return nil, err
		}
		if need := n * x.text.Length; len(ids) < need {
			return nil, usagef("the demo's text has %d tokens, %d sequences of %d need %d; take fewer or shorter ones", len(ids), n, x.text.Length, need)
		}
		for i := range n {
			at := i * len(ids) / n
			list = append(list, ids[at:at+x.text.Length])
		}
		return list, nil
	}
	if ranges, err = cut(demo.Calibration(), x.text.Samples); err != nil {
		return nil, nil, err
	}
	if held, err = cut(demo.Evaluation(), x.text.holdout); err != nil {
		return nil, nil, err
	}
	for i := range held {
		held[i] = x.whole(held[i])
	}
	x.source = "the demo's texts"
	return ranges, held, nil
}

// demoRest is what lies between the sequences for the ranges.
func (x *exporting) demoRest() (list [][]int32, err error) {
	ids, err := x.demoText(demo.Calibration())
	n, length := x.text.Samples, x.text.Length
	for i := range n {
		for at := i*len(ids)/n + length; at+length <= (i+1)*len(ids)/n; at += length {
			list = append(list, ids[at:at+length])
		}
	}
	return list, err
}

// demoText is one of the demo's texts in tokens.
func (x *exporting) demoText(text string) ([]int32, error) {
	l, err := language(x.build)
	if err != nil {
		return nil, err
	}
	return l.Tokenizer.Encode(text, false)
}

// textSequences takes them from a text, or lets the model write them.
func (x *exporting) textSequences(n int) (all [][]int32, source string, err error) {
	t := &x.text
	l, err := language(x.build)
	if err != nil {
		return nil, "", err
	}
	s := t.Settings
	s.Samples, s.Pack, s.Chat = n, true, t.chat == "on" || t.chat == "auto" && l.Chat != nil
	s.Source = cmp.Or(s.Source, calib.SelfSource)
	if err := s.Check(); err != nil {
		return nil, "", coded{err, exitUsage}
	}
	var q *calib.Sequences
	if s.Source != calib.SelfSource {
		if _, err := os.Stat(s.Source); err != nil {
			return nil, "", inputError(err)
		}
		if q, err = calib.Load(x.cmd.Context(), l, s); err != nil {
			return nil, "", inputError(err)
		}
	} else {
		m, err := loadModel(x.build, runtime.Config{Mode: runtime.A16, Threads: x.threads})
		if err != nil {
			return nil, "", err
		}
		defer m.Close()
		show := newCounter(x.cmd, x.quiet, "the model writes its calibration text", n*s.Length)
		q, err = calib.Self(x.cmd.Context(), m, l, s, show.report)
		show.finish()
		if err != nil {
			return nil, "", err
		}
	}
	return q.IDs, q.String(), nil
}
