package calib

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"nibble/internal/stage"
)

// rules counts up when other sequences come of the same settings.
const rules = 1

// magic begins a file of sequences, with its version.
const magic = "nibseq1\n"

const mostHeader = 16 << 20 // bytes of JSON

// ErrCache is a file of sequences that is not what was written.
var ErrCache = errors.New("calib: not a whole file of sequences")

// cacheHeader is the JSON of a file of sequences.
type cacheHeader struct {
	Key       string   `json:"key"`
	Source    string   `json:"source"`
	Documents int      `json:"documents"`
	Used      int      `json:"used"`
	Short     int      `json:"short"`
	Notes     []string `json:"notes,omitempty"`
	Lengths   []int    `json:"lengths"`
}

// Key names the sequences that settings give with a model: content is whatever else decides them, such as the checksums of
// the model's files, how its matrices are computed, and the checksum of a text.
func Key(content string, s Settings) string {
	s.defaults()
	raw, err := json.Marshal(struct {
		Rules    int
		Content  string
		Settings Settings
	}{rules, content, s})
	if err != nil {
		panic(err) // strings and numbers only
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// cachePath is the file of a key.
func cachePath(folder, key string) string { return filepath.Join(folder, "sequences-"+key+".bin") }

// Save writes sequences into a folder that exists, under their key. The file appears whole or not at all.
func (s *Sequences) Save(folder, key string) error {
	err := stage.WriteWhole(cachePath(folder, key), func(w io.Writer) error {
		_, err := w.Write(s.encode(key))
		return err
	})
	if err != nil && !errors.Is(err, stage.ErrInUse) { // another run has the same sequences
		return fmt.Errorf("calib: %w", err)
	}
	return nil
}

// encode makes the bytes of a file; the package comment has the layout.
func (s *Sequences) encode(key string) []byte {
	h := cacheHeader{Key: key, Source: s.Source, Documents: s.Documents, Used: s.Used, Short: s.Short, Notes: s.Notes, Lengths: []int{}}
	for _, ids := range s.IDs {
		h.Lengths = append(h.Lengths, len(ids))
	}
	raw, err := json.Marshal(h)
	if err != nil {
		panic(err) // strings and numbers only
	}
	b := binary.LittleEndian.AppendUint32([]byte(magic), uint32(len(raw)))
	b = append(b, raw...)
	for _, ids := range s.IDs {
		for _, id := range ids {
			b = binary.LittleEndian.AppendUint32(b, uint32(id))
		}
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// Saved reads the sequences of a key from a folder. Without a file of them the error is fs.ErrNotExist, with one that is
// not whole ErrCache.
func Saved(folder, key string) (*Sequences, error) {
	f, err := os.Open(cachePath(folder, key))
	if err != nil {
		return nil, fmt.Errorf("calib: %w", err)
	}
	defer f.Close()
	const most = 4*mostTokens + mostHeader + 64
	raw, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return nil, fmt.Errorf("calib: %w", err)
	}
	s, err := decode(raw, key)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %v; delete it", ErrCache, f.Name(), err)
	}
	return s, nil
}

// decode reads the bytes of a file and checks them.
func decode(raw []byte, key string) (*Sequences, error) {
	const fixed = len(magic) + 4
	if len(raw) < fixed+sha256.Size || string(raw[:len(magic)]) != magic {
		return nil, errors.New("it does not begin as one")
	}
	body := raw[:len(raw)-sha256.Size]
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], raw[len(body):]) {
		return nil, errors.New("the checksum is wrong")
	}
	n := binary.LittleEndian.Uint32(body[len(magic):])
	if n > mostHeader || int(n) > len(body)-fixed {
		return nil, fmt.Errorf("a header of %d bytes", n)
	}
	var h cacheHeader
	d := json.NewDecoder(bytes.NewReader(body[fixed : fixed+int(n)]))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if d.More() {
		return nil, errors.New("header: something follows it, or it is no JSON")
	}
	if h.Key != key {
		return nil, errors.New("it is of other sequences")
	}
	ids := body[fixed+int(n):]
	s := &Sequences{Source: h.Source, Documents: h.Documents, Used: h.Used, Short: h.Short, Notes: h.Notes}
	for _, length := range h.Lengths {
		if length < 1 || length > len(ids)/4 {
			return nil, fmt.Errorf("a sequence of %d tokens, %d bytes are left", length, len(ids))
		}
		list := make([]int32, length)
		for i := range list {
			if list[i] = int32(binary.LittleEndian.Uint32(ids[4*i:])); list[i] < 0 {
				return nil, fmt.Errorf("token %d", list[i])
			}
		}
		s.IDs, ids = append(s.IDs, list), ids[4*length:]
	}
	if len(ids) > 0 {
		return nil, fmt.Errorf("%d bytes behind the last sequence", len(ids))
	}
	return s, nil
}
