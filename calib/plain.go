package calib

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// plain reads text that has to be UTF-8. One broken character in a megabyte is replaced by U+FFFD; more are another
// encoding. A byte order mark of UTF-8 is left out.
type plain struct {
	file   string
	r      io.Reader
	buf    []byte // read, not yet checked: at most size
	offset int64  // of buf[0]
	begun  bool   // the first bytes are no byte order mark
	strays int64  // broken characters
	ready  []byte // checked
	out    []byte // what ready is a part of
	err    error  // behind ready
}

const plainSize = 1 << 16

func newPlain(file string, r io.Reader) *plain {
	return &plain{file: file, r: r, buf: make([]byte, 0, plainSize)}
}

func (p *plain) fail(at int, format string, args ...any) {
	p.err = &SourceError{File: p.file, Offset: p.offset + int64(at), Reason: fmt.Sprintf(format, args...)}
}

// Read hands on what is checked.
func (p *plain) Read(dst []byte) (int, error) {
	for len(p.ready) == 0 {
		if p.err != nil {
			return 0, p.err
		}
		p.fill()
	}
	n := copy(dst, p.ready)
	p.ready = p.ready[n:]
	return n, nil
}

// fill reads a piece and checks it.
func (p *plain) fill() {
	n, err := p.r.Read(p.buf[len(p.buf):plainSize])
	p.buf = p.buf[:len(p.buf)+n]
	end := errors.Is(err, io.EOF)
	if stopped(err) {
		p.err = err
		return
	}
	if err != nil && !end {
		p.fail(len(p.buf), "%v", err)
		return
	}
	if !p.begun {
		if len(p.buf) < 4 && !end {
			return
		}
		if p.begin(); p.err != nil {
			return
		}
	}
	if i := bytes.IndexByte(p.buf, 0); i >= 0 {
		p.fail(i, "a zero byte: a binary file, or UTF-16 (then convert it: iconv -f utf-16 -t utf-8)")
		return
	}
	p.check(end)
	if p.err == nil && end {
		p.err = io.EOF
	}
}

// marks are the byte order marks of what is not UTF-8.
var marks = []struct{ mark, encoding string }{
	{"\xff\xfe\x00\x00", "utf-32"},
	{"\x00\x00\xfe\xff", "utf-32"},
	{"\xff\xfe", "utf-16"},
	{"\xfe\xff", "utf-16"},
}

// begin looks for a byte order mark.
func (p *plain) begin() {
	p.begun = true
	for _, m := range marks {
		if bytes.HasPrefix(p.buf, []byte(m.mark)) {
			p.fail(0, "the byte order mark % x of %s; convert it first (iconv -f %s -t utf-8)", m.mark, m.encoding, m.encoding)
			return
		}
	}
	if rest, ok := bytes.CutPrefix(p.buf, []byte("\ufeff")); ok {
		p.consume(len(p.buf) - len(rest))
	}
}

// consume drops bytes at the start of buf.
func (p *plain) consume(n int) {
	p.buf = p.buf[:copy(p.buf, p.buf[n:])]
	p.offset += int64(n)
}

// check moves what is whole from buf to ready. At the end of the file everything is.
func (p *plain) check(end bool) {
	p.out = p.out[:0]
	at := 0
	for at < len(p.buf) {
		good := at + validPrefix(p.buf[at:])
		p.out = append(p.out, p.buf[at:good]...)
		if at = good; at == len(p.buf) || !end && !utf8.FullRune(p.buf[at:]) {
			break
		}
		if p.strays++; p.strays > 1+(p.offset+int64(at))>>20 {
			p.fail(at, "not UTF-8: byte %#02x, broken character number %d; convert it first (iconv -f latin1 -t utf-8, if it is Latin-1)",
				p.buf[at], p.strays)
			return
		}
		p.out = append(p.out, "\ufffd"...)
		at++
		for i := 0; i < 2 && at < len(p.buf) && !utf8.RuneStart(p.buf[at]); i++ {
			at++
		}
	}
	p.consume(at)
	p.ready = p.out
}

// validPrefix returns the length of the part of b before its first broken character.
func validPrefix(b []byte) int {
	if utf8.Valid(b) {
		return len(b)
	}
	for i := 0; ; {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n < 2 {
			return i
		}
		i += n
	}
}
