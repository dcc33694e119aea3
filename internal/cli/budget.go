package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"nibble/build"
	"nibble/calib"
	"nibble/convert"
	"nibble/internal/stage"
)

// budget are the flags that give a build a size in place of bits and groups.
type budget struct {
	size, from string
	bpw        float64

	convert.Budget
}

func (b *budget) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&b.size, "target-size", "", "most bytes of the output, like 900MB, in place of --bits and --group, or of --type: all files of the folder, "+
		"weights, configs, tokenizer and report, what --dry-run adds up. Bits and group of every matrix, its type in a GGUF file, or float, are chosen to lose least by --sensitivity-from")
	f.Float64Var(&b.bpw, "target-bpw", 0, "the same as bits per weight, like 4.6: all bytes of all tensors in the weight files, "+
		"scales and what stays in float included, over all weights of the source, tied ones once")
	f.StringVar(&b.from, "sensitivity-from", "", "with a target, the JSON file that --sensitivity wrote of this model and format (default: measured now, as --sensitivity does)")
}

// decided are the flags whose part a budget takes.
var decided = []string{"bits", "group", "recipe", "scheme", "type", "pure", "tensor-type"}

func (b *budget) check(cmd *cobra.Command) (err error) {
	changed := cmd.Flags().Changed
	switch {
	case !changed("target-size") && !changed("target-bpw"):
		if changed("sensitivity-from") {
			return usagef("--sensitivity-from goes with --target-size or --target-bpw")
		}
		return nil
	case changed("target-size") && changed("target-bpw"):
		return usagef("--target-size and --target-bpw exclude each other")
	case changed("target-size"):
		if b.Bytes, err = parseSize("target-size", b.size); err != nil {
			return err
		}
		b.Bytes = max(b.Bytes, 1)
	case !(b.bpw > 0 && b.bpw <= 64):
		return usagef("--target-bpw %v: want bits per weight, like 4.6", b.bpw)
	default:
		b.BitsPerWeight = b.bpw
	}
	if i := slices.IndexFunc(decided, changed); i >= 0 {
		return usagef("a target size decides what --%s would: leave it out", decided[i])
	}
	if pad, _ := cmd.Flags().GetString("pad-mlp"); pad == "auto" {
		return usagef("--pad-mlp auto follows the group, which a target size chooses: give a width")
	}
	if part := changed("part") || changed("merge"); part && b.from == "" {
		return usagef("every part would measure: write the analysis first (--sensitivity FILE), and give it to all with --sensitivity-from FILE")
	}
	return nil
}

// asked reports whether there is a budget.
func (b *budget) asked() bool { return b.Budget != convert.Budget{} }

// label is the budget in the name of an output.
func (b *budget) label() string {
	if b.Bytes > 0 {
		return strings.ReplaceAll(b.size, " ", "")
	}
	return fmt.Sprintf("%vbpw", b.bpw)
}

// plan makes the plan of a build, inside the budget if there is one.
func (o *quantizeOptions) plan(cmd *cobra.Command, b *build.Build, s convert.Settings) (*convert.Plan, error) {
	if !o.budget.asked() {
		return convert.NewPlan(b, s)
	}
	within := func(costs *convert.Sensitivity) (*convert.Plan, error) {
		plan, err := convert.NewPlanWithin(b, s, costs, o.budget.Budget)
		return plan, outOfRange(err)
	}
	costs, err := o.costs(cmd, b, s, func(x *convert.Sensitivity) error { _, err := within(x); return err })
	if err != nil {
		return nil, err
	}
	return within(costs)
}

// outOfRange marks a budget that no build meets.
func outOfRange(err error) error {
	var none *convert.OutOfRange
	if errors.As(err, &none) {
		return coded{err, exitUsage}
	}
	return err
}

