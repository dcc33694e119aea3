package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"nibble/convert"
	"nibble/demo"
	"nibble/loader"
	"nibble/report"
)

// verifyOptions are the flags of verify.
type verifyOptions struct {
	common
	source string
}

func newVerifyCommand() *cobra.Command {
	o := new(verifyOptions)
	cmd := &cobra.Command{
		Use:   "verify BUILD",
		Short: "Find out whether a build is still what its report says",
		Long: `Hash every file of a build, and the files of the model that it was made of if they are still there; derive sizes and bits per
weight from the tensors; look for what a server would misread, and ask whether the target loader takes it. Everything that
is not as quantization_report.json says is one line, and the exit code is then 4. A build is a folder, or a GGUF file that has its
report beside it.`,
		Example: `  quantize verify ./demo-awq-g128                        # what quantize without flags has written
  quantize verify ./llama-gptq --source ./Llama-3.2-1B   # where the original is now
  quantize verify ./model-q4_k_m.gguf --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("which build? give a folder or a GGUF file")
			}
			return noMore(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runVerify(cmd, args[0], o) },
	}
	o.common.register(cmd)
	cmd.Flags().StringVar(&o.source, "source", "", "folder of the original, or the file if it is GGUF (default: where it was, according to the report)")
	return cmd
}

// verification is what verify found out.
type verification struct {
	Build      string              `json:"build"`
	Files      int                 `json:"files"`
	Bytes      int64               `json:"bytes"`
	Sources    string              `json:"sources"` // "the same", "differ" or "not there"
	Deviations []convert.Deviation `json:"deviations"`
}

func runVerify(cmd *cobra.Command, path string, o *verifyOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	dir, name := path, convert.ReportName
	if isGGUF(path) {
		dir, name = filepath.Dir(path), convert.GGUFReport(filepath.Base(path))
	}
	raw, err := readReport(os.DirFS(dir), name)
	if errors.Is(err, fs.ErrNotExist) {
		if _, missing := os.Stat(path); errors.Is(missing, fs.ErrNotExist) {
			return inputError(fmt.Errorf("%s: no build there: no such file or folder", path))
		}
		return inputError(fmt.Errorf("%s: no %s: nothing to verify the build by", path, name))
	}
	if err != nil {
		return err
	}
	r, err := report.ParseBuild(filepath.Join(dir, name), raw)
	if err != nil {
		return inputError(err)
	}
	if len(r.Outputs) == 0 {
		return inputError(fmt.Errorf("%s: the report lists no files: it is of another version", filepath.Join(dir, name)))
	}
	v := verification{Build: path, Files: len(r.Outputs), Deviations: []convert.Deviation{}}
	for _, f := range r.Outputs {
		v.Bytes += f.Size
	}
	found, err := convert.VerifyFiles(cmd.Context(), os.DirFS(dir), r.Outputs, o.threads)
	if err != nil {
		return err
	}
	v.Deviations = append(v.Deviations, found...)
	if err := v.sources(cmd.Context(), r, o); err != nil {
		return err
	}
	at := path
	if _, err := os.Stat(at); isGGUF(at) && errors.Is(err, fs.ErrNotExist) {
		at = filepath.Join(dir, filepath.Base(r.Outputs[0].Name)) // the name that was given to quantize, which wrote parts
	}
	if found, err = v.contents(cmd.Context(), at, r); err != nil {
		return err
	}
	v.Deviations = append(v.Deviations, found...)
	return v.print(cmd, o)
}

// sources compares the files of the original, if they are there.
func (v *verification) sources(ctx context.Context, r *convert.Report, o *verifyOptions) error {
	at := o.source
	if at == "" && r.Run != nil {
		at = r.Run.Source
	}
	v.Sources = "not there"
	list := r.Source.Files
	if isGGUF(at) {
		if _, err := os.Stat(at); errors.Is(err, fs.ErrNotExist) {
			if o.source != "" {
				return inputError(fmt.Errorf("--source %s: no such file", at))
			}
			return nil // others may be where it was
		}
		if len(list) == 1 { // it may have another name now
			list = slices.Clone(list)
			list[0].Name = filepath.Base(at)
		}
		at = filepath.Dir(at)
	}
	files := os.DirFS(at)
	if info, err := os.Stat(at); at == "" && r.Run != nil {
		files, at = demo.FS(), demoName
	} else if err != nil || !info.IsDir() {
		if o.source != "" {
			return inputError(fmt.Errorf("--source %s: no folder", at))
		}
		return nil
	}
	found, err := convert.VerifyFiles(ctx, files, list, o.threads)
	if err != nil {
		return err
	}
	v.Sources = "the same"
	for _, d := range found {
		v.Sources = "differ"
		v.Deviations = append(v.Deviations, convert.Deviation{Name: filepath.Join(at, d.Name), What: "the original " + d.What})
	}
	return nil
}

// contents opens the build as a stranger's. What keeps it from being opened is a deviation, too.
func (v *verification) contents(ctx context.Context, path string, r *convert.Report) ([]convert.Deviation, error) {
	b, err := openWritten(path)
	if err != nil {
		return []convert.Deviation{{What: "does not open: " + err.Error()}}, nil
	}
	defer b.Set.Close()
	all := convert.VerifySizes(b, r)
	target, _ := r.Flags["target_loader"].(string)
	misread, refused, err := faults(ctx, b, loader.Target(target))
	if err != nil {
		return nil, err
	}
	for _, f := range misread {
		all = append(all, convert.Deviation{What: f.String()})
	}
	for _, p := range refused {
		all = append(all, convert.Deviation{Name: p.Module, What: fmt.Sprintf("%s refuses it: %s", target, p.Rule)})
	}
	return all, nil
}

func (v *verification) print(cmd *cobra.Command, o *verifyOptions) error {
	w := cmd.OutOrStdout()
	n := len(v.Deviations)
	if o.json {
		if err := printJSON(cmd, v); err != nil {
			return err
		}
	} else {
		for _, d := range v.Deviations {
			fmt.Fprintln(w, d)
		}
		if n == 0 {
			fmt.Fprintf(w, "%s: %d bytes in %d files, as the report says; the original: %s\n", v.Build, v.Bytes, v.Files, v.Sources)
		}
	}
	if n > 0 {
		places := "places"
		if n == 1 {
			places = "place"
		}
		return coded{fmt.Errorf("%s: not as the report says, in %d %s", v.Build, n, places), exitGate}
	}
	return nil
}
