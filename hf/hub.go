package hf

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// hubID is "name" or "organisation/name", with a revision behind an @.
var hubID = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w./-]+)?$`)

// hubFolder finds the snapshot of a hub id in the local cache. Nothing is downloaded.
//
// The cache holds models--ORG--NAME/refs/REVISION, a text file with a commit, and snapshots/COMMIT, a folder of links
// into blobs/.
func hubFolder(id string) (string, error) {
	if !hubID.MatchString(id) || strings.Contains(id, "..") {
		return "", fmt.Errorf("hf: %s: %w there: no such file or folder", id, ErrNoModel)
	}
	repo, revision, _ := strings.Cut(id, "@")
	flag := ""
	if revision == "" {
		revision = "main"
	} else {
		flag = " --revision " + revision
	}
	cache, err := hubCache()
	if err != nil {
		return "", err
	}
	root := filepath.Join(cache, "models--"+strings.ReplaceAll(repo, "/", "--"))
	commit := revision
	if ref, err := os.ReadFile(filepath.Join(root, "refs", filepath.FromSlash(revision))); err == nil {
		commit = strings.TrimSpace(string(ref))
	}
	dir := filepath.Join(root, "snapshots", commit)
	if info, err := os.Stat(dir); !filepath.IsLocal(commit) || err != nil || !info.IsDir() {
		return "", fmt.Errorf("hf: %s: %w: no such folder, and not in the cache %s; download it with: hf download %s%s",
			id, ErrNoModel, cache, repo, flag)
	}
	return dir, nil
}

// hubCache returns the folder that the hub's own tools use.
func hubCache() (string, error) {
	if dir := os.Getenv("HF_HUB_CACHE"); dir != "" {
		return dir, nil
	}
	if dir := os.Getenv("HF_HOME"); dir != "" {
		return filepath.Join(dir, "hub"), nil
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "huggingface", "hub"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("hf: no cache folder: %w (set HF_HOME)", err)
	}
	return filepath.Join(home, ".cache", "huggingface", "hub"), nil
}
