package calib

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func example() *Sequences {
	return &Sequences{IDs: [][]int32{{1, 2, 3}, {70000}}, Source: "wiki.txt", Documents: 9, Used: 2, Short: 1, Notes: []string{"a note"}}
}

// What is saved is read again; a file that is another's or not whole is refused.
func TestCache(t *testing.T) {
	dir := t.TempDir()
	s := Settings{Source: SelfSource, Seed: 1}
	key := Key("model", s)
	if _, err := Saved(dir, key); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before: %v", err)
	}
	want := example()
	for range 2 { // the second one replaces the first
		if err := want.Save(dir, key); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Saved(dir, key)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%v, %v", entries, err)
	}
	path := filepath.Join(dir, entries[0].Name())
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		raw[i] ^= 4
		if _, err := decode(raw, key); err == nil {
			t.Errorf("byte %d may be wrong", i)
		}
		raw[i] ^= 4
		if _, err := decode(raw[:i], key); err == nil {
			t.Errorf("the file may end at %d", i)
		}
	}
	if err := os.WriteFile(path, raw[:len(raw)-1], 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Saved(dir, key); !errors.Is(err, ErrCache) || !strings.Contains(err.Error(), path) {
		t.Errorf("a file that was cut: %v", err)
	}
	if _, err := decode(raw, Key("model", Settings{})); err == nil {
		t.Error("another key reads it")
	}
	if err := want.Save(filepath.Join(dir, "none"), key); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}

// Whatever decides the sequences is in the key.
func TestKey(t *testing.T) {
	seen := map[string]bool{}
	for _, content := range []string{"a", "b"} {
		for _, s := range []Settings{{}, {Source: "x"}, {Field: "x"}, {Samples: 1}, {Length: 1}, {Seed: 1}, {Pack: true}, {Chat: true}} {
			seen[Key(content, s)] = true
		}
	}
	if len(seen) != 16 {
		t.Errorf("%d different keys of 16", len(seen))
	}
	if Key("a", Settings{}) != Key("a", Settings{Samples: DefaultSamples, Length: DefaultLength}) {
		t.Error("the defaults have another key than their values")
	}
}

// sealed adds the checksum to a body.
func sealed(header string, ids ...byte) []byte {
	b := binary.LittleEndian.AppendUint32([]byte(magic), uint32(len(header)))
	b = append(append(b, header...), ids...)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// A checksum that fits does not make a file good.
func TestHostileCache(t *testing.T) {
	for want, raw := range map[string][]byte{
		"a sequence of 2 tokens, 4 bytes are left":       sealed(`{"key":"k","lengths":[2]}`, 1, 0, 0, 0),
		"a sequence of -1 tokens":                        sealed(`{"key":"k","lengths":[-1]}`, 1, 0, 0, 0),
		"a sequence of 0 tokens":                         sealed(`{"key":"k","lengths":[0]}`),
		"a sequence of 4611686018427387904 tokens":       sealed(`{"key":"k","lengths":[4611686018427387904]}`, 1, 0, 0, 0),
		"4 bytes behind the last sequence":               sealed(`{"key":"k","lengths":[]}`, 1, 0, 0, 0),
		"token -1":                                       sealed(`{"key":"k","lengths":[1]}`, 255, 255, 255, 255),
		"other sequences":                                sealed(`{"key":"other","lengths":[]}`),
		"header: json: unknown field \"more\"":           sealed(`{"key":"k","more":1}`),
		"header: unexpected EOF":                         sealed(`{"key":"k"`),
		"it does not begin as one":                       []byte("nibseq0\n" + strings.Repeat("x", 40)),
		"a header of 4294967295 bytes":                   append([]byte(nil), sealedHeader(1<<32-1)...),
		"header: something follows it, or it is no JSON": sealed(`{"key":"k"} {}`),
	} {
		if _, err := decode(raw, "k"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// sealedHeader states a length that is not there.
func sealedHeader(n uint32) []byte {
	b := binary.LittleEndian.AppendUint32([]byte(magic), n)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// FuzzCache wants an error or what is written again as it was read.
func FuzzCache(f *testing.F) {
	f.Add(`{"key":"k","source":"s","lengths":[1],"notes":["n"]}`, []byte{1, 0, 0, 0})
	f.Add(`{"key":"k","documents":3,"used":2,"short":1,"lengths":[1,1]}`, []byte{1, 0, 0, 0, 2, 0, 0, 0})
	f.Fuzz(func(t *testing.T, header string, ids []byte) {
		s, err := decode(sealed(header, ids...), "k")
		if err != nil {
			return
		}
		again, err := decode(s.encode("k"), "k")
		if diff := cmp.Diff(s, again); diff != "" || err != nil {
			t.Fatalf("%v (-want +got)\n%s", err, diff)
		}
	})
}
