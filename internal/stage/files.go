package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// CheckFiles is Check for an output of files: out, by whose name the unfinished folder goes, and others beside it.
func CheckFiles(out string, others []string, input string, mode Mode) error {
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
		case mode != Overwrite:
			return fmt.Errorf("output %s exists; --overwrite replaces it", name)
		}
	}
	return checkUnfinished(out+Suffix, mode)
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
		if err := rename(filepath.Join(d.Path(), names[i]), filepath.Join(dir, names[i])); err != nil {
			for _, moved := range names[i+1:] { // without the first they are of no use
				err = errors.Join(err, os.Remove(filepath.Join(dir, moved)))
			}
			return err
		}
	}
	err := os.RemoveAll(d.Path())
	if err == nil {
		err = syncPath(dir)
	}
	if err != nil {
		return fmt.Errorf("%s is whole, but its last step failed: %w", d.final, err)
	}
	return nil
}
