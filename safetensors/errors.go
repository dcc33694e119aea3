package safetensors

import (
	"errors"
	"fmt"
	"strings"
)

// ErrCorrupt is what every [*FormatError] unwraps to: the bytes break a rule of the format.
var ErrCorrupt = errors.New("safetensors: corrupt file")

// Kind is the rule that a file breaks, in words.
type Kind string

// The rules of a single file, by the names that the reference implementation has for them.
const (
	HeaderTooSmall               Kind = "file too short for a header length"
	HeaderTooLarge               Kind = "header too large"
	InvalidHeaderLength          Kind = "header longer than the file"
	InvalidHeader                Kind = "header is not UTF-8"
	InvalidHeaderDeserialization Kind = "invalid header"
	InvalidOffset                Kind = "invalid offsets"
	TensorInvalidInfo            Kind = "offsets do not fit the shape"
	ValidationOverflow           Kind = "size overflows"
	MisalignedSlice              Kind = "not a whole number of bytes"
	MetadataIncompleteBuffer     Kind = "tensors do not cover the data"
)

// The rules of an index and its shards.
const (
	IndexTooLarge   Kind = "index too large"
	InvalidIndex    Kind = "invalid index"
	IndexEmpty      Kind = "index lists no tensors"
	IndexDuplicate  Kind = "duplicate key in the index"
	InvalidShard    Kind = "invalid shard name"
	MissingShard    Kind = "shard is missing"
	MissingTensor   Kind = "tensor is not in its shard"
	UnlistedTensor  Kind = "tensor is not in the index"
	MisplacedTensor Kind = "tensor is in a shard that the index does not name for it"
)

// FormatError reports bytes that break a rule. It unwraps to [ErrCorrupt].
type FormatError struct {
	File   string // as it was opened; "input" if it came from New
	Tensor string // "" if the rule is not about one tensor
	Offset int64  // byte of the file at which the breach was seen
	Kind   Kind
	Reason string // what was found and what was expected
}

// Error names the file, the tensor, the offset and the rule. It cuts what is too long to read: a name or a shape can fill
// a whole header.
func (e *FormatError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "safetensors: %s: ", e.File)
	if e.Tensor != "" {
		fmt.Fprintf(&b, "tensor %.200q: ", e.Tensor)
	}
	fmt.Fprintf(&b, "byte %d: %s: %.300s", e.Offset, e.Kind, e.Reason)
	return b.String()
}

// Unwrap returns [ErrCorrupt].
func (e *FormatError) Unwrap() error { return ErrCorrupt }
