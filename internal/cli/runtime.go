package cli

import "github.com/spf13/cobra"

// NewRuntimeCommand returns the command that looks into models and builds.
func NewRuntimeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runtime",
		Short: "Look into models and builds",
		Long:  "Look into models and builds. MODEL is a Hugging Face folder, a .safetensors file beside its config.json, or a hub id\nfound in the local cache; without one the built-in demo model is used.",
		Args:  noMore(0),

		SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usagef("no subcommand given; try: runtime inspect, or runtime --help")
		},
	}
	cmd.AddCommand(newInspectCommand())
	return cmd
}
