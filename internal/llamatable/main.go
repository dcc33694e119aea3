// Command llamatable sets GGUF files of ours beside those of llama.cpp, whose programs llama-quantize, llama-imatrix, llama-perplexity and
// llama-tokenize it runs: sizes, KL divergence from the float model, and how far the two programs agree about the tokens of a text
// and the perplexity of a file.
//
// llama-perplexity scores the tokens behind the first of the second half of every window, 255 of 512; the perplexity of ours that
// stands beside it is over the same tokens.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"nibble/build"
	"nibble/fidelity"
	"nibble/gguf/view"
	"nibble/hf"
	"nibble/runtime"
	"nibble/tokenizer"
)

const length = 512 // of a window

// options are the flags, and what comes of them.
type options struct {
	bin, llama, model, text, calib, dir string
	types                               []string
	windows, samples                    int
	float                               bool

	reference *runtime.Model
	tok       *tokenizer.Tokenizer
	ids       []int32
}

// row is a file: of a type, by one of the programs.
type row struct {
	kind, maker string
	bytes       int64
	kl          float64
	ci          fidelity.Interval // 95 % of kl
	ours        float64           // perplexity
	theirs      float64
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "bin", "folder with quantize")
	flag.StringVar(&o.llama, "llama", "", "folder with the programs of llama.cpp")
	flag.StringVar(&o.model, "model", "", "folder of the float model")
	flag.StringVar(&o.text, "text", "", "text to measure on")
	flag.StringVar(&o.calib, "calib", "", "text that both calibrate with; none: neither does")
	flag.BoolVar(&o.float, "float", false, "llama.cpp was built with GGML_BLAS=ON, which multiplies in float32, as ours is to do")
	types := flag.String("types", "q4_0,iq4_xs,q3_k_m,q4_k_m,q5_k_m,q6_k", "types of the files")
	flag.IntVar(&o.windows, "windows", 20, "windows of 512 tokens to measure on")
	flag.IntVar(&o.samples, "samples", 128, "sequences of 512 tokens to calibrate with")
	flag.Parse()
	if flag.NArg() > 0 || o.llama == "" || o.model == "" || o.text == "" || o.windows < 1 {
		flag.Usage()
		os.Exit(2)
	}
	o.types = strings.Split(*types, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := o.run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "llamatable:", err)
		os.Exit(1)
	}
}

// run makes all files, in a folder that goes again, and the table.
func (o *options) run(ctx context.Context, out io.Writer) (err error) {
	if o.dir, err = os.MkdirTemp("", "llamatable-"); err != nil {
		return err
	}
	defer os.RemoveAll(o.dir)
	float := o.file("float")
	if err := o.quantize(ctx, float, "bf16"); err != nil {
		return err
	}
	folder, err := hf.Find(o.model)
	if err != nil {
		return err
	}
	if o.tok, err = tokenizer.Load(folder.FS); err != nil {
		return err
	}
	if err := o.tokens(ctx, out, float); err != nil {
		return err
	}
	if o.reference, err = load(folder, runtime.F32); err != nil {
		return err
	}
	defer o.reference.Close()
	matrix := o.file("imatrix")
	if o.calib != "" {
		if err := o.program(ctx, "llama-imatrix", "-m", float, "-f", o.calib, "-o", matrix, "-c", strconv.Itoa(length), "--chunks", strconv.Itoa(o.samples)); err != nil {
			return err
		}
	}
	rows := []*row{{kind: "bf16", maker: "ours"}}
	if err := o.measure(ctx, rows[0], float); err != nil {
		return err
	}
	for _, t := range o.types {
		theirs, ours := o.file("llama-"+t), o.file(t)
		args := []string{float, theirs, t}
		if o.calib != "" {
			args = append([]string{"--imatrix", matrix}, args...)
		}
		if err := errors.Join(o.program(ctx, "llama-quantize", args...), o.quantize(ctx, ours, t)); err != nil {
			return err
		}
		for maker, file := range map[string]string{"llama-quantize": theirs, "ours": ours} {
			r := &row{kind: t, maker: maker}
			if err := o.measure(ctx, r, file); err != nil {
				return err
			}
			rows = append(rows, r)
			if err := os.Remove(file); err != nil {
				return err
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b *row) int {
		if a.kind == b.kind {
			return strings.Compare(a.maker, b.maker)
		}
		return slices.Index(o.types, a.kind) - slices.Index(o.types, b.kind)
	})
	return print(out, rows)
}

func (o *options) file(name string) string { return filepath.Join(o.dir, name+".gguf") }

// quantize makes a file of ours.
func (o *options) quantize(ctx context.Context, file, kind string) error {
	args := []string{o.model, "--format", "gguf", "--type", kind, "--quiet", "-o", file}
	if o.calib != "" && kind != "bf16" {
		args = append(args, "--method", "gptq", "--calib", o.calib, "--samples", strconv.Itoa(o.samples))
	}
	_, err := output(exec.CommandContext(ctx, filepath.Join(o.bin, "quantize"), args...))
	return err
}

// program runs one of llama.cpp's.
func (o *options) program(ctx context.Context, name string, args ...string) error {
	_, err := output(exec.CommandContext(ctx, filepath.Join(o.llama, name), args...))
	return err
}

// output runs a command and returns all that it says.
func output(cmd *exec.Cmd) (string, error) {
	raw, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, raw[max(0, len(raw)-2000):])
	}
	return string(raw), nil
}

