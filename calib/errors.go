package calib

import (
	"context"
	"errors"
	"fmt"
)

// ErrSource is what every [*SourceError] unwraps to: a file that cannot be read as text.
var ErrSource = errors.New("calib: not a text")

// SourceError says what is wrong with a file, and where.
type SourceError struct {
	File   string
	Row    int64 // of a table, from 1; 0: not about a row
	Offset int64 // byte of the unpacked file; −1: not about a place
	Reason string
}

// Error is one line.
func (e *SourceError) Error() string {
	s := "calib: " + e.File
	if e.Row > 0 {
		s += fmt.Sprintf(": row %d", e.Row)
	}
	if e.Offset >= 0 {
		s += fmt.Sprintf(": byte %d", e.Offset)
	}
	return fmt.Sprintf("%s: %.500s", s, e.Reason)
}

// Unwrap returns ErrSource.
func (e *SourceError) Unwrap() error { return ErrSource }

// stopped reports whether an error says nothing about the file, but that reading it was no longer wanted.
func stopped(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
