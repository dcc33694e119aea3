// Package cli holds the commands: flags, help, progress, what is printed where, and exit codes. The work is done
// elsewhere.
//
// Results go to standard output, progress and messages to standard error. With --json the result is one JSON object.
package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"nibble/build"
	"nibble/convert"
	"nibble/demo"
	"nibble/gguf/view"
	"nibble/hf"
	"nibble/internal/kernel"
	"nibble/internal/version"
	"nibble/loader"
	"nibble/quant"
	nibbleruntime "nibble/runtime"
	"nibble/safetensors"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // the job could not be done
	exitUsage  = 2 // the command line says something that cannot be
	exitInput  = 3 // an input file is bad, or is not what it should be
	exitGate   = 4 // done, but a quality gate was missed

	exitInterrupted = 130 // ended by Ctrl-C or SIGTERM, as a shell states the former
)

// coded is an error with an exit code of its own.
type coded struct {
	error
	code int
}

func (c coded) Unwrap() error { return c.error }

func usagef(format string, args ...any) error { return coded{fmt.Errorf(format, args...), exitUsage} }

// inputError marks whatever went wrong while an input was opened.
func inputError(err error) error {
	var c coded
	var memory *convert.MemoryError
	if err == nil || errors.As(err, &c) || errors.As(err, &memory) {
		return err
	}
	return coded{err, exitInput}
}

// exitCode maps an error to an exit code.
func exitCode(err error) int {
	var c coded
	var defect *quant.Defect
	var part *convert.PartError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled), errors.Is(err, convert.ErrInterrupted):
		return exitInterrupted
	case errors.As(err, &c):
		return c.code
	case errors.Is(err, safetensors.ErrCorrupt), errors.Is(err, hf.ErrMismatch), errors.Is(err, quant.ErrNonFinite), errors.Is(err, nibbleruntime.ErrNonFinite),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, convert.ErrChanged), errors.Is(err, convert.ErrQuantized), errors.As(err, &defect), errors.As(err, &part):
		return exitInput // found while working
	}
	return exitFailed
}

// Main runs a command and exits.
func Main(root *cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills
	code := Execute(ctx, root)
	os.Exit(code)
}

// Execute runs a command and returns its exit code. An error is one line on standard error.
func Execute(ctx context.Context, root *cobra.Command) int {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Version = version.String()
	root.SetVersionTemplate("nibble {{.Name}} {{.Version}}\n")
	out := &checked{w: root.OutOrStdout()}
	root.SetOut(out)
	unread := false // flags behind one that cannot be
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		unread = true
		return coded{flagError(err), exitUsage}
	})
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if f := cmd.Flags().Lookup("output"); f != nil && f.Changed && f.Value.String() == "" {
			return usagef("--output \"\": want a name")
		}
		return roomToBegin()
	}
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = out.err
	}
	if err != nil {
		if errors.Is(err, context.Canceled) {
			err = convert.ErrInterrupted
		}
		line := strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), "\n", "; ")), " ")
		fmt.Fprintf(root.ErrOrStderr(), "%s: %s\n", cmd.CommandPath(), line)
		f := cmd.Flags().Lookup("json")
		if f != nil && (f.Value.String() == "true" || unread && slices.Contains(os.Args, "--json")) && out.n == 0 {
			_ = printJSON(cmd, failure(err, line)) // the line above has said it
		}
	}
	return exitCode(err)
}

// flagError says of a value that is no number what it is a value of, and not which function of Go refused it.
func flagError(err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) || !errors.Is(err, strconv.ErrSyntax) && !errors.Is(err, strconv.ErrRange) {
		return err
	}
	want := "a number"
	switch bad.GetFlag().Value.Type() {
	case "int":
		want = "a whole number"
	case "uint64":
		want = "a whole number from 0"
	case "bool":
		want = "true or false"
	}
	return fmt.Errorf("--%s %q: want %s", bad.GetFlag().Name, bad.GetValue(), want)
}

// checked remembers that a result could not be printed.
type checked struct {
	w   io.Writer
	n   int64 // bytes of results so far
	err error
}

func (c *checked) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	c.err = cmp.Or(c.err, err)
	return n, err
}

// failed is what --json prints where there is no result.
type failed struct {
	Error    string           `json:"error"`
	Code     int              `json:"code"`
	Problems []loader.Problem `json:"problems,omitempty"` // all that a target cannot hold
}

func failure(err error, line string) failed {
	f := failed{Error: line, Code: exitCode(err)}
	var unfit *convert.Unfit
	if errors.As(err, &unfit) {
		f.Problems = unfit.Problems
	}
	return f
}

// noMore is cobra's argument check with the exit code of a usage error.
func noMore(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			if close := cmd.SuggestionsFor(args[n]); len(close) > 0 {
				return usagef("unknown command %q; did you mean %s?", args[n], strings.Join(close, " or "))
			}
			if n == 0 && cmd.HasAvailableSubCommands() {
				return usagef("unknown command %q; %s --help lists those that there are", args[n], cmd.CommandPath())
			}
			return usagef("unexpected argument %q", args[n])
		}
		return nil
	}
}