// planGGUF makes the plan of a file, inside the budget if there is one.
func (o *quantizeOptions) planGGUF(cmd *cobra.Command, b *build.Build, s convert.GGUFSettings) (*convert.GGUFPlan, error) {
	if !o.budget.asked() {
		plan, err := convert.NewGGUF(b, s, o.out)
		return plan, inputError(err)
	}
	if o.parts.name == "" && !o.dry { // measuring takes long
		if err := stage.CheckFiles(o.out, nil, b.Path, o.mode()); err != nil {
			return nil, err
		}
	}
	within := func(costs *convert.Sensitivity) (*convert.GGUFPlan, error) {
		plan, err := convert.NewGGUFWithin(b, s, o.out, costs, o.budget.Budget)
		return plan, inputError(outOfRange(err))
	}
	costs, err := o.costs(cmd, b, s.Analysis(), func(x *convert.Sensitivity) error { _, err := within(x); return err })
	if err != nil {
		return nil, err
	}
	return within(costs)
}

// costs reads the analysis, or makes it. Before that try is given one without costs: a budget that no build meets is no reason to measure.
func (o *quantizeOptions) costs(cmd *cobra.Command, b *build.Build, s convert.Settings, try func(*convert.Sensitivity) error) (*convert.Sensitivity, error) {
	if path := o.budget.from; path != "" {
		f, err := os.Open(path)
		if err != nil {
			return nil, inputError(err)
		}
		defer f.Close()
		raw, err := io.ReadAll(io.LimitReader(f, convert.MaxSensitivity+1))
		if err != nil {
			return nil, inputError(err)
		}
		x, err := convert.ParseSensitivity(raw)
		if err == nil {
			err = x.Fits(b, s)
		}
		if err != nil {
			return nil, inputError(fmt.Errorf("--sensitivity-from %s: %w", path, err))
		}
		return x, nil
	}
	if s.Calibration == nil { // the build needs none, and does not get this one
		o.calibration.Source = calib.SelfSource
		if err := o.calibrate(cmd, b, &s); err != nil {
			return nil, err
		}
	}
	return o.measure(cmd, b, s, o.out, try)
}

// printAllotment prints what a budget gave to the matrices, by role, and how much of it is taken.
func printAllotment(w io.Writer, p *convert.Plan) error {
	x := p.Allotment
	roles, choices, counts := p.Allotted()
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "matrices\t%s\t\n", strings.Join(choices, "\t"))
	for _, role := range roles {
		fmt.Fprintf(t, "%s", role)
		for _, c := range choices {
			fmt.Fprintf(t, "\t%s", strings.TrimPrefix(fmt.Sprint(counts[[2]string{role, c}]), "0"))
		}
		fmt.Fprintln(t, "\t")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	taken, limit := x.Budget.Taken(p), x.Budget.Limit(p)
	share := 100 * float64(taken) / float64(limit)
	close := ""
	if share < 99.5 {
		close = "; no choice that loses less is nearer"
	}
	cost := "KL is not measured"
	if x.Measured {
		cost = fmt.Sprintf("expected KL %.6f, that of every matrix alone added up", x.Cost)
	}
	_, err := fmt.Fprintf(w, "budget of %v: %d of %d bytes, %.3f %%%s; %s\n", x.Budget, taken, limit, share, close, cost)
	return err
}

// allotted is what --json says of a budget.
type allotted struct {
	Limit    int64            `json:"target_bytes"` // of all files, or of all tensors with --target-bpw
	Taken    int64            `json:"taken_bytes"`
	KL       *float64         `json:"expected_kl"` // null: not measured
	Matrices []allottedMatrix `json:"matrices,omitempty"`
}

// allottedMatrix is a matrix; without bits it stays in float.
type allottedMatrix struct {
	Name  string `json:"name"`
	Bits  int    `json:"bits,omitempty"`
	Group int    `json:"group,omitempty"`
}

func allotment(p *convert.Plan) *allotted {
	x := p.Allotment
	if x == nil {
		return nil
	}
	a := &allotted{Limit: x.Budget.Limit(p), Taken: x.Budget.Taken(p)}
	if x.Measured {
		a.KL = &x.Cost
	}
	if p.Format == nil { // the tensors of a GGUF file stand there with their types
		return a
	}
	for i := range p.Items {
		if it := &p.Items[i]; it.Spec != nil {
			a.Matrices = append(a.Matrices, allottedMatrix{it.Name, it.Spec.Bits, it.Spec.Group})
		} else if it.N > 0 {
			a.Matrices = append(a.Matrices, allottedMatrix{Name: it.Name})
		}
	}
	return a
}
