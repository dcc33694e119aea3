package tokenizer

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// byteLevelDecoder makes text of tokens in the alphabet of bytes.
type byteLevelDecoder struct{ pending []byte }

func (d *byteLevelDecoder) push(token string, emit emitter) error {
	d.pending = appendBytes(d.pending, token)
	done := len(d.pending) - unfinished(d.pending)
	text := string(appendLossy(nil, d.pending[:done]))
	d.pending = append(d.pending[:0], d.pending[done:]...)
	return emit(text)
}

func (d *byteLevelDecoder) flush(emit emitter) error {
	return emit(string(appendLossy(nil, d.pending)))
}

// byteFallback makes text of runs of tokens <0xNN>. A run that is not UTF-8 is a U+FFFD for each of its bytes. Characters
// are handed on when they are complete, unless the step is patient and waits for the end of the run. With single, bytes
// that are no part of a character are U+FFFD and the characters around them stay, as in SentencePiece.
type byteFallback struct {
	single  bool
	patient bool
	run     []byte
}

func (d *byteFallback) push(token string, emit emitter) error {
	b, ok := byteToken(token)
	if !ok {
		if err := d.flush(emit); err != nil {
			return err
		}
		return emit(token)
	}
	d.run = append(d.run, b)
	if d.patient {
		return nil
	}
	done := 0
	for done < len(d.run) {
		r, n := utf8.DecodeRune(d.run[done:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		done += n
	}
	if done == 0 {
		return nil
	}
	text := string(d.run[:done])
	d.run = append(d.run[:0], d.run[done:]...)
	return emit(text)
}

func (d *byteFallback) flush(emit emitter) error {
	if len(d.run) == 0 {
		return nil
	}
	text := string(d.run)
	if !utf8.ValidString(text) {
		text = strings.Repeat("\ufffd", len(d.run))
		if d.single {
			text = string([]rune(string(d.run)))
		}
	}
	d.run = d.run[:0]
	return emit(text)
}

// byteToken reads <0xNN>.
func byteToken(token string) (byte, bool) {
	if len(token) != 6 || !strings.HasPrefix(token, "<0x") || token[5] != '>' {
		return 0, false
	}
	b, err := strconv.ParseUint(token[3:5], 16, 8)
	return byte(b), err == nil
}
