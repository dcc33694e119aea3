package convert

import (
	"fmt"
	"io/fs"

	"nibble/build"
	"nibble/hf"
)

// Bytes that one weight of a strip takes in a worker: its code and the packed output in two orders, and an eighth of what
// it takes while it is solved, the stored source and float32.
const bytesPerWeight = 1 + 2 + 1

// What a run needs besides the strips: program, plan, stacks; and of that what is not in the heap.
const (
	baseMemory    = 48 << 20
	programMemory = 16 << 20
)

// What is no longer used may take a fifth of what is: a collector that is pressed harder than that does little else.
const garbageShare = 5

// Weights in the largest strip. A matrix of one strip is written at once, one of several a column at a time where its
// layout is column by column.
const maxStrip = 12 << 20

// memory chooses the size of a strip: small enough for every thread to have several, smaller still where --max-memory
// demands it.
func (p *Plan) memory() error {
	p.strip = min(maxStrip, p.Params/int64(8*max(p.Threads, 1)))
	if p.MaxMemory == 0 {
		return nil
	}
	widest, inner := 0, 0
	for i := range p.Items {
		widest = max(widest, p.Items[i].K)
		if p.Items[i].Role == hf.Down {
			inner = max(inner, p.Items[i].K)
		}
	}
	lane := int64(0)
	if p.Calibration != nil {
		lane = laneBytes(p.Source.Arch.Hidden, inner)
	}
	layer := p.solvedMemory()
	layer += layer/garbageShare + p.layerMemory()
	base, thread := baseMemory+layer, lane+int64(block*widest*bytesPerWeight)
	least := base + thread
	if p.Calibration != nil { // before that the text is read
		least = max(least, baseMemory+tokenizerMemory(p.Source))
	}
	if p.MaxMemory < least {
		calibration := ""
		if layer > 0 {
			calibration = fmt.Sprintf(", and %d MB for a layer or the head, its codes and the second moments of its widest input", layer/1e6)
		}
		return p.outOfMemory("one thread needs at least %d MB (%d rows of %d weights%s)", least/1e6+1, block, widest, calibration)
	}
	for p.Threads > 1 && base+int64(p.Threads)*thread > p.MaxMemory {
		p.Threads--
	}
	p.strip = min(p.strip, ((p.MaxMemory-base)/int64(p.Threads)-lane)/bytesPerWeight)
	return nil
}

// MemoryError says that a job needs more memory than it may use: no fault of its input.
type MemoryError struct{ problem string }

func (e *MemoryError) Error() string { return "convert: " + e.problem }

// outOfMemory states the most memory that may be used, who says so, and what is needed.
func (s *Settings) outOfMemory(format string, args ...any) error {
	allowed := fmt.Sprintf("--max-memory %d", s.MaxMemory)
	if s.MemoryOf != "" {
		allowed = fmt.Sprintf("%s %.1f MB", s.MemoryOf, float64(s.MaxMemory)/1e6)
	}
	return &MemoryError{allowed + ": " + fmt.Sprintf(format, args...)}
}

// tokenizerMemory is about what a model's tokenizer takes while it is read: its file twice, then that once and what is made of it.
func tokenizerMemory(b *build.Build) int64 {
	for _, name := range []string{"tokenizer.json", "tokenizer.model"} {
		if info, err := fs.Stat(b.FS, name); err == nil {
			return 2 * min(info.Size(), 1<<40)
		}
	}
	return 0
}

// laneBytes is about what a thread takes for the 128 tokens that it takes through a layer together, in float32.
func laneBytes(hidden, inner int) int64 { return 4 * 128 * (10*int64(hidden) + 4*int64(inner)) }

// layerMemory is about what calibration has in memory of the largest layer, outside the heap: its matrices in bfloat16, and those that take
// their places.
func (p *Plan) layerMemory() (n int64) {
	layers := map[int]int64{}
	for i := range p.Items {
		if it := &p.Items[i]; p.calibrates(it) && it.Tensor.Layer >= 0 {
			layers[it.Tensor.Layer] += 2 * int64(it.N) * int64(it.K)
			n = max(n, layers[it.Tensor.Layer])
		}
	}
	return n + n/2
}

// calibrates reports whether a matrix is solved by what it receives.
func (p *Plan) calibrates(it *Item) bool {
	return p.Calibration != nil && it.Spec != nil && p.learns(it)
}

// solvedMemory is about what calibration takes in the heap whatever the number of threads, of the layer, or the head, where that is most:
// all its codes, and of its widest input the second moment with the solver's forms of it, of those that k and v share with q two, and what drifts.
func (p *Plan) solvedMemory() (n int64) {
	type layer struct{ codes, wide, shared int64 }
	layers := map[int]layer{}
	form := int64(0)
	if p.Calibration != nil && p.full() {
		form = 8 + 8 + 8 + 4 + 4 // the sum, a copy, the factor in float64; two forms in float32
		if p.drifts() {
			form += 8 + 8 + 8 + 4 + 4 // with the sum and the drift of scaled inputs
		}
	}
	for i := range p.Items {
		it := &p.Items[i]
		if !p.calibrates(it) {
			continue
		}
		l := layers[it.Tensor.Layer]
		l.codes += it.codeBytes()
		if k := int64(it.K); it.Role == hf.K || it.Role == hf.QKV {
			l.shared = max(l.shared, k)
		} else {
			l.wide = max(l.wide, k)
		}
		layers[it.Tensor.Layer] = l
		n = max(n, l.codes+form*max(l.wide*l.wide, 2*l.shared*l.shared))
	}
	return n
}

// codeBytes is what the matrix takes while it is solved: codes, scales and zero points, and its blocks in a GGUF file.
func (it *Item) codeBytes() int64 {
	m := it.matrix(1)
	defer m.Recycle()
	row := len(m.Codes) + 4*len(m.Scales) + len(m.Zeros) + 4*len(m.Bias)
	if m.Blocks != nil {
		row += len(m.Blocks.Raw)
	}
	return int64(it.N) * int64(row)
}

// HeapLimit is how much of MaxMemory the heap may take, beside the program and what calibration has outside of it; 0: there is no limit.
func (p *Plan) HeapLimit() int64 { return heapLimit(p.MaxMemory, p.layerMemory()) }

// heapLimit is what most leaves beside the program and so many bytes outside the heap; 0 without most.
func heapLimit(most, outside int64) int64 {
	if most == 0 {
		return 0
	}
	return max(most-programMemory-outside, 1)
}
