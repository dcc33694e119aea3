package calib

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// stories writes documents of 5 to 804 words behind each other, with separators, and returns them.
func stories(t *testing.T, count int) (path string, list []string) {
	for i := range count {
		list = append(list, story(i, 5+int(scatter(uint64(i))%800)))
	}
	return write(t, filepath.Join(t.TempDir(), "stories.txt"), strings.Join(list, "\n"+separator+"\n")), list
}

// brute takes sequences as Load says it does, but tokenizes everything first and sorts all windows.
func brute(t *testing.T, l *Language, list []string, s Settings) (windows [][]int32) {
	t.Helper()
	type candidate struct {
		lot
		ids []int32
	}
	var all []candidate
	front := l.front()
	room := s.Length - len(front)
	for unit, text := range list {
		ids, err := l.Tokenizer.Encode(text, false)
		if err != nil {
			t.Fatal(err)
		}
		for w := int64(0); len(ids) > 0; w++ {
			n := min(room, len(ids))
			if n == room || n+len(front) >= s.least() {
				all = append(all, candidate{draw(s.Seed, int64(unit), w), slices.Concat(front, ids[:n])})
			}
			ids = ids[n:]
		}
	}
	slices.SortFunc(all, func(a, b candidate) int { return compareLots(a.lot, b.lot) })
	for tokens := 0; tokens < s.wanted() && len(windows) < len(all); {
		windows = append(windows, all[len(windows)].ids)
		tokens += len(windows[len(windows)-1])
	}
	return windows
}

// Load gives what sorting all windows of the text gives, though it does not tokenize all of it; more samples begin with
// the same ones; another seed gives others.
func TestLoad(t *testing.T) {
	path, list := stories(t, 300)
	for name, l := range map[string]*Language{"plain": plainLanguage(t), "bos": withBOS(t)} {
		for _, seed := range []uint64{0, 7} {
			s := Settings{Source: path, Samples: 8, Length: 64, Seed: seed}
			few, err := Load(context.Background(), l, s)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(brute(t, l, list, s), few.IDs); diff != "" {
				t.Errorf("%s, seed %d: -want +got\n%s", name, seed, diff)
			}
			s.Samples = 80
			many, err := Load(context.Background(), l, s)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(few.IDs, many.IDs[:len(few.IDs)]); diff != "" {
				t.Errorf("%s, seed %d: the first of more samples: -want +got\n%s", name, seed, diff)
			}
			if many.Documents != 300 || many.Used < 50 || many.Used > len(many.IDs) {
				t.Errorf("%s, seed %d: %s", name, seed, many)
			}
			for _, ids := range many.IDs {
				if n := len(ids); n < 16 || n > 64 || name == "bos" && (ids[0] != bos || slices.Contains(ids[1:], bos)) {
					t.Fatalf("%s: sequence %v", name, ids)
				}
			}
		}
	}
}

// All of a text that is too short is taken, each window once, and the error has the numbers.
func TestTooLittle(t *testing.T) {
	l := plainLanguage(t)
	list := []string{story(0, 300), story(1, 2), story(2, 100)}
	path := write(t, filepath.Join(t.TempDir(), "few.txt"), strings.Join(list, "\n"+separator))
	s := Settings{Source: path, Samples: 1000, Length: 64}
	q, err := Load(context.Background(), l, s)
	var little *TooLittleError
	if !errors.As(err, &little) || q == nil {
		t.Fatalf("%v, %v", q, err)
	}
	if diff := cmp.Diff(brute(t, l, list, s), q.IDs); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	want := TooLittleError{Source: "few.txt", Have: q.Tokens(), Wanted: 64000, Least: 16, Documents: 3, Short: 1, Used: 2}
	if diff := cmp.Diff(want, *little); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	const line = "tokens for calibration, 64,000 were asked for; 1 of 3 documents have less than 16 tokens and were left out, which packing would not; take more text"
	if !strings.Contains(err.Error(), line) {
		t.Errorf("error %q", err)
	}
}

