package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"nibble/hf"
	"nibble/internal/stage"
	"nibble/safetensors"
)

// File is one file of an output.
type File struct {
	Name string `json:"name"`
	Size int64  `json:"bytes"`
}

// text is a file whose content the plan fixes.
type text struct {
	name    string
	content []byte
}

const indexName = "model.safetensors.index.json"

// listFiles lists an output: weights, texts, and what is carried over from the source. skipped are the source's files that
// are neither.
func listFiles(src *hf.Model, weights *safetensors.Plan, texts []text) (files []File, skipped []string, err error) {
	for _, f := range weights.Files {
		files = append(files, File{f.Name, f.Size})
	}
	for _, t := range texts {
		files = append(files, File{t.name, int64(len(t.content))})
	}
	carry, skipped := src.Carry()
	for _, name := range carry {
		info, err := fs.Stat(src.FS, name)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, File{name, info.Size()})
	}
	return files, skipped, nil
}

// writeFiles writes everything of such a list but the weights.
func writeFiles(dir string, src *hf.Model, texts []text) error {
	for _, t := range texts {
		if err := stage.WriteFile(filepath.Join(dir, t.name), t.content); err != nil {
			return err
		}
	}
	carry, _ := src.Carry()
	for _, name := range carry {
		if err := copyFile(src.FS, name, dir); err != nil {
			return err
		}
	}
	return nil
}

// totalSize returns the bytes of all files.
func totalSize(files []File) int64 {
	var n int64
	for _, f := range files {
		n += f.Size
	}
	return n
}

func copyFile(src fs.FS, name, dir string) error {
	in, err := src.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := stage.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func hashFile(src fs.FS, name string) (string, error) {
	f, err := src.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.CopyBuffer(h, f, make([]byte, 256<<10)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
