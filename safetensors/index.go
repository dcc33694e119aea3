package safetensors

import (
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
)

// maxIndex is the size in bytes of the largest index that is read, far beyond any that a checkpoint needs.
const maxIndex = 256 << 20

// readIndex returns the weight map of an index: the shard of each tensor.
func readIndex(fsys fs.FS, name string) (map[string]string, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("safetensors: %s: not a regular file", name)
	}
	if info.Size() > maxIndex {
		reason := fmt.Sprintf("%d bytes exceed the limit of %d", info.Size(), maxIndex)
		return nil, &FormatError{File: name, Kind: IndexTooLarge, Reason: reason}
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, info.Size()))
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	return parseIndex(name, text)
}

func parseIndex(name string, text []byte) (map[string]string, error) {
	s := &scanner{text: text, file: name, kind: InvalidIndex}
	if i := invalidUTF8(text); i >= 0 {
		s.pos = i
		return nil, s.fail(InvalidIndex, "byte %#02x is not UTF-8", text[i])
	}
	var shardOf map[string]string
	err := s.object(func(key []byte) error {
		if string(key) != "weight_map" {
			return s.skip()
		}
		if shardOf != nil {
			return s.fail(IndexDuplicate, "weight_map occurs twice")
		}
		shardOf = map[string]string{}
		return parseWeightMap(s, shardOf)
	})
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return nil, err
	}
	if len(shardOf) == 0 {
		return nil, s.fail(IndexEmpty, "weight_map is missing or empty")
	}
	return shardOf, nil
}

func parseWeightMap(s *scanner, shardOf map[string]string) error {
	shards := map[string]string{} // one copy of each shard's name
	err := s.object(func(key []byte) error {
		s.tensor = string(key)
		if _, ok := shardOf[s.tensor]; ok {
			return s.fail(IndexDuplicate, "the name occurs twice")
		}
		value, err := s.str()
		if err != nil {
			return err
		}
		shard, ok := shards[string(value)]
		if !ok {
			shard = string(value)
			if !inFolder(shard) {
				return s.fail(InvalidShard, "%q does not name a file in the folder of the index", shard)
			}
			shards[shard] = shard
		}
		shardOf[s.tensor] = shard
		return nil
	})
	s.tensor = ""
	return err
}

// inFolder reports whether name is a slash-separated path to something below the folder, on every system.
func inFolder(name string) bool {
	return fs.ValidPath(name) && name != "." && !strings.ContainsAny(name, "\\\x00") && filepath.IsLocal(name)
}