// A document that is longer than a block is cut at line ends, and nothing of it is lost but rests of blocks.
func TestLongDocument(t *testing.T) {
	l := plainLanguage(t)
	var b strings.Builder
	for i := range 40000 {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	path := write(t, filepath.Join(t.TempDir(), "long.txt"), b.String())
	q, err := Load(context.Background(), l, Settings{Source: path, Samples: 100000, Length: 32})
	var little *TooLittleError
	if !errors.As(err, &little) || q.Documents != 1 || q.Used != 1 {
		t.Fatalf("%v, %v", q, err)
	}
	var all strings.Builder
	for _, ids := range q.IDs {
		all.WriteString(decoded(t, l, ids))
	}
	// 431 kB are 7 blocks, of each of which at most 31 tokens of 9 bytes at most are no full window.
	if n := all.Len(); n > b.Len() || n < b.Len()-7*31*9 {
		t.Errorf("%d bytes of %d were taken", n, b.Len())
	}
}

// Packed documents have the end between them, and BOS behind it where the tokenizer has one.
func TestPack(t *testing.T) {
	list := []string{story(0, 4), story(1, 4), story(2, 40)}
	path := write(t, filepath.Join(t.TempDir(), "pack.txt"), strings.Join(list, "\n"+separator+"\n"))
	for name, l := range map[string]*Language{"plain": plainLanguage(t), "bos": withBOS(t), "nothing": {Tokenizer: plainLanguage(t).Tokenizer}} {
		var stream []int32
		between := map[string][]int32{"plain": {end}, "bos": {end, bos}}[name]
		for i, text := range list {
			ids, err := l.Tokenizer.Encode(text, false)
			if err != nil {
				t.Fatal(err)
			}
			if i > 0 {
				stream = append(stream, between...)
			}
			stream = append(stream, ids...)
		}
		q, err := Load(context.Background(), l, Settings{Source: path, Samples: 2, Length: 50, Pack: true})
		if err != nil {
			t.Fatal(err)
		}
		front := l.front()
		room := 50 - len(front)
		want := map[string]bool{}
		for part := range slices.Chunk(stream, room) {
			want[fmt.Sprint(slices.Concat(front, part))] = true
		}
		for _, ids := range q.IDs {
			if !want[fmt.Sprint(ids)] {
				t.Errorf("%s: %v is no window of %v", name, ids, stream)
			}
		}
		if name == "plain" && q.String()[:63] != "2 sequences x 50 tokens = 100 tokens from 3 of 3 documents of p" {
			t.Errorf("%s: %s", name, q)
		}
	}
}

// Where a document ends with the token that also begins the next one, it stands once.
func TestBetween(t *testing.T) {
	l := withBOS(t)
	for _, tt := range []struct{ ends, want []int32 }{{[]int32{end, 5}, []int32{end, bos}}, {[]int32{bos}, []int32{bos}}, {nil, []int32{bos}}, {[]int32{-1, 99999}, []int32{bos}}} {
		l.Ends = tt.ends
		if got := l.between(); !slices.Equal(got, tt.want) {
			t.Errorf("ends %v: %v, want %v", tt.ends, got, tt.want)
		}
	}
}

// A folder is its files in the order of their names, whatever they are.
func TestFolder(t *testing.T) {
	l := plainLanguage(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "b.jsonl.gz"), `{"text":"`+story(2, 30)+`"}`+"\n"+`{"text":"`+story(3, 30)+`"}`)
	write(t, filepath.Join(dir, "a.txt.zst"), story(0, 30)+"\n"+separator+"\n"+story(1, 30))
	write(t, filepath.Join(dir, "c.json"), `[{"text":"`+story(4, 30)+`"}, {"text":null}]`)
	write(t, filepath.Join(dir, "README.md"), strings.Repeat("not text for calibration ", 100))
	parquet, err := os.ReadFile("../internal/parquet/testdata/plain-snappy.parquet")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "d.parquet"), string(parquet))
	write(t, filepath.Join(dir, "e.parquet.gz"), string(parquet))
	if err := os.Mkdir(filepath.Join(dir, "f.txt"), 0o777); err != nil {
		t.Fatal(err)
	}
	q, err := Load(context.Background(), l, Settings{Source: dir, Samples: 1000, Length: 16})
	var little *TooLittleError
	// 5 stories, and of each Parquet file 27 texts of 40 rows: 6 are null, 7 others are empty.
	if !errors.As(err, &little) || q.Documents != 5+2*27 {
		t.Errorf("%v, %v", q, err)
	}
	seen := map[string]bool{}
	for _, ids := range q.IDs {
		word, _, _ := strings.Cut(decoded(t, l, ids), "w")
		seen[word] = true
	}
	for i := range 5 {
		if !seen[fmt.Sprintf("d%d", i)] {
			t.Errorf("nothing of document %d", i)
		}
	}
	alone, err := Load(context.Background(), l, Settings{Source: filepath.Join(dir, "README.md"), Samples: 2, Length: 16})
	if err != nil || alone.Documents != 1 {
		t.Errorf("a file of another name: %v, %v", alone, err)
	}
	if _, err := Load(context.Background(), l, Settings{Source: filepath.Join(dir, "f.txt")}); err == nil || !strings.Contains(err.Error(), "no file ends in .txt, ") {
		t.Errorf("an empty folder: %v", err)
	}
	if _, err := Load(context.Background(), l, Settings{Source: filepath.Join(dir, "none")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// Reading stops when it is no longer wanted.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	dir := t.TempDir()
	for _, name := range []string{"a.txt", "a.jsonl", "a.json.gz", "a.txt.zst"} {
		if _, err := Load(ctx, plainLanguage(t), Settings{Source: write(t, filepath.Join(dir, name), `{"text":"a"}`)}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Load(ctx, plainLanguage(t), Settings{Source: "../internal/parquet/testdata/messages.parquet", Field: "prompt"}); !errors.Is(err, context.Canceled) {
		t.Errorf("parquet: %v", err)
	}
}

// Values that mean nothing are refused.
func TestSettings(t *testing.T) {
	for want, s := range map[string]Settings{
		"no source":                           {},
		"-1 samples: want 1 to":               {Source: "x", Samples: -1},
		"samples of 1 tokens":                 {Source: "x", Length: 1},
		"at most 268435456 tokens":            {Source: "x", Samples: 1 << 20, Length: 1 << 10},
		"comes from Self":                     {Source: "self"},
		"no chat template":                    {Source: "x", Chat: true},
		"calib: stat x: no such file or dire": {Source: "x"},
	} {
		if _, err := Load(context.Background(), plainLanguage(t), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
	if err := Enough(4096, 4096); err != nil {
		t.Error(err)
	}
	if err := Enough(4095, 4096); err == nil || !strings.Contains(err.Error(), "4,095 tokens for a matrix of 4,096 columns") {
		t.Error(err)
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("%d is %q", n, got)
		}
	}
}
