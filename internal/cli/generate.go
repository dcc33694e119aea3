package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"nibble/runtime"
	"nibble/tokenizer"
)

// generateOptions are the flags of generate.
type generateOptions struct {
	running
	prompt, file, system string
	chat                 bool
	tokens               int
	stops                []string
	sampling             runtime.Sampling
}

func newGenerateCommand() *cobra.Command {
	o := new(generateOptions)
	cmd := &cobra.Command{
		Use:   "generate [MODEL]",
		Short: "Continue a text",
		Long: `Continue a prompt, which is --prompt, --file, or what comes on standard input (less one newline at the end of either of
the last two). The continuation streams to standard output. It ends at --tokens, at an end token of the model, before a
--stop string, where the context is full, or at Ctrl-C, which is no error.

The likeliest token is taken each time unless --temperature is above 0. With --chat the prompt is a user's message in the
model's chat template. The model runs in f32, the reference, unless --activations names a faster mode: a8 for quantized
builds and a16 for others are what bench measures. --json prints prompt_tokens, tokens, text, stop_reason (length, eos, stop, context, interrupted)
and ids, the end token included.`,
		Example: `  runtime generate --prompt "And it came to pass that the captain"
  runtime generate ./model --chat --system "Be brief." --prompt "Why is the sky blue?" --temperature 0.7 --top-p 0.9
  runtime generate ./model --file prompt.txt -n 200 --seed 7 --temperature 1 --stop "###"`,
		Args: noMore(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runGenerate(cmd, args, o) },
	}
	o.running.register(cmd, "longest sequence, prompt included (default: prompt and --tokens, or what the model has)")
	f, s := cmd.Flags(), &o.sampling
	f.StringVarP(&o.prompt, "prompt", "p", "", "text to continue")
	f.StringVarP(&o.file, "file", "f", "", "file with the text to continue (UTF-8)")
	f.BoolVar(&o.chat, "chat", false, "put the prompt into the model's chat template")
	f.StringVar(&o.system, "system", "", "system message, with --chat")
	f.IntVarP(&o.tokens, "tokens", "n", 128, "most tokens to generate")
	f.StringArrayVar(&o.stops, "stop", nil, "end before this string (may be repeated)")
	f.Float64Var(&s.Temperature, "temperature", 0, "0 takes the likeliest token; 1 draws by the model's probabilities")
	f.IntVar(&s.TopK, "top-k", 0, "draw among so many of the likeliest tokens; 0: all")
	f.Float64Var(&s.TopP, "top-p", 1, "draw among the likeliest tokens with this share together; 1: all")
	f.Float64Var(&s.MinP, "min-p", 0, "draw among the tokens with this share of the likeliest one's probability; 0: all")
	f.Float64Var(&s.Repetition, "repetition-penalty", 1, "make tokens that were there less likely; 1: no")
	f.Uint64Var(&s.Seed, "seed", 0, "of the draws; the same seed gives the same text")
	return cmd
}

func (o *generateOptions) check(cmd *cobra.Command) error {
	if err := o.running.check(); err != nil {
		return err
	}
	if err := o.sampling.Check(); err != nil {
		return coded{err, exitUsage}
	}
	changed, unused := cmd.Flags().Changed, ""
	for _, name := range []string{"top-k", "top-p", "min-p", "seed"} {
		if changed(name) {
			unused = name
		}
	}
	switch {
	case changed("prompt") && changed("file"):
		return usagef("--prompt and --file exclude each other")
	case o.system != "" && !o.chat:
		return usagef("--system needs --chat")
	case o.tokens < 1:
		return usagef("--tokens %d: want at least 1", o.tokens)
	case o.sampling.Temperature == 0 && unused != "":
		return usagef("--%s means nothing at --temperature 0, which takes the likeliest token", unused)
	case slices.Contains(o.stops, ""):
		return usagef("--stop \"\": want a string that is not empty")
	}
	return nil
}

// demoPrompt is what the demo continues where nothing is given.
const demoPrompt = "And it came to pass that the captain"

// text finds the prompt.
func (o *generateOptions) text(cmd *cobra.Command, args []string) (string, error) {
	switch {
	case cmd.Flags().Changed("prompt"):
		return validText("--prompt", []byte(o.prompt))
	case o.file != "":
		text, err := readText(o.file)
		return strings.TrimSuffix(text, "\n"), err
	}
	var raw []byte
	in := cmd.InOrStdin()
	if f, ok := in.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		var err error
		if raw, err = io.ReadAll(in); err != nil {
			return "", inputError(err)
		}
	}
	if len(raw) == 0 && len(args) == 0 {
		return demoPrompt, nil
	}
	text, err := validText("standard input", raw)
	return strings.TrimSuffix(text, "\n"), err
}

// encode turns the prompt into tokens.
func (o *generateOptions) encode(x *runner, text string) ([]int32, error) {
	if !o.chat {
		ids, err := x.begin(text)
		if err == nil && len(ids) == 0 {
			err = usagef("the prompt is empty: give one by --prompt, --file or standard input")
		}
		return ids, err
	}
	template, err := tokenizer.LoadChat(x.build.FS)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, coded{fmt.Errorf("%s has no chat template; leave --chat out", x.name), exitInput}
	}
	if err != nil {
		return nil, inputError(err)
	}
	var messages []tokenizer.Message
	if o.system != "" {
		messages = append(messages, tokenizer.Message{Role: "system", Content: o.system})
	}
	messages = append(messages, tokenizer.Message{Role: "user", Content: text})
	rendered, err := template.Render(messages, true, nil)
	if err != nil {
		return nil, inputError(err)
	}
	ids, err := x.tokenizer.Encode(rendered, false)
	if err == nil && len(ids) == 0 {
		err = fmt.Errorf("%s: the chat template makes an empty text", x.name)
	}
	return ids, inputError(err)
}

func runGenerate(cmd *cobra.Command, args []string, o *generateOptions) error {
	if err := o.check(cmd); err != nil {
		return err
	}
	text, err := o.text(cmd, args)
	if err != nil {
		return err
	}
	x, err := o.open(cmd, args)
	if err != nil {
		return err
	}
	defer x.close()
	if err := x.language(); err != nil {
		return err
	}
	ids, err := o.encode(x, text)
	if err != nil {
		return err
	}
	g := &generation{options: o, runner: x, PromptTokens: len(ids), IDs: []int32{}}
	if g.ends, err = endTokens(x.build, x.name); err != nil {
		return err
	}
	length := o.context
	if length == 0 {
		if length = len(ids) + o.tokens; !x.Arch.Stretches() {
			length = min(length, x.Limit())
		}
	}
	if len(ids) > length {
		return usagef("the prompt has %d tokens, the context %d: shorten the prompt, or take a longer --context (%s is made for %d)",
			len(ids), length, x.name, x.Limit())
	}
	if err := o.fit(cmd, length, x); err != nil {
		return err
	}
	if !o.json {
		g.out = cmd.OutOrStdout()
	}
	if err := g.run(cmd.Context(), ids, length); err != nil {
		return err
	}
	if o.json {
		return printJSON(cmd, g)
	}
	fmt.Fprintln(g.out)
	if !o.quiet {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %d tokens after %d of the prompt; ended by: %s\n", cmd.Name(), g.Tokens, g.PromptTokens, g.Reason)
	}
	return nil
}
