package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"nibble/build"
	"nibble/convert"
	"nibble/hf"
	"nibble/loader"
	"nibble/quant"
)

// inspectOptions are the flags of inspect.
type inspectOptions struct {
	common
	source
}

func newInspectCommand() *cobra.Command {
	o := new(inspectOptions)
	cmd := &cobra.Command{
		Use:   "inspect [MODEL]",
		Short: "Show what a model or build is made of, and what servers would make of it",
		Long: `Show architecture, tensors with type, shape, group and bytes, and bits per weight. For a quantized build, ours or another
tool's, also say which servers load it and name every contradiction in it, above all those that a loader misreads without a
word: group counts that differ from the config, missing tensors, zero points in another convention, dropped act-order or
biases, a head without an embedding, scales that overflow. Any of those ends the command with exit code 3. A right build
that some server merely refuses does not.`,
		Example: `  runtime inspect                      # the demo
  runtime inspect ./demo-awq-g128
  runtime inspect ./build --json | jq .verdicts`,
		Args: noMore(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runInspect(cmd, args, o) },
	}
	o.common.register(cmd)
	o.source.register(cmd)
	return cmd
}

// inspection is what inspect found out.
type inspection struct {
	Model         string           `json:"model"`
	Architecture  string           `json:"architecture"`
	Format        string           `json:"format"` // "float" for a plain checkpoint
	Files         []inspectedFile  `json:"files"`
	Parameters    int64            `json:"parameters"`
	Original      int64            `json:"original_parameters"` // before a tied head was untied, where the build's report says so
	Bytes         int64            `json:"bytes"`               // of all tensors
	BitsPerWeight float64          `json:"bits_per_weight"`
	Matrices      []matrix         `json:"matrices"`
	Others        []other          `json:"others"`
	Notes         []string         `json:"notes"`
	Findings      []loader.Finding `json:"findings"`
	Verdicts      []loader.Verdict `json:"verdicts,omitempty"`
}

type inspectedFile struct {
	Name    string `json:"name"`
	Bytes   int64  `json:"bytes"`
	Tensors int    `json:"tensors"`
}

// matrix is a linear, the embedding or the head.
type matrix struct {
	Name  string `json:"name"`
	Role  string `json:"role"`
	Shape []int  `json:"shape"` // rows, columns
	DType string `json:"dtype"` // of the weights; of the scales where they are quantized; of the blocks of a GGUF file
	Bits  int    `json:"bits,omitempty"`
	Group int    `json:"group_size,omitempty"`
	Zero  string `json:"zero,omitempty"`
	Bytes int64  `json:"bytes"`
}

// other is any other tensor.
type other struct {
	Name  string `json:"name"`
	Role  string `json:"role"`
	Shape []int  `json:"shape"`
	DType string `json:"dtype"`
	Bytes int64  `json:"bytes"`
}

func runInspect(cmd *cobra.Command, args []string, o *inspectOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	folder, name, err := openModel(args)
	if err != nil {
		return err
	}
	b, err := o.source.open(folder)
	if err != nil {
		return err
	}
	defer b.Set.Close()
	in := inspect(b, name)
	if in.Findings, err = loader.Scan(cmd.Context(), b); err != nil {
		return inputError(err)
	}
	if b.Reader != nil && b.Origin == nil {
		in.Verdicts = loader.Verdicts(b)
	}
	if o.json {
		err = printJSON(cmd, in)
	} else {
		err = in.print(cmd)
	}
	if err != nil {
		return err
	}
	wrong, silent := 0, 0
	for _, f := range in.Findings {
		if !f.Note {
			wrong++
		}
		if f.Wrong {
			silent++
		}
	}
	if wrong > 0 {
		return coded{fmt.Errorf("%s: %d contradictions found, of which some loader misreads %d without a word", in.Model, wrong, silent), exitInput}
	}
	return nil
}

// advice is a problem with its remedy. Flags are those of quantize, so a build has to be made anew.
func advice(p loader.Summary) string {
	text := p.Where() + p.Rule
	if p.Soft {
		text = "warning: " + text
	}
	switch {
	case strings.HasPrefix(p.Fix, "--target-loader"): // of use to a plan only
	case strings.HasPrefix(p.Fix, "--"):
		text += "; quantize the original with " + p.Fix
	case p.Fix != "":
		text += "; " + p.Fix
	}
	return text
}

