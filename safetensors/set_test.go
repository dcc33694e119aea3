package safetensors

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// of returns a file of tensors of one byte each.
func of(t *testing.T, names ...string) *fstest.MapFile {
	t.Helper()
	var specs []Spec
	for _, name := range names {
		specs = append(specs, Spec{name, U8, []int{1}})
	}
	f := plan(t, specs, nil, 0).Files[0]
	return &fstest.MapFile{Data: append(f.Header, pattern(f.Size-int64(len(f.Header)))...)}
}

func index(weightMap string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(`{"metadata": {"total_size": 1}, "weight_map": {` + weightMap + `}}`)}
}

func TestSet(t *testing.T) {
	fsys := fstest.MapFS{
		"m/x.index.json":        index(`"a": "2.safetensors", "b": "1.safetensors", "c": "2.safetensors", "d": "s/3"`),
		"m/1.safetensors":       of(t, "b"),
		"m/2.safetensors":       of(t, "a", "c"),
		"m/s/3":                 of(t, "d"),
		"m/unnamed.safetensors": of(t, "a"),
	}
	s, err := OpenSet(fsys, "m/x.index.json")
	if err != nil {
		t.Fatal(err)
	}
	var names, files []string
	for _, tensor := range s.Tensors() {
		names = append(names, s.FileOf(tensor.Name)+" "+tensor.Name)
	}
	for _, f := range s.Files() {
		files = append(files, f.Name)
	}
	wantNames := []string{"m/1.safetensors b", "m/2.safetensors a", "m/2.safetensors c", "m/s/3 d"}
	if diff := cmp.Diff(wantNames, names); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"m/1.safetensors", "m/2.safetensors", "m/s/3"}, files); diff != "" {
		t.Error(diff)
	}
	if got, ok := s.Lookup("c"); !ok || !cmp.Equal(got, Tensor{"c", U8, []int{1}, 1, 2}) {
		t.Errorf("Lookup: %v, %v", got, ok)
	}
	b := []byte{0}
	if err := s.ReadAt("c", b, 0); err != nil || b[0] != pattern(2)[1] {
		t.Errorf("ReadAt: %v, %v", b, err)
	}
	if _, ok := s.Lookup("e"); ok || s.FileOf("e") != "" {
		t.Error("a tensor that is not there is found")
	}
	if err := s.ReadAt("e", b, 0); err == nil || !strings.Contains(err.Error(), `"e"`) {
		t.Errorf("a tensor that is not there is read: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestSetOfOneFile(t *testing.T) {
	dir := filepath.Dir(write(t, example()))
	s, err := OpenSet(os.DirFS(dir), "model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got := make([]byte, 24)
	if err := s.ReadAt("attn.0", got, 0); err != nil || !bytes.Equal(got, example()[72:]) {
		t.Errorf("% x, %v", got, err)
	}
	if len(s.Files()) != 1 || s.FileOf("attn.0") != "model.safetensors" {
		t.Errorf("files %v", s.Files())
	}
}

func TestIndexAttacks(t *testing.T) {
	const all = `"a": "1", "b": "1", "c": "2"`
	tests := []struct {
		name         string
		index        string // the weight map, or the whole file if it begins with !
		kind         Kind
		file, tensor string // that the error names
	}{
		{"missing shard", `"a": "1", "b": "1", "c": "0"`, MissingShard, "i.index.json", ""},
		{"tensor in the index but not in its shard", all + `, "x": "2"`, MissingTensor, "i.index.json", "x"},
		{"tensor in a shard but not in the index", `"a": "1", "c": "2"`, UnlistedTensor, "1", "b"},
		{"tensor in another shard", `"a": "2", "b": "1", "c": "2"`, MisplacedTensor, "1", "a"},
		{"tensor in two shards", all + `, "d": "3"`, MisplacedTensor, "3", "a"},
		{"absolute path", `"a": "/1"`, InvalidShard, "i.index.json", "a"},
		{"path to the folder above", `"a": "../1"`, InvalidShard, "i.index.json", "a"},
		{"path above and back", `"a": "s/../1"`, InvalidShard, "i.index.json", "a"},
		{"path that leaves the folder inside", `"a": "s/../../1"`, InvalidShard, "i.index.json", "a"},
		{"backslash", `"a": "..\\1"`, InvalidShard, "i.index.json", "a"},
		{"zero byte", `"a": "1\u0000"`, InvalidShard, "i.index.json", "a"},
		{"folder itself", `"a": "."`, InvalidShard, "i.index.json", "a"},
		{"no path", `"a": ""`, InvalidShard, "i.index.json", "a"},
		{"shard is not a string", `"a": 1`, InvalidIndex, "i.index.json", "a"},
		{"duplicate key", all + `, "\u0061": "1"`, IndexDuplicate, "i.index.json", "a"},
		{"weight map twice", `!{"weight_map": {"a": "1"}, "weight_map": {"a": "1"}}`, IndexDuplicate, "i.index.json", ""},
		{"weight map missing", `!{"metadata": {}}`, IndexEmpty, "i.index.json", ""},
		{"weight map empty", ``, IndexEmpty, "i.index.json", ""},
		{"weight map is an array", `!{"weight_map": []}`, InvalidIndex, "i.index.json", ""},
		{"not JSON", `!weight_map`, InvalidIndex, "i.index.json", ""},
		{"not UTF-8", "!{\"\xff\": 1}", InvalidIndex, "i.index.json", ""},
		{"cut short", `!{"weight_map": {"a": "1"`, InvalidIndex, "i.index.json", "a"},
		{"bytes behind the object", `!{"weight_map": {"a": "1"}} x`, InvalidIndex, "i.index.json", ""},
		{"no bytes", `!`, InvalidIndex, "i.index.json", ""},
		{"deep nesting", `!{"metadata": ` + strings.Repeat("[", 1<<20), InvalidIndex, "i.index.json", ""},
		{"corrupt shard", `"a": "corrupt"`, HeaderTooSmall, "corrupt", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			fsys := fstest.MapFS{
				"i.index.json": index(test.index),
				"1":            of(t, "a", "b"), "2": of(t, "c"), "3": of(t, "a", "d"), "corrupt": {},
			}
			if raw, ok := strings.CutPrefix(test.index, "!"); ok {
				fsys["i.index.json"] = &fstest.MapFile{Data: []byte(raw)}
			}
			_, err := OpenSet(fsys, "i.index.json")
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("error %v", err)
			}
			got := err.(*FormatError)
			if got.Kind != test.kind || got.File != test.file || got.Tensor != test.tensor {
				t.Errorf("%q of %q in %s, want %q of %q in %s: %v",
					got.Kind, got.Tensor, got.File, test.kind, test.tensor, test.file, err)
			}
		})
	}
}

