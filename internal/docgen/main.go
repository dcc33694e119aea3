// Command docgen writes manual pages and shell completions of the four commands. It is a module of its own, so that what turns
// Markdown into manual pages is not among what the commands are built of.
//
// OUT/man holds a page for every command and subcommand, OUT/bash, OUT/zsh and OUT/fish the completions under the names by which
// those shells look for them; none for export, which is a word of the shells themselves. The same commit writes the same bytes on
// every machine: the date is that of SOURCE_DATE_EPOCH or 1970, and what help says of the machine is left out.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"nibble/internal/cli"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "docgen: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: docgen OUT")
	}
	date := time.Unix(0, 0).UTC()
	if s := os.Getenv("SOURCE_DATE_EPOCH"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
		date = time.Unix(n, 0).UTC()
	}
	for _, root := range []*cobra.Command{cli.NewQuantizeCommand(), cli.NewDequantizeCommand(), cli.NewExportCommand(), cli.NewRuntimeCommand()} {
		if err := write(root, args[0], date); err != nil {
			return fmt.Errorf("%s: %w", root.Name(), err)
		}
	}
	return nil
}

// write makes the files of one command.
func write(root *cobra.Command, out string, date time.Time) error {
	root.DisableAutoGenTag = true
	name := root.Name()
	neutral(root)
	paths := map[string]string{"man": "", "bash": name, "zsh": "_" + name, "fish": name + ".fish"}
	for dir, file := range paths {
		if err := os.MkdirAll(filepath.Join(out, dir), 0o777); err != nil {
			return err
		}
		paths[dir] = filepath.Join(out, dir, file)
	}
	err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "nibble", Manual: "nibble", Date: &date}, paths["man"])
	if err != nil || name == "export" {
		return err
	}
	return cmp.Or(
		root.GenBashCompletionFileV2(paths["bash"], true),
		root.GenZshCompletionFile(paths["zsh"]),
		root.GenFishCompletionFile(paths["fish"], true))
}

// machine is what the help of --kernel says of where it runs.
var machine = regexp.MustCompile(`; this machine has [^(]*`)

// neutral takes out of all help what depends on the machine.
func neutral(cmd *cobra.Command) {
	if f := cmd.Flags().Lookup("threads"); f != nil {
		f.DefValue = "processors"
	}
	if f := cmd.Flags().Lookup("kernel"); f != nil {
		f.Usage = machine.ReplaceAllString(f.Usage, " ")
	}
	for _, sub := range cmd.Commands() {
		neutral(sub)
	}
}
