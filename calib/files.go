package calib

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// mostWindow is the largest window of a zstd file, that of its command line without --long.
const mostWindow = 128 << 20

// mostUnpacked is the largest Parquet file that is compressed once more.
const mostUnpacked = 256 << 20

// kinds are the endings of the files that a folder is searched for.
var kinds = []string{".txt", ".jsonl", ".ndjson", ".json", ".parquet"}

// kind returns the ending that says what a file is, and the one that says how it is compressed.
func kind(name string) (ending, compression string) {
	name = strings.ToLower(name)
	switch c := filepath.Ext(name); c {
	case ".gz", ".zst":
		return filepath.Ext(strings.TrimSuffix(name, c)), c
	default:
		return c, ""
	}
}

// list returns the files of a source: itself, or what a folder has of the kinds, sorted by name.
func list(source string) ([]string, error) {
	info, err := os.Stat(source)
	if err != nil {
		return nil, fmt.Errorf("calib: %w", err)
	}
	if !info.IsDir() {
		return []string{source}, nil
	}
	entries, err := os.ReadDir(source)
	if err != nil {
		return nil, fmt.Errorf("calib: %w", err)
	}
	var files []string
	for _, e := range entries {
		path := filepath.Join(source, e.Name())
		if ending, _ := kind(path); !slices.Contains(kinds, ending) {
			continue
		}
		info, err := os.Stat(path) // a link counts as what it points to
		if err != nil {
			return nil, fmt.Errorf("calib: %w", err)
		}
		if info.Mode().IsRegular() {
			files = append(files, path)
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("calib: %s: no file ends in %s, or one of these and .gz or .zst; name a file to read it as plain text",
			source, strings.Join(kinds, ", "))
	}
	return files, nil
}

// read reads the documents of a file.
func (c *chooser) read(path string, to *documents) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("calib: %w", err)
	}
	defer f.Close()
	ending, compression := kind(path)
	r, done, err := unpack(path, f, compression)
	if err != nil {
		return err
	}
	defer done()
	r = &stoppable{c.ctx, r}
	before := to.count
	table := &rows{file: path, fields: c.settings.fields(), chat: c.settings.Chat, to: to}
	switch ending {
	case ".jsonl", ".ndjson", ".json":
		err = table.json(newPlain(path, r))
	case ".parquet":
		var in io.ReaderAt
		var size int64
		if in, size, err = seekable(path, f, r, compression); err == nil {
			err = table.parquet(c.ctx, in, size)
		}
	default:
		err = to.plainText(newPlain(path, r))
	}
	if err == nil && to.count == before {
		return &SourceError{File: path, Offset: -1, Reason: "no text in it"}
	}
	return err
}

// stoppable is a reader that ends when the context does.
type stoppable struct {
	ctx context.Context
	r   io.Reader
}

func (s *stoppable) Read(b []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.r.Read(b)
}

// seekable returns a file in which one can jump: itself, or what it unpacks to.
func seekable(path string, f *os.File, unpacked io.Reader, compression string) (io.ReaderAt, int64, error) {
	if compression == "" {
		info, err := f.Stat()
		if err != nil {
			return nil, 0, fmt.Errorf("calib: %w", err)
		}
		return f, info.Size(), nil
	}
	raw, err := io.ReadAll(io.LimitReader(unpacked, mostUnpacked+1))
	if stopped(err) {
		return nil, 0, err
	}
	if err == nil && len(raw) > mostUnpacked {
		err = fmt.Errorf("over %d MB unpacked, which memory would have to hold; Parquet files are compressed inside: unpack it first", mostUnpacked>>20)
	}
	if err != nil {
		return nil, 0, &SourceError{File: path, Offset: -1, Reason: err.Error()}
	}
	return bytes.NewReader(raw), int64(len(raw)), nil
}

// fields are the names that a text may have in a table.
func (s *Settings) fields() []string {
	switch {
	case s.Field != "":
		return []string{s.Field}
	case s.Chat:
		return []string{"messages", "conversations", "text"}
	}
	return []string{"text"}
}

// unpack undoes a compression.
func unpack(path string, f io.Reader, compression string) (r io.Reader, done func(), err error) {
	done = func() {}
	switch compression {
	case ".gz":
		r, err = gzip.NewReader(bufio.NewReader(f))
	case ".zst":
		var d *zstd.Decoder
		if d, err = zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(mostWindow)); err == nil {
			r, done = d, d.Close
		}
	default:
		return f, done, nil
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, nil, &SourceError{File: path, Offset: -1, Reason: fmt.Sprintf("not a %s file: %v", compression, err)}
	}
	return r, done, nil
}
