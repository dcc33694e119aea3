package calib

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"nibble/internal/mmap"
)

// region is a file of a pass, with the bytes that a token takes in it.
type region struct {
	to   **mmap.Region
	name string
	size int
}

// open makes a file, or opens what an earlier run left.
func (p *Pass) open(r region) error {
	size := int64(p.Tokens()) * int64(r.size)
	err := fs.ErrNotExist
	if p.Resume {
		*r.to, err = mmap.Reopen(p.file(r.name), size)
	}
	if err != nil {
		*r.to, err = mmap.Create(p.file(r.name), size)
	}
	if err == nil {
		p.regions = append(p.regions, *r.to)
		p.names = append(p.names, r.name)
	}
	return err
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
	for _, prefix := range []string{"", "float-"} {
		for _, name := range []string{"h0", "h1", "x", "context", "act"} {
			if err := os.Remove(activations(dir, prefix+name)); !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
