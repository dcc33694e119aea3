//go:build unix

package tokenizer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A pipe in a model folder is refused, where opening it would wait for a writer.
func TestPipe(t *testing.T) {
	for _, name := range []string{"tokenizer.json", "tokenizer.model", "chat_template.jinja"} {
		dir := t.TempDir()
		if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(os.DirFS(dir))
		if name == "chat_template.jinja" {
			_, err = LoadChat(os.DirFS(dir))
		}
		if err == nil || !strings.Contains(err.Error(), name+": not a regular file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
