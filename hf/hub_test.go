package hf_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nibble/hf"
	"nibble/internal/testmodel"
)

// The cache as huggingface_hub lays it out: refs/main names a commit, the snapshot holds links into blobs.
func TestHubCache(t *testing.T) {
	cache := t.TempDir()
	repo := filepath.Join(cache, "models--Qwen--Qwen3-0.6B")
	const commit = "c1899de289a04d12100db370d81485cdf75e47ca"
	snapshot := filepath.Join(repo, "snapshots", commit)
	for _, dir := range []string{"refs", "blobs", "snapshots/" + commit} {
		if err := os.MkdirAll(filepath.Join(repo, dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(repo, "refs", "main"), []byte(commit), 0o666); err != nil {
		t.Fatal(err)
	}
	src := testmodel.Golden(t, "qwen3").Write(t)
	for blob, name := range map[string]string{"aa": "config.json", "bb": "model.safetensors"} {
		raw, err := os.ReadFile(filepath.Join(src, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(repo, "blobs", blob), raw, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..", "..", "blobs", blob), filepath.Join(snapshot, name)); err != nil {
			t.Fatal(err)
		}
	}
	home := filepath.Join(t.TempDir(), "hf")
	if err := os.MkdirAll(home, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(cache, filepath.Join(home, "hub")); err != nil {
		t.Fatal(err)
	}
	for _, env := range []struct{ name, value string }{{"HF_HUB_CACHE", cache}, {"HF_HOME", home}} {
		t.Run(env.name, func(t *testing.T) {
			t.Setenv("HF_HUB_CACHE", "")
			t.Setenv(env.name, env.value)
			for _, id := range []string{"Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B@main", "Qwen/Qwen3-0.6B@" + commit} {
				f, err := hf.Find(id)
				if err != nil {
					t.Fatal(err)
				}
				if f.Weights != "model.safetensors" || len(f.Config) == 0 {
					t.Errorf("%s: weights %q, %d bytes of config", id, f.Weights, len(f.Config))
				}
			}
			for id, want := range map[string]string{
				"Qwen/Qwen3-8B":                  "hf download Qwen/Qwen3-8B",
				"Qwen/Qwen3-0.6B@v2":             "hf download Qwen/Qwen3-0.6B --revision v2",
				"Qwen/Qwen3-0.6B@../../../blobs": "no such file or folder",
				"../x":                           "no such file or folder",
			} {
				if _, err := hf.Find(id); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, want %q", id, err, want)
				}
			}
		})
	}
}
