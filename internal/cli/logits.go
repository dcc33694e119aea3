package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"nibble/fidelity"
	"nibble/internal/half"
	"nibble/runtime"
)

// logitsOptions are the flags of logits.
type logitsOptions struct {
	running
	tokens, text, out string
	chunk, greedy     int
}

func newLogitsCommand() *cobra.Command {
	o := new(logitsOptions)
	cmd := &cobra.Command{
		Use:   "logits [MODEL]",
		Short: "Write a model's logits to a file",
		Long: `Run tokens through a model and write the logits behind every one of them as raw little-endian float32, [tokens,
vocabulary], row after row. --text encodes a file, with the tokens that the tokenizer puts in front of a text. --greedy N
prints the ids of the N likeliest next tokens, each given those before it, as a JSON list; no token ends it early.`,
		Example: `  runtime logits --tokens 605,333,598 -o demo.f32
  runtime logits ./model --tokens 1,2,3 --greedy 16
  runtime logits ./model --text prompt.txt -o logits.f32 --chunk 7 --activations a16`,
		Args: noMore(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runLogits(cmd, args, o) },
	}
	o.running.register(cmd, "longest sequence (default: as long as the tokens need)")
	f := cmd.Flags()
	f.StringVar(&o.tokens, "tokens", "", "token ids, separated by commas")
	f.StringVar(&o.text, "text", "", "text file to encode instead (UTF-8)")
	f.StringVarP(&o.out, "output", "o", "", "file to write, replaced if it is there")
	f.IntVar(&o.chunk, "chunk", 0, "run the tokens in pieces of so many; 0: all at once; under dynamic rope and longrope one pass is exact")
	f.IntVar(&o.greedy, "greedy", 0, "print so many likeliest next tokens")
	return cmd
}

// parseTokens reads "1,2,3".
func parseTokens(s string) ([]int32, error) {
	var ids []int32
	for i, field := range strings.Split(s, ",") {
		id, err := strconv.ParseInt(strings.TrimSpace(field), 10, 32)
		if err != nil || id < 0 {
			return nil, usagef("--tokens: item %d is %q, want token ids separated by commas", i+1, field)
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}

func (o *logitsOptions) check() error {
	if err := o.running.check(); err != nil {
		return err
	}
	switch {
	case (o.tokens == "") == (o.text == ""):
		return usagef("want one of --tokens 1,2,3 and --text FILE")
	case o.out == "" && o.greedy == 0:
		return usagef("want -o FILE for the logits, --greedy N for a continuation, or both")
	case o.chunk < 0:
		return usagef("--chunk %d: want a number of tokens, or 0 for all at once", o.chunk)
	case o.greedy < 0:
		return usagef("--greedy %d: want a number of tokens", o.greedy)
	}
	return nil
}

// input returns the tokens to run.
func (o *logitsOptions) input(x *runner) ([]int32, error) {
	if o.tokens != "" {
		return parseTokens(o.tokens)
	}
	text, err := readText(o.text)
	if err != nil {
		return nil, err
	}
	if err := x.language(); err != nil {
		return nil, err
	}
	ids, err := x.begin(text)
	if err == nil && len(ids) == 0 {
		err = coded{fmt.Errorf("%s: no text", o.text), exitInput}
	}
	return ids, err
}

func runLogits(cmd *cobra.Command, args []string, o *logitsOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	if o.out != "" {
		if info, err := os.Stat(filepath.Dir(o.out)); err != nil {
			return err
		} else if !info.IsDir() {
			return fmt.Errorf("%s: %s is no folder", o.out, filepath.Dir(o.out))
		}
	}
	x, err := o.open(cmd, args)
	if err != nil {
		return err
	}
	defer x.close()
	ids, err := o.input(x)
	if err != nil {
		return err
	}
	if err := known(x, ids); err != nil {
		return err
	}
	need := len(ids) + max(o.greedy-1, 0)
	length := max(o.context, need)
	if o.context > 0 && o.context < need {
		return usagef("--context %d: %d tokens and %d to come do not fit; leave it out or make it %d", o.context, len(ids), o.greedy, need)
	}
	if err := o.fit(cmd, length, x); err != nil {
		return err
	}
	if o.out != "" {
		if err := writeAtomic(o.out, func(w io.Writer) error { return o.write(cmd.Context(), x, ids, w) }); err != nil {
			return err
		}
	}
	var next []int32
	if o.greedy > 0 {
		if next, err = fidelity.Continue(cmd.Context(), x.Model, ids, o.greedy, nil, o.kv); err != nil {
			return err
		}
	}
	switch {
	case o.json:
		return printJSON(cmd, struct {
			Model      string  `json:"model"`
			Output     string  `json:"output,omitempty"`
			Tokens     []int32 `json:"tokens"`
			Vocabulary int     `json:"vocabulary"`
			Greedy     []int32 `json:"greedy,omitempty"`
		}{x.name, o.out, ids, x.Width(), next})
	case o.greedy > 0:
		return json.NewEncoder(cmd.OutOrStdout()).Encode(next)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: float32 [%d, %d]\n", o.out, len(ids), x.Width())
	return err
}

// known refuses tokens that the model does not have.
func known(x *runner, ids []int32) error {
	for i, id := range ids {
		if int(id) >= x.Width() {
			return usagef("token %d at position %d: %s has tokens 0 to %d", id, i, x.name, x.Width()-1)
		}
	}
	return nil
}

// write runs the tokens and writes their logits.
func (o *logitsOptions) write(ctx context.Context, x *runner, ids []int32, w io.Writer) error {
	session, err := x.NewSession(len(ids), o.kv)
	if err != nil {
		return err
	}
	step := o.chunk
	if step == 0 {
		step = len(ids)
	}
	row := make([]byte, 4*x.Width())
	for at := 0; at < len(ids); at += step {
		if err := ctx.Err(); err != nil {
			return err
		}
		var failed error
		err := x.ForwardContext(ctx, []runtime.Input{{Session: session, Tokens: ids[at:min(at+step, len(ids))], All: true}},
			func(_, _ int, logits []float32) {
				if failed == nil {
					half.EncodeF32(row, logits)
					_, failed = w.Write(row)
				}
			})
		if err == nil {
			err = failed
		}
		if err != nil {
			return err
		}
	}
	return nil
}
