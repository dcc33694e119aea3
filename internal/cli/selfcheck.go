package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

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
	misread, refused, err := faults(ctx, b, target)
	if err != nil {
		return nil, err
	}
	if len(misread) > 0 {
		return nil, fmt.Errorf("the output would be misread: %s", misread[0])
	}
	for _, p := range refused {
		if p.Module != "" {
			return nil, fmt.Errorf("%s would refuse the output: %s: %s", target, p.Module, p.Rule)
		}
	}
	return b, nil
}

// faults are what a server would misread in a build without a word, and what the target would refuse.
func faults(ctx context.Context, b *build.Build, target loader.Target) (misread []loader.Finding, refused []loader.Problem, err error) {
	if misread, err = loader.Scan(ctx, b); err != nil {
		return nil, nil, err
	}
	misread = slices.DeleteFunc(misread, func(f loader.Finding) bool { return f.Note })
	for _, v := range loader.Verdicts(b) {
		if v.Target == target {
			refused = slices.DeleteFunc(v.Problems, func(p loader.Problem) bool { return p.Soft })
		}
	}
	return misread, refused, nil
}
