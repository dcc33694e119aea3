// Package stage makes a folder appear whole or not at all.
//
// Work goes on in OUT.partial, beside OUT so that both are on one file system. Commit syncs every file, then renames the
// folder. Whoever holds a Dir holds a lock on the unfinished folder, which ends with the process however it ends.
package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Mode says what to do about what is already there.
type Mode uint8

// The modes.
const (
	Fresh     Mode = iota // neither OUT nor OUT.partial may exist
	Restart               // like Fresh, but an OUT.partial that was left is removed
	Resume                // go on in OUT.partial if there is one
	Overwrite             // remove OUT.partial now, replace OUT in Commit
)

// Anew is the mode of an output that no later run goes on with.
func Anew(overwrite bool) Mode {
	if overwrite {
		return Overwrite
	}
	return Restart
}

// marker is a file in every unfinished folder: what does not have it is not ours to remove.
const marker = ".nibble-unfinished"

// Suffix is what the name of an unfinished folder has behind the final one.
const Suffix = ".partial"

// Dir is an unfinished folder.
type Dir struct {
	final   string
	replace bool
	lock    *os.File
}

// Check refuses an output that is in the way of, or inside, the input. input may be "".
func Check(out, input string, mode Mode) error {
	if out == "" {
		return errors.New("no output folder given")
	}
	out = filepath.Clean(out)
	if input != "" {
		switch inside, err := within(out, input); {
		case err != nil:
			return err
		case inside:
			return fmt.Errorf("output %s is inside the input %s: inputs are never changed; choose a folder elsewhere", out, input)
		}
	}
	info, err := os.Lstat(out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case mode != Overwrite:
		return fmt.Errorf("output %s exists; --overwrite replaces it", out)
	case !info.IsDir():
		return fmt.Errorf("output %s exists and is not a folder", out)
	default:
		if err := replaceable(out); err != nil {
			return err
		}
	}
	return checkUnfinished(out+Suffix, mode)
}

// checkUnfinished refuses what is in the way of an unfinished folder.
func checkUnfinished(path string, mode Mode) error {
	switch ours, err := unfinished(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !ours:
		return fmt.Errorf("%s is in the way, and no run of this program left it; move it away", path)
	case mode == Fresh:
		return fmt.Errorf("%s is left from an interrupted run; --resume continues it, --overwrite starts again", path)
	}
	return nil
}

// unfinished reports whether a path is a folder that Open made. An empty one may be: the marker is the first file in it.
func unfinished(path string) (bool, error) {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return false, err
	}
	entries, err := os.ReadDir(path)
	if err != nil || len(entries) == 0 {
		return err == nil, err
	}
	_, err = os.Lstat(filepath.Join(path, marker))
	return err == nil, nil
}

// exported is the file that every export of graphs has, part that of every part of an output.
const (
	exported = "export_report.json"
	part     = "part.json"
)

// replaceable refuses to remove a folder that is not a model: one mistyped --overwrite must not cost a home folder.
func replaceable(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	config, weights := len(entries) == 0, len(entries) == 0
	for _, e := range entries {
		if e.IsDir() {
			return fmt.Errorf("output %s has a folder %s inside: --overwrite replaces only model folders", dir, e.Name())
		}
		config = config || e.Name() == "config.json" || e.Name() == part
		weights = weights || filepath.Ext(e.Name()) == ".safetensors" || e.Name() == exported
	}
	if !config || !weights {
		return fmt.Errorf("output %s has no config.json or no .safetensors: --overwrite replaces only model folders", dir)
	}
	return nil
}

// within reports whether path out is, or lies below, folder dir, after links are followed.
func within(out, dir string) (bool, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false, err
	}
	if real, err = filepath.Abs(real); err != nil {
		return false, err
	}
	p, err := filepath.Abs(out)
	if err != nil {
		return false, err
	}
	// Only the part of the output that exists can have links.
	rest := ""
	for {
		q, err := filepath.EvalSymlinks(p)
		if err == nil {
			p = filepath.Join(q, rest)
			break
		}
		if parent := filepath.Dir(p); parent != p {
			p, rest = parent, filepath.Join(filepath.Base(p), rest)
			continue
		}
		return false, err
	}
	rel, err := filepath.Rel(real, p)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)), nil
}

// Open starts, or takes up again, the unfinished folder of out. resumed says which. Check must have passed.
func Open(out string, mode Mode) (d *Dir, resumed bool, err error) {
	out = filepath.Clean(out)
	tmp := out + Suffix
	switch _, err := os.Lstat(tmp); {
	case err == nil && mode == Resume:
		resumed = true
	case err == nil:
		l, err := lock(tmp)
		if err != nil {
			return nil, false, err
		}
		err = os.RemoveAll(tmp)
		l.Close()
		if err != nil {
			return nil, false, err
		}
	}
	if !resumed {
		if err := os.MkdirAll(filepath.Dir(out), 0o777); err != nil {
			return nil, false, err
		}
		if err := mkdir(tmp); errors.Is(err, fs.ErrExist) {
			return nil, false, fmt.Errorf("%s is %w", tmp, ErrInUse)
		} else if err != nil {
			return nil, false, err
		}
	}
	l, err := lock(tmp)
	if err != nil {
		return nil, false, err
	}
	if err := WriteFile(filepath.Join(tmp, marker), nil); err != nil {
		l.Close()
		return nil, false, err
	}
	return &Dir{final: out, replace: mode == Overwrite, lock: l}, resumed, nil
}

// Path returns the unfinished folder.
func (d *Dir) Path() string { return d.final + Suffix }

// Commit makes the folder durable and gives it its final name.
func (d *Dir) Commit() error {
	defer d.lock.Close()
	entries, err := os.ReadDir(d.Path())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := syncPath(filepath.Join(d.Path(), e.Name())); err != nil {
			return err
		}
	}
	if err := syncPath(d.Path()); err != nil {
		return err
	}
	name := rename
	if _, err := os.Lstat(d.final); d.replace && err == nil {
		name = replace
	}
	if err := name(d.Path(), d.final); err != nil {
		return err
	}
	err = Discard(filepath.Join(d.final, marker))
	if err == nil {
		err = syncPath(d.final)
	}
	if err == nil {
		err = syncPath(filepath.Dir(d.final))
	}
	if err != nil {
		return fmt.Errorf("%s is whole, but its last step failed: %w", d.final, err)
	}
	return nil
}

// replaceInTwo is replace where folders cannot be exchanged: a crash in between leaves the old folder as final.replaced.
func replaceInTwo(tmp, final string) error {
	old := final + ".replaced"
	if err := rename(final, old); err != nil {
		return err
	}
	if err := rename(tmp, final); err != nil {
		return errors.Join(err, os.Rename(old, final))
	}
	return os.RemoveAll(old)
}

// Abort removes the unfinished folder.
func (d *Dir) Abort() error {
	defer d.lock.Close()
	return os.RemoveAll(d.Path())
}

// Leave keeps the unfinished folder for a later Resume.
func (d *Dir) Leave() error { return d.lock.Close() }

func mkdir(path string) error {
	if _, err := fault(Create, path, 0); err != nil {
		return err
	}
	return os.Mkdir(path, 0o777)
}

func rename(from, to string) error {
	if _, err := fault(Rename, to, 0); err != nil {
		return err
	}
	return os.Rename(from, to)
}

func syncPath(path string) error {
	if _, err := fault(Sync, path, 0); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
