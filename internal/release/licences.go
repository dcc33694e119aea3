package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// targets are the systems for which binaries are released.
var targets = []string{"linux/amd64", "linux/arm64", "darwin/arm64", "windows/amd64"}

// module is other people's code in the binaries, the standard library among it.
type module struct {
	Path, Version string
	Licence       string // SPDX identifiers
	Texts         []text // licence and notice files
}

type text struct{ Name, Content string }

// modules lists what the commands are linked from, on all targets, by path.
func modules(targets []string) ([]module, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	dirs := map[string]string{"Go": strings.TrimSpace(string(root))} // of whatever version
	for _, target := range targets {
		goos, goarch, _ := strings.Cut(target, "/")
		cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", "nibble/cmd/...")
		cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list: %w: %s", err, stderr.String())
		}
		for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
			if name, dir, ok := strings.Cut(s.Text(), "\t"); ok {
				dirs[name] = dir
			}
		}
	}
	var list []module
	for name, dir := range dirs {
		path, version, _ := strings.Cut(name, " ")
		m := module{Path: path, Version: version}
		if err := m.read(dir); err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	return list, nil
}

// legal are the names of files that a licence demands to be passed on.
var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// read takes the licence files of a module's folder.
func (m *module) read(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() || !legal.MatchString(e.Name()) {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		t := text{e.Name(), strings.ReplaceAll(strings.TrimSpace(string(raw)), "\r\n", "\n")}
		m.Texts = append(m.Texts, t)
		if id := identify(t.Content); id != "" && !strings.Contains(m.Licence, id) {
			m.Licence = strings.TrimPrefix(m.Licence+" AND "+id, " AND ")
		}
	}
	if m.Licence == "" {
		return fmt.Errorf("%s: no licence that is known in %s", m.Path, dir)
	}
	return nil
}

// identify names a licence by sentences that only it has.
func identify(content string) string {
	words := strings.Join(strings.Fields(content), " ")
	has := func(s string) bool { return strings.Contains(words, s) }
	var ids []string
	for _, l := range []struct {
		id string
		is bool
	}{
		{"Apache-2.0", has("Apache License") && has("Version 2.0")},
		{"MIT", has("Permission is hereby granted, free of charge, to any person obtaining a copy of this software")},
		{"BSD-3-Clause", has("Redistributions in binary form must reproduce") && (has("Neither the name") || has("names of its contributors"))},
		{"BSD-2-Clause", has("Redistributions in binary form must reproduce") && !has("Neither the name") && !has("names of its contributors")},
	} {
		if l.is {
			ids = append(ids, l.id)
		}
	}
	return strings.Join(ids, " AND ")
}

// licences writes the list and the texts.
func licences(w io.Writer, list []module) error {
	b := bufio.NewWriter(w)
	fmt.Fprint(b, "The binaries contain code of these modules, besides nibble's own (Apache-2.0, see LICENSE):\n\n")
	for _, m := range list {
		fmt.Fprintf(b, "%-40s %-10s %s\n", m.Path, m.Version, m.Licence)
	}
	for _, m := range list {
		for _, t := range m.Texts {
			fmt.Fprintf(b, "\n%s\n%s %s: %s\n\n%s\n", strings.Repeat("-", 80), m.Path, m.Version, t.Name, t.Content)
		}
	}
	return b.Flush()
}
