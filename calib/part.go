package calib

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"nibble/tokenizer"
)

// part is a document or, of a long one, a stretch.
type part struct {
	text     string
	messages []tokenizer.Message // a conversation; text is empty
	document int                 // its number
	first    bool                // the document begins here
	last     bool                // and ends here
}

// size is the number of bytes that become tokens.
func (p *part) size() int {
	n := len(p.text)
	for _, m := range p.messages {
		n += len(m.Role) + len(m.Content)
	}
	return n
}

// documents cuts documents into parts and numbers them.
type documents struct {
	size  int // most bytes of a part
	count int
	open  bool // a document has begun
	emit  func(part) error
}

// text hands on a stretch of a document. What is blank begins no document.
func (d *documents) text(text string, last bool) error {
	if !d.open {
		text = strings.TrimLeft(text, "\r\n")
	}
	if last {
		text = strings.TrimRight(text, "\r\n")
	}
	first := !d.open
	if strings.TrimSpace(text) == "" {
		d.open = d.open && !last
		return nil
	}
	if d.open = !last; first {
		d.count++
	}
	for len(text) > d.size {
		n := breakpoint(text, d.size)
		if err := d.emit(part{text: text[:n], document: d.count - 1, first: first}); err != nil {
			return err
		}
		text, first = text[n:], false
	}
	return d.emit(part{text: text, document: d.count - 1, first: first, last: last})
}

// conversation hands on a document of messages.
func (d *documents) conversation(messages []tokenizer.Message) error {
	if len(messages) == 0 {
		return nil
	}
	d.count++
	return d.emit(part{messages: messages, document: d.count - 1, first: true, last: true})
}

// breakpoint returns where to cut a text of more than size bytes: behind the last line that ends in the second half of
// size, else before the last space there, else between two characters.
func breakpoint(text string, size int) int {
	half := size / 2
	if i := strings.LastIndexByte(text[half:size], '\n'); i >= 0 {
		return half + i + 1
	}
	if i := strings.LastIndexByte(text[half:size], ' '); i > 0 {
		return half + i
	}
	n := size
	for n > half && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}

// separator begins a line that stands between two documents of a plain text.
const separator = "<|endoftext|>"

// plainText reads the documents of a text file.
func (d *documents) plainText(r io.Reader) error {
	in := bufio.NewReaderSize(r, plainSize)
	var text []byte
	for lineStart := true; ; {
		line, err := in.ReadSlice('\n')
		end := errors.Is(err, io.EOF)
		if err != nil && !end && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		if rest, ok := bytes.CutPrefix(line, []byte(separator)); ok && lineStart {
			if err := d.text(string(text), true); err != nil {
				return err
			}
			text, line = text[:0], rest
		}
		lineStart = err == nil
		text = append(text, line...)
		if end {
			return d.text(string(text), true)
		}
		if len(text) <= d.size {
			continue
		}
		rest := string(text)
		for len(rest) > d.size {
			n := breakpoint(rest, d.size)
			if err := d.text(rest[:n], false); err != nil {
				return err
			}
			rest = rest[n:]
		}
		text = append(text[:0], rest...)
	}
}
