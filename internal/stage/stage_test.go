package stage

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	write(t, filepath.Join(in, "config.json"))
	write(t, filepath.Join(dir, "model", "config.json"))
	write(t, filepath.Join(dir, "model", "model.safetensors"))
	write(t, filepath.Join(dir, "config", "config.json"))
	write(t, filepath.Join(dir, "config", "precious.txt"))
	write(t, filepath.Join(dir, "photos", "cat.jpg"))
	write(t, filepath.Join(dir, "nested", "config.json"))
	write(t, filepath.Join(dir, "nested", "sub", "file"))
	write(t, filepath.Join(dir, "file"))
	write(t, filepath.Join(dir, "left"+Suffix, marker))
	write(t, filepath.Join(dir, "mine"+Suffix, "precious.txt"))
	write(t, filepath.Join(dir, "document"+Suffix))
	if err := os.Symlink(in, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		out  string
		mode Mode
		want string // part of the error; "" for none
	}{
		{"new", Fresh, ""},
		{"deep/er/new", Fresh, ""},
		{"in", Fresh, "inside the input"},
		{"in/out", Overwrite, "inside the input"},
		{"link/out", Fresh, "inside the input"},
		{"in2", Fresh, ""}, // a longer name is not inside
		{"model", Fresh, "--overwrite replaces it"},
		{"model", Resume, "--overwrite replaces it"},
		{"model", Overwrite, ""},
		{"photos", Overwrite, "no config.json"},
		{"config", Overwrite, "no .safetensors"},
		{"mine", Resume, "is in the way"},
		{"mine", Overwrite, "is in the way"},
		{"document", Overwrite, "is in the way"},
		{"model/", Fresh, "--overwrite replaces it"},
		{"nested", Overwrite, "has a folder sub inside"},
		{"file", Overwrite, "not a folder"},
		{"left", Fresh, "--resume continues it"},
		{"left", Resume, ""},
		{"left", Restart, ""},
		{"model", Restart, "--overwrite replaces it"},
		{"left", Overwrite, ""},
	} {
		err := Check(filepath.Join(dir, tt.out), in, tt.mode)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s, mode %d: %v, want %q", tt.out, tt.mode, err, tt.want)
		}
	}
	if Check("", "", Fresh) == nil {
		t.Error("an empty name passed")
	}
}

func TestCommit(t *testing.T) {
	out := filepath.Join(t.TempDir(), "a", "out")
	d, resumed, err := Open(out, Resume) // nothing is there to resume
	if err != nil || resumed {
		t.Fatalf("resumed %v, %v", resumed, err)
	}
	write(t, filepath.Join(d.Path(), "config.json"))
	write(t, filepath.Join(d.Path(), "model.safetensors"))
	if _, _, err := Open(out+"/", Resume); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second run: %v", err)
	}
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before Commit: %v", err)
	}
	if err := d.Leave(); err != nil {
		t.Fatal(err)
	}
	if d, resumed, err = Open(out, Resume); err != nil || !resumed {
		t.Fatalf("resumed %v, %v", resumed, err)
	}
	if err := d.Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(out, "config.json")); err != nil {
		t.Error(err)
	}
	// Replace it.
	if d, _, err = Open(out, Overwrite); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(d.Path(), "other"))
	if err := d.Commit(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Dir(out))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("beside the output: %v", entries)
	}
	if _, err := os.Stat(filepath.Join(out, "config.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old file is still there: %v", err)
	}
	// And as file systems do it that cannot exchange folders.
	write(t, filepath.Join(out+".new", "third"))
	if err := replaceInTwo(out+".new", out); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(out, "third")); err != nil {
		t.Error(err)
	}
	// Abort leaves nothing.
	next := out + "2"
	if d, _, err = Open(next, Fresh); err != nil {
		t.Fatal(err)
	}
	if err := d.Abort(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(next + Suffix); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Abort: %v", err)
	}
}