// common are the flags that every command has.
type common struct {
	json    bool
	quiet   bool
	threads int
}

func (c *common) register(cmd *cobra.Command) {
	c.registerPrinting(cmd)
	cmd.Flags().IntVarP(&c.threads, "threads", "t", runtime.GOMAXPROCS(0), "worker threads")
}

// registerPrinting adds the flags but for threads.
func (c *common) registerPrinting(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&c.json, "json", false, "print the result as one JSON object")
	f.BoolVarP(&c.quiet, "quiet", "q", false, "no progress")
}

func (c *common) check() error {
	if c.threads < 1 || c.threads > 4096 {
		return usagef("--threads %d: want 1 to 4096", c.threads)
	}
	return nil
}

// reproducible refuses kernels whose results are not those of all others, of a command that writes files from what it computes.
func reproducible() error {
	if name, err := kernel.Active(); err != nil || !slices.Contains(kernel.Names(), name) {
		return usagef("NIBBLE_KERNEL: %w", cmp.Or(err, fmt.Errorf("%s computes other bits than other machines, and files are the same from all of them", name)))
	}
	return nil
}

// demoName is what the demo is called where a model's folder would be.
const demoName = "demo"

// openModel opens the folder that an argument names, or the demo without one. A GGUF file is a folder, too.
func openModel(args []string) (*hf.Folder, string, error) {
	if len(args) == 0 {
		f, err := hf.NewFolder("", demo.FS(), "")
		return f, demoName, err
	}
	if isGGUF(args[0]) {
		return openGGUF(args[0], false)
	}
	f, err := hf.Find(args[0])
	if err != nil {
		return nil, "", inputError(err)
	}
	path := args[0]
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return f, filepath.Base(path), nil
}

// isGGUF reports whether an argument names a GGUF file.
func isGGUF(model string) bool { return strings.EqualFold(filepath.Ext(model), ".gguf") }

// openGGUF opens a GGUF file as a folder; with plain all its weights are floats.
func openGGUF(path string, plain bool) (*hf.Folder, string, error) {
	f, err := view.Folder(path, plain)
	name := filepath.Base(path)
	return f, strings.TrimSuffix(name, filepath.Ext(name)), inputError(err)
}

// openFloats is openModel for what needs floats.
func openFloats(args []string) (*hf.Folder, string, error) {
	if len(args) > 0 && isGGUF(args[0]) {
		return openGGUF(args[0], true)
	}
	return openModel(args)
}

// source adds the flags that decide what a checkpoint leaves open.
type source struct {
	arch, tie, vocab string
}

func (s *source) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.arch, "arch", "", "generic: do without the architecture's table and take every 2-D *.weight that looks like a linear")
	f.StringVar(&s.tie, "tie", "", "yes, no: whether head and embedding are one, where config and file disagree")
	f.StringVar(&s.vocab, "vocab", "", "config, file: whose number of rows holds, where the embedding is longer than vocab_size")
}

func (s *source) options() (hf.Options, error) {
	o := hf.Options{Tie: s.tie, Vocab: s.vocab}
	switch s.arch {
	case "":
	case "generic":
		o.Generic = true
	default:
		return o, usagef("--arch %q: the only value is generic", s.arch)
	}
	if s.tie != "" && s.tie != "yes" && s.tie != "no" {
		return o, usagef("--tie %q: want yes or no", s.tie)
	}
	if s.vocab != "" && s.vocab != "config" && s.vocab != "file" {
		return o, usagef("--vocab %q: want config or file", s.vocab)
	}
	return o, nil
}

func (s *source) open(f *hf.Folder) (*build.Build, error) {
	o, err := s.options()
	if err != nil {
		return nil, err
	}
	b, err := build.Open(f, o)
	return b, inputError(err)
}

// output are the flags of commands that write a folder.
type output struct {
	out       string
	overwrite bool
	maxShard  string
}

func (o *output) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&o.out, "output", "o", "", "folder to write (default: a name made of the model's and the settings, in the current folder)")
	f.BoolVar(&o.overwrite, "overwrite", false, "replace the output folder if it is a model, and what an interrupted run left")
	f.StringVar(&o.maxShard, "max-shard-size", "5GB", "most bytes of tensors in one file (kB, MB, GB; KiB, MiB, GiB)")
}

// printJSON writes v as indented JSON.
func printJSON(cmd *cobra.Command, v any) error {
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// notes prints what was decided or found, one line each.
func notes(cmd *cobra.Command, list []string) {
	for _, n := range list {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: note: %s\n", cmd.Name(), n)
	}
}

// printFiles prints the files of an output with their sizes.
func printFiles(w io.Writer, files []convert.File) {
	var total int64
	for _, f := range files {
		fmt.Fprintf(w, "%15d  %s\n", f.Size, f.Name)
		total += f.Size
	}
	fmt.Fprintf(w, "%15d  bytes in %d files\n", total, len(files))
}
