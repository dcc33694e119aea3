package calib

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Sequences are token sequences for calibration, in the order of their lots: the first ones are a sample as well.
type Sequences struct {
	IDs       [][]int32
	Source    string   // what the tokens come from, as the user knows it
	Documents int      // that were read
	Used      int      // documents of which a sequence has something
	Short     int      // documents that were looked at and gave no sequence
	Notes     []string // what was done beyond the settings
}

// Tokens is the number of tokens in all sequences.
func (s *Sequences) Tokens() int {
	n := 0
	for _, ids := range s.IDs {
		n += len(ids)
	}
	return n
}

// Digest is the SHA-256, in hex, of the sequences: for each its length and its ids, 32 bits each, little-endian.
func (s *Sequences) Digest() string {
	h := sha256.New()
	var b []byte
	for _, ids := range s.IDs {
		b = binary.LittleEndian.AppendUint32(b[:0], uint32(len(ids)))
		for _, id := range ids {
			b = binary.LittleEndian.AppendUint32(b, uint32(id))
		}
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// String says in one line what there is and where it comes from.
func (s *Sequences) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %s", s.size(), s.Source)
	if s.Documents > 0 {
		b.Reset()
		fmt.Fprintf(&b, "%s from %s of %s of %s", s.size(), grouped(s.Used), plural(s.Documents, "document"), s.Source)
	}
	fmt.Fprintf(&b, " (sha256 %.12s…)", s.Digest())
	return b.String()
}

// size states sequences and tokens: 2 sequences x 512 tokens = 1,024 tokens.
func (s *Sequences) size() string {
	shortest, longest := s.lengths()
	if shortest == longest {
		return fmt.Sprintf("%s x %s = %s", plural(len(s.IDs), "sequence"), plural(longest, "token"), plural(s.Tokens(), "token"))
	}
	return fmt.Sprintf("%s of %s to %s = %s", plural(len(s.IDs), "sequence"), grouped(shortest), plural(longest, "token"),
		plural(s.Tokens(), "token"))
}

// lengths returns those of the shortest and the longest sequence.
func (s *Sequences) lengths() (shortest, longest int) {
	for i, ids := range s.IDs {
		if i == 0 || len(ids) < shortest {
			shortest = len(ids)
		}
		longest = max(longest, len(ids))
	}
	return shortest, longest
}

// TooLittleError reports a text that has fewer tokens than were wanted.
type TooLittleError struct {
	Source                 string
	Have, Wanted           int // tokens
	Least                  int // tokens of a sequence
	Documents, Short, Used int
}

// Error says what there is, and what would help.
func (e *TooLittleError) Error() string {
	s := fmt.Sprintf("calib: %s has %s for calibration, %s were asked for", e.Source, plural(e.Have, "token"), grouped(e.Wanted))
	if e.Short > 0 {
		s += fmt.Sprintf("; %s of %s have less than %d tokens and were left out, which packing would not", grouped(e.Short), plural(e.Documents, "document"), e.Least)
	}
	return s + "; take more text or ask for less"
}

// Enough refuses to calibrate a matrix of so many columns with less tokens than columns: the second moments of its inputs
// would have no full rank.
func Enough(tokens, widest int) error {
	if tokens >= widest {
		return nil
	}
	return fmt.Errorf("calib: %s for a matrix of %s: want at least one token per column; take more or longer sequences, or more text",
		plural(tokens, "token"), plural(widest, "column"))
}

// plural writes a count: 1 token, 2 tokens.
func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return grouped(n) + " " + what
}

// grouped writes a count in groups of three digits: 65,536.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