func TestIndexTooLarge(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "i.index.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(maxIndex+1), f.Close()); err != nil { // a hole: it takes no space
		t.Fatal(err)
	}
	var got *FormatError
	if _, err := OpenSet(os.DirFS(dir), "i.index.json"); !errors.As(err, &got) || got.Kind != IndexTooLarge {
		t.Errorf("error %v", err)
	}
}

// sequential hides all methods of files but those that every file has.
type sequential struct{ fs.FS }

func (s sequential) Open(name string) (fs.File, error) {
	f, err := s.FS.Open(name)
	return struct{ fs.File }{f}, err
}

func TestOpenSetFails(t *testing.T) {
	fsys := fstest.MapFS{
		"model.safetensors": of(t, "a"), "folder/x": of(t, "a"), "folder.index.json/x": of(t, "a"),
		"to-folder.index.json": index(`"a": "folder"`),
	}
	tests := []struct {
		name, file string
		fsys       fs.FS
		want       string
	}{
		{"absent file", "absent.safetensors", fsys, "absent.safetensors"},
		{"absent index", "absent.index.json", fsys, "absent.index.json"},
		{"folder", "folder", fsys, "folder: not a regular file"},
		{"folder for an index", "folder.index.json", fsys, "folder.index.json: not a regular file"},
		{"folder for a shard", "to-folder.index.json", fsys, "folder: not a regular file"},
		{"sequential file system", "model.safetensors", sequential{fsys}, "cannot read at an offset"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := OpenSet(test.fsys, test.file); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}
