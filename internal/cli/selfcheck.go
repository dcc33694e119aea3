package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"nibble/build"
	"nibble/gguf/view"
	"nibble/hf"
	"nibble/loader"
)

// openWritten opens a folder or a GGUF file that this program has written as if it were a stranger's. The caller closes the build.
func openWritten(path string) (*build.Build, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	var f *hf.Folder
	if info.IsDir() {
		f, err = hf.NewFolder(path, os.DirFS(path), "")
	} else {
		f, err = view.Folder(path, false)
	}
	if err != nil {
		return nil, err
	}
	b, err := build.Open(f, hf.Options{})
	var unknown *hf.UnknownArchitecture
	if errors.As(err, &unknown) {
		b, err = build.Open(f, hf.Options{Generic: true})
	}
	return b, err
}

// reopen is openWritten for an output that has no name yet.
func reopen(path string) (*build.Build, error) {
	b, err := openWritten(path)
	if err != nil {
		return nil, fmt.Errorf("the output does not open again: %w", err)
	}
	return b, nil
}

// selfCheck opens a build that was just written, and looks for everything that a loader would misread and for every module
// that the target would refuse. The caller closes the build.
func selfCheck(ctx context.Context, dir string, target loader.Target) (b *build.Build, err error) {
	if b, err = reopen(dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			b.Set.Close()
		}
	}()
	findings, err := loader.Scan(ctx, b)
	if err != nil {
		return nil, err
	}
	for _, x := range findings {
		if !x.Note {
			return nil, fmt.Errorf("the output would be misread: %s", x)
		}
	}
	for _, v := range loader.Verdicts(b) {
		if v.Target != target {
			continue
		}
		for _, p := range v.Problems {
			if !p.Soft && p.Module != "" {
				return nil, fmt.Errorf("%s would refuse the output: %s: %s", target, p.Module, p.Rule)
			}
		}
	}
	return b, nil
}
