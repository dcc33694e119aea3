package convert

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"nibble/internal/stage"
	"nibble/quant"
)

// journalName is the file in OUT.partial that says what is finished.
//
// Its first line is {"plan":"…","settings":{…}}: the digest of everything that decides the output, and what of it a person can
// change, by name, to say what differs if a resume is refused. Every further line is an entry. A line that was cut by a crash ends the journal: it and what follows count as not written.
const journalName = ".nibble-journal"

// entry is one finished job.
type entry struct {
	Job     string   `json:"job"`
	CRC     uint32   `json:"crc32c,omitempty"`  // of the stored tensors, one behind the other
	SHA256  string   `json:"sha256,omitempty"`  // of a source file
	Outcome *outcome `json:"outcome,omitempty"` // of a quantized matrix
}

// fits reports whether an entry says of an item what there is to say.
func (e *entry) fits(it *Item) bool {
	return it.Spec == nil && e.Outcome == nil || it.Spec != nil && e.Outcome != nil && e.Outcome.Noise != nil
}

// outcome is what became of a quantized matrix.
type outcome struct {
	Noise    *quant.Noise `json:"noise"`
	Loss     *float64     `json:"loss,omitempty"`     // Σ e H eᵀ / Σ w H wᵀ of a calibrated method
	Fallback string       `json:"fallback,omitempty"` // why the matrix is not the method's
	Folded   bool         `json:"folded,omitempty"`   // its weights stand for multiples of the source's
}

// journal appends entries.
type journal struct {
	mu   sync.Mutex
	file *stage.File
}

// head is the first line of a journal.
type head struct {
	Plan     string            `json:"plan"`
	Settings map[string]string `json:"settings,omitempty"`
}

// readJournal returns the head and the entries of a journal, and the number of bytes that were whole.
func readJournal(r io.Reader) (plan head, done map[string]entry, size int64, err error) {
	in := bufio.NewReader(r)
	done = map[string]entry{}
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return plan, done, size, nil // without its newline a line is not whole
		}
		if err != nil {
			return head{}, nil, 0, err
		}
		if plan.Plan == "" {
			if json.Unmarshal(line, &plan) != nil || plan.Plan == "" {
				return head{}, nil, 0, errors.New("no plan in its first line")
			}
		} else {
			var e entry
			dec := json.NewDecoder(bytes.NewReader(line))
			dec.DisallowUnknownFields()
			if dec.Decode(&e) != nil || e.Job == "" {
				return plan, done, size, nil
			}
			done[e.Job] = e
		}
		size += int64(len(line))
	}
}

// createJournal starts a journal.
func createJournal(path string, plan head) (*journal, error) {
	f, err := stage.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_APPEND)
	if err != nil {
		return nil, err
	}
	j := &journal{file: f}
	return j, j.line(plan)
}

// resumeJournal opens a journal that was written for the same plan and cuts what a crash left half written.
func resumeJournal(path string, plan head) (*journal, map[string]entry, error) {
	f, err := stage.OpenFile(path, os.O_APPEND)
	if err != nil {
		return nil, nil, err
	}
	was, done, size, err := readJournal(f)
	if err == nil && was.Plan != plan.Plan {
		err = fmt.Errorf("it was started with %s", was.differences(plan))
	}
	if err == nil {
		err = f.Truncate(size)
	}
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return &journal{file: f}, done, nil
}

func (j *journal) line(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	_, err = j.file.Write(append(b, '\n'))
	return err
}

func (j *journal) close() error { return j.file.Close() }
