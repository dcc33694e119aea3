package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"nibble/build"
	"nibble/hf"
	"nibble/loader"
)

// selfCheck opens a build that was just written as a stranger's, and looks for everything that a loader would misread and
// for every module that the target would refuse.
// The caller closes the build.
func selfCheck(ctx context.Context, dir string, target loader.Target) (b *build.Build, err error) {
	f, err := hf.NewFolder(dir, os.DirFS(dir), "")
	if err != nil {
		return nil, err
	}
	b, err = build.Open(f, hf.Options{})
	var unknown *hf.UnknownArchitecture
	if errors.As(err, &unknown) {
		b, err = build.Open(f, hf.Options{Generic: true})
	}
	if err != nil {
		return nil, fmt.Errorf("the output does not open again: %w", err)
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
