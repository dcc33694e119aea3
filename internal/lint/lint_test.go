// Package lint checks the rules of the house that no other tool knows.
package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// allowed names who may import what only one room is for.
var allowed = map[string][]string{
	"github.com/spf13/cobra":            {"internal/cli", "internal/docgen"},
	"gopkg.in/yaml.v3":                  {"internal/cli"},
	"github.com/schollz/progressbar/v3": {"internal/cli"},
	"github.com/tidwall/sjson":          {"hf", "build"},
	"github.com/x448/float16":           {"internal/half", "internal/kernel"},
	"github.com/dlclark/regexp2/v2":     {"tokenizer"},
	"github.com/ardanlabs/jinja":        {"tokenizer"},
	"nibble/convert":                    {"internal/cli", "report"},
	"nibble/internal/parquet":           {"calib"},
	"nibble/internal/cli":               {"cmd/quantize", "cmd/dequantize", "cmd/runtime", "cmd/export", "internal/docgen"},
	"nibble/probe":                      {"internal/cli"},
}

// makesFiles are the calls by which files of outputs must not be made, makers the rooms that may make others: cli writes to pipes that
// are there already, the rest are tools of the house.
var (
	makesFiles = map[string]bool{"os.Create": true, "os.WriteFile": true, "os.OpenFile": true, "os.CreateTemp": true, "os.Rename": true}
	makers     = []string{"internal/stage", "internal/cli", "internal/benchmodel", "internal/testmodel", "internal/kernel/amx/emu", "internal/release"}
)

func TestHouse(t *testing.T) {
	const root = "../.."
	documented := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != root && (strings.HasPrefix(name, ".") && name != ".." || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		checkFile(t, root, path, documented)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(documented) < 10 {
		t.Fatalf("only %d packages found", len(documented))
	}
	for pkg, ok := range documented {
		if !ok {
			t.Errorf("%s has no package comment", pkg)
		}
	}
}

func checkFile(t *testing.T, root, path string, documented map[string]bool) {
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	name, err := filepath.Rel(root, path)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.ToSlash(filepath.Dir(name))
	test := strings.HasSuffix(path, "_test.go")
	limit := 400
	if test {
		limit = 600
	}
	if n := strings.Count(string(raw), "\n"); n > limit {
		t.Errorf("%s has %d lines, more than %d", name, n, limit)
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, raw, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	documented[dir] = documented[dir] || file.Doc != nil
	for i, s := range file.Imports {
		imported := strings.Trim(s.Path.Value, `"`)
		if i > 0 && origin(s) != origin(file.Imports[i-1]) && set.Position(s.Pos()).Line == set.Position(file.Imports[i-1].End()).Line+1 {
			t.Errorf("%s imports %s in a group of others: the standard library, other people's and ours are apart", name, imported)
		}
		if rooms := allowed[imported]; rooms != nil && !slices.Contains(rooms, dir) && !test {
			t.Errorf("%s imports %s, which only %v may", name, imported, rooms)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := sel.X.(*ast.Ident)
		if !ok {
			return true
		}
		switch what := pkg.Name + "." + sel.Sel.Name; {
		case test && (what == "t.Skip" || what == "t.Skipf" || what == "testing.Short" || what == "time.Sleep"):
			t.Errorf("%s calls %s", name, what)
		case !test && dir != "internal/benchmodel" && (what == "fmt.Print" || what == "fmt.Println" || what == "fmt.Printf" || pkg.Name == "log"):
			t.Errorf("%s calls %s: only commands print", name, what)
		case what == "gjson.ValidBytes" || what == "gjson.Valid":
			t.Errorf("%s calls %s, which has no limit of depth: json.Valid has one", name, what)
		case !test && makesFiles[what] && !slices.Contains(makers, dir):
			t.Errorf("%s calls %s: outputs are made by internal/stage", name, what)
		}
		return true
	})
}

// origin says whose a package is.
func origin(s *ast.ImportSpec) string {
	first, _, _ := strings.Cut(strings.Trim(s.Path.Value, `"`), "/")
	switch {
	case first == "nibble":
		return first
	case strings.Contains(first, "."):
		return "others"
	}
	return "standard"
}
