package demo

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"
)

func TestFS(t *testing.T) {
	if err := fstest.TestFS(FS(), "config.json", "model.safetensors", "tokenizer.json"); err != nil {
		t.Error(err)
	}
	raw, err := fs.ReadFile(FS(), "model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	// The digest of the file that was trained.
	const want = "4e8728f75909a9f7c992a2b9cf22ecbf72ec31ed7021a371dd5de62e30b4607c"
	if got := fmt.Sprintf("%x", sha256.Sum256(raw)); got != want {
		t.Errorf("model.safetensors has the digest %s, want %s", got, want)
	}
}
