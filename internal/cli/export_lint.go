package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"nibble/npu"
)

// newLintCommand returns the command that looks at graphs.
func newLintCommand() *cobra.Command {
	o := new(common)
	cmd := &cobra.Command{
		Use:   "lint FILE...",
		Short: "Say what a compiler for the NPU would trip over in an ONNX graph",
		Long: `Say what a compiler for the NPU would trip over in an ONNX graph, ours or another tool's: operations that do not stand between
quantizers, types and grids that no node of the NPU has, 8 bits where the file says 16. Nothing is loaded but the graph.`,
		Example: `  export lint ./phone/decode.onnx
  export lint ./phone/prefill.onnx ./phone/decode.onnx --json | jq .findings`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("which graph? give an .onnx file")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runLint(cmd, args, o) },
	}
	o.registerPrinting(cmd)
	return cmd
}

func runLint(cmd *cobra.Command, args []string, o *common) error {
	all, bad := []npu.Finding{}, 0
	for _, path := range args {
		list, err := npu.LintFile(path)
		if err != nil {
			return inputError(err)
		}
		for _, f := range list {
			if len(args) > 1 {
				f.File = path
			}
			if !f.Note {
				bad++
			}
			all = append(all, f)
		}
	}
	if o.json {
		if err := printJSON(cmd, struct {
			Findings []npu.Finding `json:"findings"`
		}{all}); err != nil {
			return err
		}
	} else {
		for _, f := range all {
			fmt.Fprintln(cmd.OutOrStdout(), f)
		}
	}
	if bad > 0 {
		return coded{errors.New(findings(bad)), exitGate}
	}
	if !o.json && len(all) == 0 {
		fmt.Fprintln(cmd.OutOrStdout(), "nothing found")
	}
	return nil
}

// findings counts them.
func findings(n int) string {
	if n == 1 {
		return "1 finding"
	}
	return fmt.Sprintf("%d findings", n)
}
