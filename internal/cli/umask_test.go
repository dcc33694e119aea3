//go:build unix

package cli_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Whatever is written has the permissions that the user's umask leaves, and no others.
func TestUmask(t *testing.T) {
	for _, mask := range []fs.FileMode{0o077, 0o002} {
		dir := t.TempDir()
		commands := [][]string{
			{"quantize", "-q", "--method", "rtn", "--format", "gptq", "-o", "build"},
			{"quantize", "-q", "--method", "rtn", "--format", "gptq", "-o", "parted", "--part", "0/1"},
			{"quantize", "-q", "--method", "rtn", "--format", "gptq", "-o", "parted", "--merge"},
			{"quantize", "-q", "--format", "gguf", "--type", "q8_0", "-o", "file.gguf"},
			{"quantize", "--sensitivity", "loss.json", "--samples", "16", "--seqlen", "64", "--sensitivity-measure=false", "-q"},
			{"dequantize", "-q", "build", "-o", "plain"},
			{"export", "-q", "--context", "32", "--prefill", "8", "--decode", "4", "--samples", "1", "--holdout", "1", "--min-sqnr", "1", "-o", "phone",
				"--trace", "trace.safetensors"},
			{"runtime", "logits", "-q", "--tokens", "1,2,3", "-o", "logits.f32"},
		}
		for _, args := range commands {
			name, prefix := emulated(os.Getenv("PATH"), args[0])
			line := append([]string{"-c", fmt.Sprintf(`umask %o; exec "$@"`, mask), "sh", name}, append(prefix, args[1:]...)...)
			cmd := exec.Command("sh", line...)
			cmd.Dir = dir
			if raw, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%q: %v: %s", args, err, raw)
			}
		}
		files := 0
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || path == dir {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			want := 0o666 &^ mask
			if d.IsDir() {
				want = 0o777 &^ mask
			}
			files++
			if info.Mode().Perm() != want {
				t.Errorf("umask %03o: %s has %03o, want %03o", mask, path, info.Mode().Perm(), want)
			}
			return nil
		})
		if err != nil || files < 30 {
			t.Errorf("%d files, %v", files, err)
		}
	}
}
