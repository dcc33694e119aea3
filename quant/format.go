package quant

import (
	"fmt"

	"nibble/safetensors"
)

// Methods by which codes are found from the weights alone.
const (
	RTN    = "rtn"    // the group's extremes fix the grid, codes are rounded to nearest
	Shrink = "shrink" // eight shrunken min/max ranges about the middle, the cpu_int4 exporter's search
	Search = "search" // the best of many scales (and zeros) by squared error, then least squares
)

// Methods that need the inputs of every matrix. Under calibration Search weighs errors by the variance of their column.
const (
	AWQ  = "awq"  // inputs and weights are scaled against one another before a search
	GPTQ = "gptq" // errors are passed on to columns that are not quantized yet
	Both = "awq+gptq"
	Best = "best" // both, on weights that also make up for what the layers before have lost
)

// Methods are all methods, from the cheapest to the best.
var Methods = []string{RTN, Shrink, Search, AWQ, GPTQ, Both, Best}

// Calibrated reports whether the method needs inputs.
func (s Spec) Calibrated() bool { return s.Scales() || s.FeedsBack() }

// Scales reports whether the method scales inputs and weights against one another.
func (s Spec) Scales() bool { return s.Method == AWQ || s.Method == Both || s.Method == Best }

// FeedsBack reports whether the method passes errors on to columns that are not quantized yet.
func (s Spec) FeedsBack() bool { return s.Method == GPTQ || s.Method == Both || s.Method == Best }

// Plain returns the spec of the search by which a calibrated method finds the parameters of a group; any other spec as it is.
func (s Spec) Plain() Spec {
	if s.Calibrated() {
		s.Method = Search
	}
	return s
}

// Spec says how one linear layer is quantized.
type Spec struct {
	Bits   int
	Group  int // weights in a group; -1: the whole row
	Zero   Zero
	Method string
	Scale  safetensors.DType // type in which scales (and float zeros) are stored: BF16, F16 or F32
	Signed bool              // scales of a symmetric grid may be negative, so that either extreme can use the longer side
	Int8   bool              // the file asks for int8 activations per token (W8A8)
}

// GroupSize returns the number of weights in a group of a row of k.
func (s Spec) GroupSize(k int) int {
	if s.Group < 0 {
		return k
	}
	return s.Group
}

// String is the short form used in tables: "4-bit g128 symmetric".
func (s Spec) String() string {
	group := fmt.Sprintf("g%d", s.Group)
	if s.Group < 0 {
		group = "per row"
	}
	return fmt.Sprintf("%d-bit %s %s", s.Bits, group, s.Zero)
}

// Solver turns k-column rows of weights w [m.N, k] into the codes, scales and zeros of m.
// The weights are finite. d holds the weight of each column's squared error, or is nil for all equal.
type Solver func(m *Matrix, w, d []float32)

// TensorSpec is one tensor of a quantized linear; its name is the module's with Suffix behind it.
type TensorSpec struct {
	Suffix string // ".qweight"
	DType  safetensors.DType
	Shape  []int
}

// Module is one linear layer as a build has it: quantized when Spec is set, in float otherwise.
type Module struct {
	Name  string // as the file names it
	Fused string // the loader's name of the matrix it becomes a part of; "" if it stands alone
	N, K  int
	Head  bool   // the output head
	Embed bool   // the input embedding
	Class string // "Linear", or the class a class-name target does not match
	Spec  *Spec
}

// Options are what a format's config needs to know besides the modules.
type Options struct {
	CheckpointFormat string // GPTQ: "gptq" (v1 zero points) or "gptq_v2"
	Version          string // of this program
}

// Put stores p at byte off of the tensor with index tensor in the list that Tensors returned.
type Put func(tensor int, off int64, p []byte) error

// Format is one kind of quantized checkpoint: the tensors of a linear and the quantization_config beside them.
type Format interface {
	// Name is the format's name on the command line.
	Name() string
	// DefaultZero is the kind of zero point that a spec has unless asked otherwise.
	DefaultZero() Zero
	// Solver returns the solver for a spec, or an error that says what this format cannot hold and what it can.
	Solver(Spec) (Solver, error)
	// Tensors lists the tensors of a quantized linear [n, k]. The spec is one that Solver accepts, the shape one that
	// CheckShape accepts.
	Tensors(s Spec, n, k int) []TensorSpec
	// CheckShape names the rule that a matrix [n, k] breaks, whatever the loader; nil if the layout can hold it.
	CheckShape(s Spec, n, k int) error
	// Pack stores rows row0 to row0+m.N of a linear with n rows. row0 and, but for the last strip, m.N are multiples
	// of 32. Tensors that belong to no row are stored with the first strip.
	Pack(s Spec, o Options, m *Matrix, row0, n int, put Put) error
	// Config returns the JSON object for config.json's quantization_config.
	Config(modules []Module, o Options) ([]byte, error)
	// Sidecar names a second file that holds the same object, for older tools; "" for none.
	Sidecar() string
	// RowsSplit reports whether a loader can split a stored matrix by rows, so that fused projections may stay fused.
	RowsSplit() bool
}

// Source gives access to the tensors of a checkpoint.
type Source interface {
	// Lookup returns the tensor called name.
	Lookup(name string) (safetensors.Tensor, bool)
	// ReadAt fills p from byte off of the tensor called name.
	ReadAt(name string, p []byte, off int64) error
}

// Reader is the inverse of a Format, for one checkpoint.
type Reader interface {
	// Format names what the checkpoint is, for people: "GPTQ (v1 zero points)".
	Format() string
	// Module returns the module that the tensor belongs to as one of its quantized tensors, or "".
	Module(tensor string, src Source) string
	// Expect returns what the config says of a module: how it is quantized, or nil for float.
	Expect(module string) *Spec
	// Open finds the tensors of a quantized module and checks their types and shapes against one another.
	// An error is a *Defect.
	Open(module string, src Source) (Linear, error)
}

// Linear is one quantized matrix in a file.
type Linear interface {
	// Shape returns rows and columns.
	Shape() (n, k int)
	// Spec returns what the tensors themselves say.
	Spec() Spec
	// Tensors returns the names of the tensors it is made of.
	Tensors() []string
	// Rows reads rows row0 to row0+rows. row0 is a multiple of 32.
	Rows(row0, rows int) (*Matrix, error)
}

// Defect is a quantized module that cannot be what its tensors or its config say.
type Defect struct {
	Module string
	Tensor string // the offending tensor, if it is one
	Kind   string // one of the Kind constants
	Detail string
}

// Kinds of defect.
const (
	MissingTensor = "missing tensor"
	BadShape      = "bad shape"
	BadType       = "bad type"
	Unsupported   = "unsupported"
	BadData       = "bad data"
)

// Error names the tensor (or module), the kind and the rule.
func (d *Defect) Error() string {
	name := d.Tensor
	if name == "" {
		name = d.Module
	}
	return fmt.Sprintf("%s: %s: %s", name, d.Kind, d.Detail)
}
