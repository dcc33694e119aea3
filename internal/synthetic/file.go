package synthetic

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"sort"
	"strings"
	"time"

	"nibble/safetensors"
)

// FS returns the folder of the checkpoint: config.json and model.safetensors.
func (c *Checkpoint) FS() fs.FS {
	w := c.Weights.Files[0]
	return folder{
		"config.json": {strings.NewReader(string(c.Config)), int64(len(c.Config))},
		w.Name:        {&weights{c, &w}, w.Size},
	}
}

// weights is the file with the tensors.
type weights struct {
	c    *Checkpoint
	plan *safetensors.PlanFile
}

// ReadAt computes the bytes of the file.
func (w *weights) ReadAt(p []byte, off int64) (n int, err error) {
	start := int64(len(w.plan.Header))
	if left := w.plan.Size - off; int64(len(p)) > left {
		p, err = p[:max(left, 0)], io.EOF
	}
	n = len(p)
	if off < start {
		k := copy(p, w.plan.Header[off:])
		p, off = p[k:], off+int64(k)
	}
	list := w.plan.Tensors
	i := sort.Search(len(list), func(i int) bool { return list[i].End > off-start })
	for len(p) > 0 {
		t := &list[i]
		part := p[:min(int64(len(p)), t.End-(off-start))]
		x := w.c.patterns[t.Name]
		x.read(part, off-start-t.Begin)
		p, off = p[len(part):], off+int64(len(part))
		i++
	}
	return n, err
}

// folder is a file system with one folder.
type folder map[string]content

// content is what a file holds.
type content struct {
	r    io.ReaderAt
	size int64
}

// Open opens a file, or the folder itself as ".", which only Stat serves.
func (f folder) Open(name string) (fs.File, error) {
	x, ok := f[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return file{io.NewSectionReader(x.r, 0, x.size), name}, nil
}

// ReadDir lists the files.
func (f folder) ReadDir(name string) (list []fs.DirEntry, err error) {
	if name != "." {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: errors.ErrUnsupported}
	}
	for name, x := range f {
		list = append(list, fs.FileInfoToDirEntry(info{name, x.size}))
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

// file is an open file.
type file struct {
	*io.SectionReader
	name string
}

func (f file) Stat() (fs.FileInfo, error) { return info{f.name, f.Size()}, nil }
func (f file) Close() error               { return nil }

// info describes a file.
type info struct {
	name string
	size int64
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return 0o444 }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return false }
func (i info) Sys() any           { return nil }
