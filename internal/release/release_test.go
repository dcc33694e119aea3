package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"
)

var at = time.Unix(1_700_000_000, 0).UTC()

// THIRD_PARTY_LICENSES is what go.mod leads to: go run ./internal/release licences >THIRD_PARTY_LICENSES.
func TestLicences(t *testing.T) {
	list, err := modules(targets)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := licences(&b, list); err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile("../../THIRD_PARTY_LICENSES")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, b.Bytes()) {
		t.Error("THIRD_PARTY_LICENSES is not what the modules of go.mod say; go run ./internal/release licences >THIRD_PARTY_LICENSES")
	}
	for _, m := range list {
		for id := range strings.SplitSeq(m.Licence, " AND ") {
			if !slices.Contains([]string{"Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause"}, id) {
				t.Errorf("%s has the licence %s, with which nobody has agreed", m.Path, id)
			}
		}
	}
}

// The words are those of the licences' texts.
func TestIdentify(t *testing.T) {
	const bsd = "Redistributions in binary form must reproduce the above copyright notice"
	for content, want := range map[string]string{
		"Apache License\n  Version 2.0, January 2004": "Apache-2.0",
		bsd: "BSD-2-Clause",
		bsd + "\nNeither the name of Google Inc.":                                                        "BSD-3-Clause",
		"Permission is hereby granted, free of charge, to any\nperson obtaining a copy of this software": "MIT",
		"GNU GENERAL PUBLIC LICENSE":                                                                     "",
	} {
		if got := identify(content); got != want {
			t.Errorf("%.30q: %q, want %q", content, got, want)
		}
	}
}

// The bill has the binaries with their checksums, every module once, and no relationship to what is not there.
func TestSBOM(t *testing.T) {
	yaml := &debug.Module{Path: "gopkg.in/yaml.v3", Version: "v3.0.1", Sum: "h1:fxVm/GzAzEWqLHuvctI91KS9hhNmmWOoWu0XTYJS7CA="}
	info := &buildinfo.BuildInfo{GoVersion: "go1.26.8", Deps: []*debug.Module{yaml}}
	binaries := []binary{{"linux/a", []byte("abc"), info}, {"linux/b", []byte("abc"), info}}
	list := []module{{Path: "gopkg.in/yaml.v3", Licence: "MIT"}}
	var b, again bytes.Buffer
	if err := errors.Join(sbom(&b, at, binaries, list), sbom(&again, at, binaries, list)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Error("two bills differ")
	}
	var d spdx
	if err := json.Unmarshal(b.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // the example of FIPS 180
	ids := map[string]spdxPackage{d.ID: {}}
	for _, p := range d.Packages {
		if _, twice := ids[p.ID]; twice {
			t.Errorf("%s is there twice", p.ID)
		}
		ids[p.ID] = p
		if p.File != "" && (len(p.Checksums) != 1 || p.Checksums[0].Value != abc) {
			t.Errorf("%s has the checksums %v", p.Name, p.Checksums)
		}
	}
	for _, r := range d.Relationships {
		if _, ok := ids[r.From]; !ok || ids[r.To].ID == "" {
			t.Errorf("%+v leads nowhere", r)
		}
	}
	i := slices.IndexFunc(d.Packages, func(p spdxPackage) bool { return p.Name == "gopkg.in/yaml.v3" })
	if i < 0 || d.Packages[i].Declared != "MIT" || !strings.HasPrefix(d.Packages[i].Comment, "h1:") || d.Creation.Created != "2023-11-14T22:13:20Z" {
		t.Errorf("%+v", d)
	}
}

// The image's blobs have the names of their contents, nobody is root in it, and binaries can be run by all.
func TestImage(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"quantize": "program", "LICENSE": "text"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var b, again bytes.Buffer
	platforms := map[string]string{"linux/amd64": dir, "linux/arm64": dir}
	if err := errors.Join(image(&b, at, platforms), image(&again, at, platforms)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Error("two images differ")
	}
	files := untar(t, b.Bytes())
	for name, f := range files {
		if digest, ok := strings.CutPrefix(name, "blobs/sha256/"); ok && digest != "" {
			if sum := sha256.Sum256(f.content); hex.EncodeToString(sum[:]) != digest {
				t.Errorf("%s has another checksum", name)
			}
		}
	}
	blob := func(d descriptor, v any) []byte {
		raw := files["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")].content
		if len(raw) != d.Size {
			t.Fatalf("%s: %d bytes, want %d", d.Digest, len(raw), d.Size)
		}
		if v != nil {
			if err := json.Unmarshal(raw, v); err != nil {
				t.Fatal(err)
			}
		}
		return raw
	}
	var top, images index
	if err := json.Unmarshal(files["index.json"].content, &top); err != nil || len(top.Manifests) != 1 || top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "nibble" {
		t.Fatalf("podman load takes one image with a name: %v, %+v", err, top)
	}
	if blob(top.Manifests[0], &images); top.Manifests[0].MediaType != images.MediaType || len(images.Manifests) != 2 {
		t.Fatalf("%+v", images)
	}
	for _, d := range images.Manifests {
		var m manifest
		var c config
		blob(d, &m)
		blob(m.Config, &c)
		root := untar(t, blob(m.Layers[0], nil))
		if c.Config.User != "65532:65532" || c.Architecture != d.Platform.Architecture || c.RootFS.DiffIDs[0] != m.Layers[0].Digest {
			t.Errorf("%+v", c)
		}
		if f := root["bin/quantize"]; f.mode != 0o755 || string(f.content) != "program" {
			t.Errorf("bin/quantize: %+v", f)
		}
		if root["tmp/"].mode != 0o1777 || root["work/"].owner != 65532 || root["LICENSE"].mode != 0o644 {
			t.Errorf("%+v", root)
		}
	}
}

