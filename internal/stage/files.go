package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// CheckFiles is Check for an output of files: out, and others beside it. What an interrupted run left is in nobody's way.
func CheckFiles(out string, others []string, input string, overwrite bool) error {
	if input != "" {
		switch inside, err := within(out, input); {
		case err != nil:
			return err
		case inside:
			return fmt.Errorf("output %s is inside the input %s: inputs are never changed; choose a place elsewhere", out, input)
		}
	}
	for _, name := range append([]string{out}, others...) {
		info, err := os.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case !info.Mode().IsRegular():
			return fmt.Errorf("output %s exists and is not a file", name)
		case !overwrite:
			return fmt.Errorf("output %s exists; --overwrite replaces it", name)
		}
	}
	ours, err := unfinished(out + Suffix)
	if err == nil && !ours {
		return fmt.Errorf("%s is in the way, and no run of this program left it; move it away", out+Suffix)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// CommitFiles makes files of the unfinished folder durable, moves them beside it, the first one last, and removes the
// folder. A file of the same name is replaced.
func (d *Dir) CommitFiles(names ...string) error {
	defer d.lock.Close()
	for _, name := range names {
		if err := syncPath(filepath.Join(d.Path(), name)); err != nil {
			return err
		}
	}
	dir := filepath.Dir(d.final)
	for i := len(names) - 1; i >= 0; i-- {
		if err := os.Rename(filepath.Join(d.Path(), names[i]), filepath.Join(dir, names[i])); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(d.Path()); err != nil {
		return err
	}
	return syncPath(dir)
}
