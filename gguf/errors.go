package gguf

import (
	"errors"
	"fmt"
	"strings"
)

// ErrCorrupt is what a [*FormatError] unwraps to if the bytes break a rule of the format.
var ErrCorrupt = errors.New("gguf: corrupt file")

// ErrUnsupported is what a [*FormatError] unwraps to if the bytes may be right, but this package cannot read them.
var ErrUnsupported = errors.New("gguf: unsupported file")

// Kind is the rule that a file breaks, in words.
type Kind string

// What is not supported.
const (
	UnsupportedVersion Kind = "unsupported version"
	UnknownType        Kind = "unknown tensor type"
	HeaderTooLarge     Kind = "header too large"
)

// The rules of a single file.
const (
	BadMagic         Kind = "not a GGUF file"
	Truncated        Kind = "the file ends too early"
	InvalidValueType Kind = "invalid value type"
	InvalidBool      Kind = "invalid bool"
	TooDeep          Kind = "arrays nested too deep"
	InvalidKey       Kind = "invalid key"
	InvalidName      Kind = "invalid tensor name"
	Duplicate        Kind = "occurs twice"
	InvalidAlignment Kind = "invalid alignment"
	InvalidShape     Kind = "invalid shape"
	InvalidOffset    Kind = "invalid offset"
	Overlap          Kind = "tensors overlap"
)

// The rules of parts.
const (
	InvalidSplit Kind = "invalid split"
	MissingPart  Kind = "part is missing"
)

// FormatError reports bytes that break a rule. It unwraps to [ErrCorrupt] or [ErrUnsupported].
type FormatError struct {
	File   string // as it was opened; "input" if it came from New
	Name   string // of the tensor or the metadata entry; "" if the rule is about neither
	Offset int64  // byte of the file at which the breach was seen
	Kind   Kind
	Reason string // what was found and what was expected
}

// Error names the file, the tensor or entry, the offset and the rule. It cuts what is too long to read.
func (e *FormatError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "gguf: %s: ", e.File)
	if e.Name != "" {
		fmt.Fprintf(&b, "%.200q: ", e.Name)
	}
	fmt.Fprintf(&b, "byte %d: %s: %.300s", e.Offset, e.Kind, e.Reason)
	return b.String()
}

// Unwrap returns [ErrCorrupt] or [ErrUnsupported].
func (e *FormatError) Unwrap() error {
	switch e.Kind {
	case UnsupportedVersion, UnknownType, HeaderTooLarge:
		return ErrUnsupported
	}
	return ErrCorrupt
}