// tokens compares the tokens of the text by the checkpoint's tokenizer and by the file's in llama.cpp.
func (o *options) tokens(ctx context.Context, out io.Writer, file string) error {
	raw, err := os.ReadFile(o.text)
	if err != nil {
		return err
	}
	if o.ids, err = o.tok.Encode(string(raw), true); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(o.llama, "llama-tokenize"), "-m", file, "-f", o.text, "--ids", "--log-disable", "--no-escape")
	cmd.Stderr = io.Discard
	list, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("llama-tokenize: %w", err)
	}
	var theirs []int32
	if err := json.Unmarshal(list, &theirs); err != nil {
		return fmt.Errorf("llama-tokenize: %w", err)
	}
	for i := range min(len(o.ids), len(theirs)) {
		if o.ids[i] != theirs[i] {
			return fmt.Errorf("token %d of the text is %d, and %d in llama.cpp", i, o.ids[i], theirs[i])
		}
	}
	if len(o.ids) != len(theirs) {
		return fmt.Errorf("the text has %d tokens, and %d in llama.cpp", len(o.ids), len(theirs))
	}
	_, err = fmt.Fprintf(out, "%d tokens of %s, %d bytes: all as in llama.cpp\n\n", len(theirs), filepath.Base(o.text), len(raw))
	return err
}

func load(folder *hf.Folder, mode runtime.Mode) (*runtime.Model, error) {
	b, err := build.Open(folder, hf.Options{})
	if err != nil {
		return nil, err
	}
	defer b.Set.Close()
	return runtime.Load(b, runtime.Config{Mode: mode, Threads: 2})
}

// perplexity runs llama-perplexity, which sometimes ends before it has said all.
func (o *options) perplexity(ctx context.Context, file string) (float64, error) {
	last := regexp.MustCompile(fmt.Sprintf(`\[%d\]([0-9.]+)`, o.windows)) // the mean up to the last window
	for range 5 {
		args := []string{"-m", file, "-f", o.text, "-c", strconv.Itoa(length), "--chunks", strconv.Itoa(o.windows)}
		if o.float {
			args = append(args, "--no-repack") // layouts of its own, which BLAS cannot read
		}
		said, err := output(exec.CommandContext(ctx, filepath.Join(o.llama, "llama-perplexity"), args...))
		if err != nil {
			return 0, err
		}
		if found := last.FindStringSubmatch(said); found != nil {
			return strconv.ParseFloat(found[1], 64)
		}
	}
	return 0, fmt.Errorf("llama-perplexity says nothing about window %d of the text", o.windows)
}

// measure fills in what both programs find out about a file. Ours computes with inputs in int8 as theirs does, in blocks of its own, unless both are
// to use float32.
func (o *options) measure(ctx context.Context, r *row, file string) error {
	fmt.Fprintf(os.Stderr, "llamatable: %s, %s\n", r.kind, r.maker)
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	r.bytes = info.Size()
	folder, err := view.Folder(file, false)
	if err != nil {
		return err
	}
	mode := runtime.A8
	if o.float {
		mode = runtime.F32
	}
	m, err := load(folder, mode)
	if err != nil {
		return err
	}
	defer m.Close()
	front, _ := o.tok.Around()
	var nll float64
	var scored int
	c, err := fidelity.CompareAll(ctx, o.reference, []*runtime.Model{m}, o.ids, fidelity.Options{Context: length, MaxWindows: o.windows, SecondHalf: true,
		Front: front, KV: runtime.KVF16, Scored: func(_ int, p fidelity.Position) {
			if p.Window > length/2 {
				nll += p.Build
				scored++
			}
		}})
	if err != nil {
		return err
	}
	r.kl, r.ci, r.ours = c[0].KLMean, c[0].KLMeanCI, math.Exp(nll/float64(scored))
	r.theirs, err = o.perplexity(ctx, file)
	return err
}

// print writes the table.
func print(out io.Writer, rows []*row) error {
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "| type\t| made by\t| bytes\t| KL (95 %)\t| perplexity, ours\t| llama-perplexity\t| difference\t|")
	fmt.Fprintln(w, "|---\t|---\t|---\t|---\t|---\t|---\t|---\t|")
	for _, r := range rows {
		fmt.Fprintf(w, "| %s\t| %s\t| %d\t| %.4f (%.4f to %.4f)\t| %.4f\t| %.4f\t| %+.2f %%\t|\n", r.kind, r.maker, r.bytes, r.kl, r.ci[0], r.ci[1], r.ours, r.theirs, 100*(r.ours/r.theirs-1))
	}
	return w.Flush()
}
