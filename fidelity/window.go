package fidelity

import "fmt"

// Window is the tokens [Start, End) of a text, of which those from First on (counted in the window) are scored.
type Window struct{ Start, End, First int }

// Windows cuts a text of n tokens. A stride of context, or 0, makes windows side by side, the last one full; a smaller one
// makes windows that overlap, up to the end of the text.
func Windows(n, context, stride int) ([]Window, error) {
	if stride == 0 {
		stride = context
	}
	switch {
	case context < 2:
		return nil, fmt.Errorf("fidelity: a context of %d: want at least 2 tokens", context)
	case stride < 1 || stride > context:
		return nil, fmt.Errorf("fidelity: a stride of %d: want 1 to the context, %d", stride, context)
	case n < context:
		return nil, fmt.Errorf("fidelity: the text has %d tokens, less than one window of %d; take a longer text or a shorter context",
			n, context)
	}
	list := []Window{{0, context, 1}}
	for start := stride; ; start += stride {
		seen := list[len(list)-1].End
		end := min(start+context, n)
		if end == seen || stride == context && end < start+context {
			return list, nil
		}
		list = append(list, Window{start, end, max(seen-start, 1)})
	}
}

// tokens returns the input of a window: its part of the text, the first tokens replaced by front.
func (w Window) tokens(dst, text, front []int32) []int32 {
	dst = append(dst[:0], text[w.Start:w.End]...)
	copy(dst, front)
	return dst
}