type entry struct {
	mode, owner int64
	content     []byte
}

func untar(t *testing.T, raw []byte) map[string]entry {
	t.Helper()
	m := map[string]entry{}
	for r := tar.NewReader(bytes.NewReader(raw)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return m
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil || !h.ModTime.Equal(at) {
			t.Fatalf("%s: %v, %v", h.Name, err, h.ModTime)
		}
		m[h.Name] = entry{h.Mode, int64(h.Uid), content}
	}
}

// goreleaser makes of every command what make dist makes, for the same systems.
func TestGoreleaser(t *testing.T) {
	raw, err := os.ReadFile("../../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("../../scripts/dist.sh")
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Version int
		Env     []string
		Builds  []struct {
			ID, Main, Binary        string
			Targets, Flags, Ldflags []string
			Time                    string `yaml:"mod_timestamp"`
		}
		Archives []struct {
			IDs, Formats, Files []string
			Name                string `yaml:"name_template"`
			Wrap                bool   `yaml:"wrap_in_directory"`
		}
		Checksum struct {
			Name string `yaml:"name_template"`
		}
	}
	if err := yaml.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(script), "for target in "+strings.Join(targets, " ")+"; do") {
		t.Errorf("make dist has other targets than %v", targets)
	}
	commands, err := os.ReadDir("../../cmd")
	if err != nil {
		t.Fatal(err)
	}
	if c.Version != 2 || len(c.Builds) != len(commands) || len(c.Archives) != 1 || c.Checksum.Name != "SHA256SUMS" || !slices.Equal(c.Env, []string{"CGO_ENABLED=0"}) {
		t.Fatalf("%+v", c)
	}
	for _, b := range c.Builds {
		found := slices.ContainsFunc(commands, func(e os.DirEntry) bool { return e.Name() == b.ID })
		if !found || b.Main != "./cmd/"+b.ID || b.Binary != b.ID || !slices.Contains(c.Archives[0].IDs, b.ID) {
			t.Errorf("%+v", b)
		}
		if want := strings.Split(strings.ReplaceAll(strings.Join(targets, " "), "/", "_"), " "); !slices.Equal(b.Targets, want) {
			t.Errorf("%s: targets %v, want %v", b.ID, b.Targets, want)
		}
		if flags := strings.Join(b.Flags, " ") + " -ldflags '" + strings.Join(b.Ldflags, " ") + "'"; !strings.Contains(string(script), "build "+flags) || b.Time == "" {
			t.Errorf("%s: make dist builds without %s", b.ID, flags)
		}
	}
	if files := strings.Join(c.Archives[0].Files, " "); !strings.Contains(string(script), "install -m 644 "+files) {
		t.Errorf("make dist packs other files than %s", files)
	}
}
