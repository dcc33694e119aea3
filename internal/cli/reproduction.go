package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// circumstances are the flags of quantize that change no byte of a build.
var circumstances = []string{"output", "overwrite", "threads", "quiet", "json", "max-memory", "calib-cache", "dry-run", "resume", "part", "merge"}

// reproduction is the command that makes the same bytes again wherever the model and the other files are: paths are cut to names, flags
// come in the order of their names, and what the machine chose is spelled out.
func reproduction(cmd *cobra.Command, args []string, automatic bool) string {
	name := func(s string) string {
		if _, err := os.Stat(s); err == nil {
			if abs, err := filepath.Abs(s); err == nil {
				return filepath.Base(abs)
			}
		}
		return s
	}
	words := []string{cmd.Name()}
	for _, a := range args {
		words = append(words, shellWord(name(a)))
	}
	given := cmd.Flags().Changed
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		switch {
		case slices.Contains(circumstances, f.Name), automatic && (f.Name == "profile" || f.Name == "priority"):
			return
		case !given(f.Name) && !(automatic && f.Name == "group"):
			return
		}
		switch v, list := f.Value.(pflag.SliceValue); {
		case list:
			for _, s := range v.GetSlice() {
				words = append(words, "--"+f.Name, shellWord(name(s)))
			}
		case f.Value.Type() == "bool":
			words = append(words, strings.TrimSuffix("--"+f.Name+"="+f.Value.String(), "=true"))
		default:
			words = append(words, "--"+f.Name, shellWord(name(f.Value.String())))
		}
	})
	return strings.Join(words, " ")
}
