// Package demo is a small language model with its text, embedded: what every command runs on when it is given no model.
//
// A LlamaForCausalLM of 2,623,744 parameters in bfloat16 with a tied head: hidden size 256, MLP 512, 4 layers, 4 heads
// (2 of keys and values) of 64, a byte-level BPE vocabulary of 1024. It was trained from scratch for this project on
// public-domain books. calibration.txt and evaluation.txt were sampled from the model itself at temperature 1, so that a
// ratio of perplexities on them estimates exp(KL) directly. reference.json has figures of transformers 5.24 in float32.
package demo

import (
	"embed"
	"io/fs"
	"sync"
	"testing/fstest"

	"github.com/klauspost/compress/zstd"
)

//go:embed config.json generation_config.json tokenizer.json tokenizer_config.json model.safetensors.zst
var files embed.FS

// FS returns the model folder: config, tokenizer and weights, as they would lie on disk.
func FS() fs.FS { return folder() }

// folder unpacks the files, once. What cannot be unpacked is missing, which a test would see.
var folder = sync.OnceValue(func() fstest.MapFS {
	m := fstest.MapFS{}
	entries, _ := files.ReadDir(".") // an embedded file system has no errors
	for _, e := range entries {
		raw, _ := files.ReadFile(e.Name())
		name := e.Name()
		if name == "model.safetensors.zst" {
			var err error
			if raw, err = unpack(raw); err != nil {
				continue
			}
			name = "model.safetensors"
		}
		m[name] = &fstest.MapFile{Data: raw, Mode: 0o444}
	}
	return m
})

func unpack(raw []byte) ([]byte, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.DecodeAll(raw, nil)
}
