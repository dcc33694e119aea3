// Package demo is a small language model with its text, embedded: what every command runs on when it is given no model.
//
// A LlamaForCausalLM of 2,623,744 parameters in bfloat16 with a tied head: hidden size 256, MLP 512, 4 layers, 4 heads
// (2 of keys and values) of 64, a byte-level BPE vocabulary of 1024. It was trained from scratch for this project on
// public-domain books. calibration.txt and evaluation.txt were sampled from the model itself at temperature 1, so that a
// ratio of perplexities on them estimates exp(KL) directly. reference.json has figures of transformers 5.24 in float32.
package demo

import (
	"bytes"
	"embed"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

//go:embed *.json model.safetensors.zst
var files embed.FS

const packed = ".zst"

// FS returns the model folder: config, tokenizer and weights, as they would lie on disk.
func FS() fs.FS { return folder{} }

// weights unpacks the checkpoint, once.
var weights = sync.OnceValues(func() ([]byte, error) {
	raw, err := files.ReadFile("model.safetensors" + packed)
	if err != nil {
		return nil, err
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.DecodeAll(raw, nil)
})

// folder shows the embedded files, the packed one unpacked.
type folder struct{}

// Open implements fs.FS.
func (folder) Open(name string) (fs.File, error) {
	if name == "model.safetensors" {
		b, err := weights()
		if err != nil {
			return nil, err
		}
		return &file{bytes.NewReader(b), name, int64(len(b))}, nil
	}
	if strings.HasSuffix(name, packed) || name == "reference.json" {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return files.Open(name)
}

// ReadDir implements fs.ReadDirFS.
func (d folder) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := files.ReadDir(name)
	if err != nil {
		return nil, err
	}
	var list []fs.DirEntry
	for _, e := range entries {
		f, err := d.Open(strings.TrimSuffix(e.Name(), packed))
		if err != nil {
			continue // not part of the model
		}
		info, err := f.Stat()
		f.Close()
		if err != nil {
			return nil, err
		}
		list = append(list, fs.FileInfoToDirEntry(info))
	}
	return list, nil
}

// file is an unpacked file.
type file struct {
	*bytes.Reader
	name string
	size int64
}

func (f *file) Close() error               { return nil }
func (f *file) Stat() (fs.FileInfo, error) { return info{f.name, f.size}, nil }

type info struct {
	name string
	size int64
}

func (i info) Name() string     { return path.Base(i.name) }
func (i info) Size() int64      { return i.size }
func (info) Mode() fs.FileMode  { return 0o444 }
func (info) ModTime() time.Time { return time.Time{} }
func (info) IsDir() bool        { return false }
func (info) Sys() any           { return nil }
