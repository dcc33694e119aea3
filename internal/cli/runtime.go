package cli

import "github.com/spf13/cobra"

// NewRuntimeCommand returns the command that runs models and builds and measures them.
func NewRuntimeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runtime",
		Short: "Run models and builds, and measure what a build lost",
		Long: `Run models and builds of any format in the form in which their files hold them, and measure what a build lost against its
source: perplexity, KL divergence, top-1 agreement. MODEL is a Hugging Face folder, a .safetensors file beside its
config.json, a GGUF file, or a hub id found in the local cache; without one the built-in demo model is used.`,
		Example: `  runtime generate --prompt "And it came to pass"
  runtime compare --max-windows 8       # the demo against its own awq build
  runtime bench ./build                 # how fast, and how close to what the machine can do
  runtime report                        # all of it on one page, for the demo's build
  runtime inspect ./build`,
		Args: noMore(0),

		SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usagef("no subcommand given; try: runtime inspect, or runtime --help")
		},
	}
	cmd.AddCommand(newInspectCommand(), newGenerateCommand(), newPerplexityCommand(), newCompareCommand(), newLogitsCommand(),
		newBenchCommand(), newReportCommand(), newProbeCommand())
	return cmd
}
