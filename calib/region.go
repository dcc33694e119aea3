package calib

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"nibble/hf"
	"nibble/internal/mmap"
)

// names are those of a pass's files; the float model's have floatPrefix before them.
var names = [...]string{"h0", "h1", "x", "context", "act"}

const floatPrefix = "float-"

// tokenBytes returns what a token takes in each of the files.
func tokenBytes(a *hf.Architecture) [len(names)]int {
	d, q, f := sizes(a)
	return [...]int{4 * d, 4 * d, 2 * d, 2 * q, 2 * f}
}

// open makes the files, or opens what an earlier run left.
func (p *Pass) open(prefix string, to ...**mmap.Region) error {
	for i, size := range tokenBytes(p.src.Arch) {
		name, size := prefix+names[i], int64(p.Tokens())*int64(size)
		err := fs.ErrNotExist
		if p.Resume {
			*to[i], err = mmap.Reopen(p.file(name), size)
		}
		if err != nil {
			*to[i], err = mmap.Create(p.file(name), size)
		}
		if err != nil {
			return err
		}
		p.regions = append(p.regions, *to[i])
		p.names = append(p.names, name)
	}
	return nil
}

// swap exchanges the residual streams before and behind a layer, as every layer does at its end.
func (p *Pass) swap() {
	p.h, p.next = p.next, p.h
	if o := p.float; o != nil {
		o.h, o.next = o.next, o.h
	}
}

// file returns the path of one of the files.
func (p *Pass) file(name string) string { return activations(p.Dir, name) }

func activations(dir, name string) string { return filepath.Join(dir, ".nibble-"+name) }

// State returns the residual streams before the next layer: what a run that goes on needs.
func (p *Pass) State() [][]byte {
	if p.float != nil {
		return [][]byte{p.h.Bytes(), p.float.h.Bytes()}
	}
	return [][]byte{p.h.Bytes()}
}

// Leave ends the pass and keeps the files for a run that goes on.
func (p *Pass) Leave() error {
	p.stages.Close()
	var errs []error
	for _, r := range p.regions {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}

// Close ends the pass and removes the files.
func (p *Pass) Close() error {
	errs := []error{p.Leave()}
	for _, name := range p.names {
		if err := os.Remove(p.file(name)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// RemoveActivations removes the files that Leave has kept in a folder, where no pass goes on with them.
func RemoveActivations(dir string) error {
	var errs []error
	for _, prefix := range []string{"", floatPrefix} {
		for _, name := range names {
			if err := os.Remove(activations(dir, prefix+name)); !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
