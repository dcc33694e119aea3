package convert

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"nibble/internal/version"
)

// head states the plan as a journal begins with it.
func (r *Run) head() (h head, err error) {
	if h.Plan, err = r.digest(); err != nil {
		return h, err
	}
	h.Settings = map[string]string{"version": version.Number()}
	flags := r.flags
	if r.gguf != nil {
		flags = r.gguf.flags
	}
	for name, v := range flags() {
		raw, err := json.Marshal(v)
		if err != nil {
			return h, err
		}
		flag := "--" + strings.ReplaceAll(name, "_", "-")
		if name == "zero" {
			flag = "--sym, --asym:"
		}
		h.Settings[flag] = strings.Trim(string(raw), `"`)
	}
	if c := r.Calibration; c != nil && r.sequences != nil {
		h.Settings["calibration"] = c.Settings
		h.Settings["calibration tokens (SHA-256)"] = r.sequences.Digest()
		if c.Independent {
			h.Settings["--independent"] = "true"
		}
	}
	for _, f := range r.Source.Stored() {
		info, err := fs.Stat(r.Source.FS, f.Name)
		if err != nil {
			return h, err
		}
		h.Settings["source "+f.Name] = fmt.Sprintf("%d bytes of %s", info.Size(), info.ModTime().UTC().Format("2006-01-02 15:04:05.000000000"))
	}
	return h, nil
}

// differences names settings that have another value now; h comes from a file.
func (h head) differences(now head) string {
	names := maps.Clone(now.Settings)
	maps.Copy(names, h.Settings)
	var list []string
	value := func(m map[string]string, name string) string {
		v, there := m[name]
		if !there {
			return "not set"
		}
		return shorten(v)
	}
	const most = 4
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if was, is := h.Settings[name], now.Settings[name]; was != is && h.Settings != nil {
			list = append(list, fmt.Sprintf("%s %s, now it is %s", shorten(name), value(h.Settings, name), value(now.Settings, name)))
		}
	}
	switch {
	case len(list) == 0:
		return "the same flags and another plan: config or tokenizer have changed"
	case len(list) > most:
		list = append(list[:most], fmt.Sprintf("and %d more differences", len(list)-most))
	}
	return "other settings: " + strings.Join(list, "; ")
}

// shorten cuts what is too long for a line.
func shorten(s string) string {
	const most = 100
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
