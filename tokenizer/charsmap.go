package tokenizer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

const maxMapped = 1024 // bytes that a character map may make of one place

// charsMap is SentencePiece's compiled character map: the byte length of a double-array trie (uint32, little endian),
// the trie, then the replacements, each ended by a zero byte. The trie maps a string to where its replacement starts.
//
// A unit of the trie, a uint32, has in bits 0 to 7 the byte that leads to it, in bit 8 whether a string ends here, in
// bits 10 to 30 the offset to its children, shifted by 8 more if bit 9 is set. Where a string ends, the child for no byte
// has bit 31 set and the value in the others.
type charsMap struct {
	units    []uint32
	replaced []byte
}

func newCharsMap(raw []byte) (*charsMap, error) {
	if len(raw) < 4 {
		return nil, errors.New("character map: no length")
	}
	size := int64(binary.LittleEndian.Uint32(raw))
	raw = raw[4:]
	if size%4 != 0 || size == 0 || size > int64(len(raw)) {
		return nil, fmt.Errorf("character map: trie of %d bytes in %d", size, len(raw))
	}
	m := &charsMap{units: make([]uint32, size/4), replaced: raw[size:]}
	for i := range m.units {
		m.units[i] = binary.LittleEndian.Uint32(raw[4*i:])
	}
	for rest := m.replaced; len(rest) > 0; {
		end := bytes.IndexByte(rest, 0)
		if end < 0 || end > maxMapped {
			return nil, fmt.Errorf("character map: replacement without an end or over %d bytes", maxMapped)
		}
		rest = rest[end+1:]
	}
	return m, nil
}

// prefixes calls found for every string of the map that s starts with, shortest first, until it returns false. Entries
// that are not whole characters are none.
func (m *charsMap) prefixes(s string, found func(length int, to string) bool) {
	offset := func(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }
	at := offset(m.units[0])
	for i := range len(s) {
		at ^= uint32(s[i])
		if int64(at) >= int64(len(m.units)) {
			return
		}
		unit := m.units[at]
		if unit&(1<<31|0xff) != uint32(s[i]) {
			return
		}
		at ^= offset(unit)
		if unit&(1<<8) == 0 {
			continue
		}
		if int64(at) >= int64(len(m.units)) {
			return
		}
		value := int(m.units[at] &^ (1 << 31))
		if value >= len(m.replaced) {
			return
		}
		to := m.replaced[value:]
		to = to[:bytes.IndexByte(to, 0)]
		whole := i+1 == len(s) || utf8.RuneStart(s[i+1])
		if whole && utf8.Valid(to) && !found(i+1, string(to)) {
			return
		}
	}
}

// longest returns the longest string of the map that s starts with, or length 0, and what becomes of it.
func (m *charsMap) longest(s string) (length int, to string) {
	m.prefixes(s, func(n int, r string) bool {
		length, to = n, r
		return true
	})
	return length, to
}

// graphemes normalizes as the tokenizers library does: a grapheme cluster under six bytes, or else each of its
// characters, becomes what the map has for its shortest beginning.
func (m *charsMap) graphemes(s string) string {
	var b strings.Builder
	for state := -1; s != ""; {
		var cluster string
		cluster, s, _, state = uniseg.FirstGraphemeClusterInString(s, state)
		if len(cluster) < 6 {
			if to, ok := m.first(cluster); ok {
				b.WriteString(to)
				continue
			}
		}
		for i, r := range cluster {
			char := cluster[i : i+utf8.RuneLen(r)]
			if to, ok := m.first(char); ok {
				char = to
			}
			b.WriteString(char)
		}
	}
	return b.String()
}

func (m *charsMap) first(s string) (to string, ok bool) {
	m.prefixes(s, func(_ int, r string) bool {
		to, ok = r, true
		return false
	})
	return to, ok
}