// inspect lists the tensors of a build.
func inspect(b *build.Build, name string) *inspection {
	in := &inspection{Model: name, Architecture: b.Arch.Name, Format: "float", Matrices: []matrix{}, Others: []other{},
		Notes: append([]string{}, b.Notes...), Findings: []loader.Finding{}}
	if b.Reader != nil {
		in.Format = b.Reader.Format()
	}
	for _, f := range b.Stored() {
		in.Files = append(in.Files, inspectedFile{f.Name, f.Size, f.Tensors})
	}
	in.Bytes = b.Set.Bytes()
	for i := range b.Tensors {
		t := &b.Tensors[i]
		in.Parameters += t.Elements()
		x, _ := b.Set.Lookup(t.Source)
		bytes := t.Elements() * int64(x.DType.Bits()) / 8
		switch l := b.Linears[t.Module()]; {
		case t.Source == "" && l == nil: // a defect, or missing: among the findings
		case t.Source == "":
			in.Matrices = append(in.Matrices, quantized(b, t, l))
		case t.Role.Matrix():
			in.Matrices = append(in.Matrices, matrix{Name: t.Module(), Role: t.Role.String(), Shape: t.Shape, DType: x.DType.String(), Bytes: bytes})
		default:
			in.Others = append(in.Others, other{t.Name, t.Role.String(), t.Shape, x.DType.String(), bytes})
		}
	}
	in.Original = in.Parameters
	if r, err := convert.ReadReport(b); err == nil && r != nil && r.Totals.Parameters > 0 {
		in.Original = r.Totals.Parameters
	}
	if in.Original > 0 {
		in.BitsPerWeight = 8 * float64(in.Bytes) / float64(in.Original)
	}
	return in
}

func quantized(b *build.Build, t *hf.Tensor, l quant.Linear) matrix {
	n, k := l.Shape()
	s := l.Spec()
	m := matrix{Name: t.Module(), Role: t.Role.String(), Shape: []int{n, k}, DType: s.Scale.String(), Bits: s.Bits,
		Group: s.GroupSize(k), Zero: s.Zero.String()}
	if b.Origin != nil { // a tensor of blocks has its type for an ending
		name := l.Tensors()[0]
		m.DType = name[strings.LastIndexByte(name, '.')+1:]
	}
	m.Bytes = b.Bytes(l)
	return m
}

// print shows an inspection to a person.
func (in *inspection) print(cmd *cobra.Command) error {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "%s: %s, %s\n", in.Model, in.Architecture, in.Format)
	of := ""
	if in.Original != in.Parameters {
		of = fmt.Sprintf(" of the original's %d", in.Original)
	}
	files := "1 file"
	if len(in.Files) > 1 {
		files = fmt.Sprintf("%d files", len(in.Files))
	}
	fmt.Fprintf(w, "%d parameters, %d bytes of tensors in %s, %.4f bits per weight%s\n\n", in.Parameters, in.Bytes, files, in.BitsPerWeight, of)
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "matrix\trole\tshape\ttype\tbytes")
	for _, m := range in.Matrices {
		kind := m.DType
		switch {
		case m.Bits > 0 && in.Format == "GGUF":
			kind = fmt.Sprintf("%s: %d-bit g%d %s", m.DType, m.Bits, m.Group, m.Zero)
		case m.Bits > 0:
			kind = fmt.Sprintf("%d-bit g%d %s, %s scales", m.Bits, m.Group, m.Zero, m.DType)
		}
		fmt.Fprintf(tw, "%s\t%s\t%v\t%s\t%d\n", m.Name, m.Role, m.Shape, kind, m.Bytes)
	}
	fmt.Fprintln(tw, "\nother tensor\trole\tshape\ttype\tbytes")
	for _, t := range in.Others {
		fmt.Fprintf(tw, "%s\t%s\t%v\t%s\t%d\n", t.Name, t.Role, t.Shape, t.DType, t.Bytes)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, n := range in.Notes {
		fmt.Fprintf(w, "\nnote: %s", n)
	}
	if len(in.Notes) > 0 {
		fmt.Fprintln(w)
	}
	for _, v := range in.Verdicts {
		answer := "loads"
		if !v.Loads {
			answer = "does not load"
		}
		fmt.Fprintf(w, "\n%s: %s\n", v.Target, answer)
		for _, p := range loader.Summarize(v.Problems) {
			fmt.Fprintf(w, "  %s\n", advice(p))
		}
	}
	findings, count := loader.Fold(in.Findings)
	for i, f := range findings {
		kind := "WRONG" // a loader refuses it
		switch {
		case f.Wrong:
			kind = "MISREAD"
		case f.Note:
			kind = "note"
		}
		more := ""
		if count[i] > 1 {
			more = fmt.Sprintf(" (and %d more modules)", count[i]-1)
		}
		fmt.Fprintf(w, "\n%s: %s%s", kind, f, more)
	}
	if len(in.Findings) > 0 {
		fmt.Fprintln(w)
	}
	return nil
}
