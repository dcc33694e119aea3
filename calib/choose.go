package calib

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"slices"
	"strings"

	"nibble/tokenizer"
)

// lot decides which pieces of the text are taken: those with the smallest ones.
type lot struct {
	number       uint64
	unit, window int64
}

// draw makes the lot of a window. It depends on the seed and on the window's place alone.
func draw(seed uint64, unit, window int64) lot {
	return lot{scatter(scatter(scatter(seed)+uint64(unit)) + uint64(window)), unit, window}
}

// scatter is a step of SplitMix64.
func scatter(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func compareLots(a, b lot) int {
	return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.unit, b.unit), cmp.Compare(a.window, b.window))
}

// window is a sequence with its lot and the documents it has something of.
type window struct {
	lot
	ids         []int32
	first, last int
}

// chosen is a heap of windows, the largest lot on top.
type chosen []window

func (c chosen) Len() int           { return len(c) }
func (c chosen) Less(i, j int) bool { return compareLots(c[i].lot, c[j].lot) > 0 }
func (c chosen) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *chosen) Push(x any)        { *c = append(*c, x.(window)) }
func (c *chosen) Pop() any {
	old := *c
	last := old[len(old)-1]
	*c = old[:len(old)-1]
	return last
}

// chooser takes windows from the parts of documents. It keeps those with the smallest lots, as many as give the tokens
// that are wanted.
type chooser struct {
	ctx      context.Context
	language *Language
	settings *Settings
	front    []int32 // of every window
	between  []int32 // documents of a window
	block    int     // bytes of text that are cut into windows together, with Pack

	parts  []part // of the block
	bytes  int    // of parts
	units  int64  // blocks so far
	kept   chosen
	tokens int // of kept
	short  int // documents that gave no window
	failed int // conversations that the template refused
	reason error
}

// add takes the next part.
func (c *chooser) add(p part) error {
	c.parts = append(c.parts, p)
	c.bytes += p.size()
	if c.settings.Pack && c.bytes < c.block {
		return nil
	}
	// With the template every part is a turn of its own.
	return c.cut(!c.settings.Pack && (p.last || c.settings.Chat))
}

// cut makes windows of the parts so far. A rest that is no full window counts where the text ends.
func (c *chooser) cut(ends bool) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	parts, unit := c.parts, c.units
	most := c.mostWindows()
	c.parts, c.bytes, c.units = c.parts[:0], 0, c.units+1
	if len(parts) == 0 || c.hopeless(unit, most) {
		return nil
	}
	ids, starts, err := c.encode(parts)
	if err != nil {
		return err
	}
	front := c.front
	if c.settings.Chat { // the template says whether a conversation has it
		var ok bool
		if ids, ok = cutPrefix(ids, front); !ok {
			front = nil
		}
	}
	room := c.settings.Length - len(front)
	windows := int64(0)
	for at := 0; at < len(ids) && windows < most; at += room {
		end := min(at+room, len(ids))
		if end-at < room && (!ends || len(front)+end-at < c.settings.least()) {
			break
		}
		w := window{lot: draw(c.settings.Seed, unit, windows)}
		windows++
		if c.full() && compareLots(w.lot, c.kept[0].lot) > 0 {
			continue
		}
		w.ids = slices.Concat(front, ids[at:end])
		w.first, w.last = spanned(parts, starts, at, end)
		c.keep(w)
	}
	if windows == 0 && !c.settings.Pack && parts[0].first && len(ids) > 0 {
		c.short++
	}
	return nil
}

func cutPrefix(ids, front []int32) (rest []int32, ok bool) {
	if len(ids) < len(front) || !slices.Equal(ids[:len(front)], front) {
		return ids, false
	}
	return ids[len(front):], true
}

// spanned returns the documents of the tokens [at, end), where part i has those from starts[i] on.
func spanned(parts []part, starts []int, at, end int) (first, last int) {
	first, last = parts[0].document, parts[0].document
	for i, start := range starts {
		if start <= at {
			first = parts[i].document
		}
		if start < end {
			last = parts[i].document
		}
	}
	return first, last
}

// templateTokens is more than what templates put around a conversation.
const templateTokens = 4096

// mostWindows bounds the windows of the block before it is tokenized, taking every byte for a token. No more are made.
func (c *chooser) mostWindows() int64 {
	n := c.bytes
	for i := range c.parts {
		if c.settings.Chat {
			n += templateTokens
		} else if i > 0 {
			n += len(c.between)
		}
	}
	return int64(n/(c.settings.Length-len(c.front))) + 1
}

// full reports whether there are enough tokens, so that a window is kept instead of another.
func (c *chooser) full() bool { return c.tokens >= c.settings.wanted() }

// hopeless reports whether no window that a unit can have would be kept. Then it need not be tokenized.
func (c *chooser) hopeless(unit, most int64) bool {
	if !c.full() {
		return false
	}
	for w := range most {
		if compareLots(draw(c.settings.Seed, unit, w), c.kept[0].lot) < 0 {
			return false
		}
	}
	return true
}

// keep takes a window, and drops those that are no longer needed.
func (c *chooser) keep(w window) {
	heap.Push(&c.kept, w)
	c.tokens += len(w.ids)
	for c.tokens-len(c.kept[0].ids) >= c.settings.wanted() {
		c.tokens -= len(c.kept[0].ids)
		heap.Pop(&c.kept)
	}
}

// encode returns the tokens of parts, and where those of each part start.
func (c *chooser) encode(parts []part) (ids []int32, starts []int, err error) {
	for i := range parts {
		p := &parts[i]
		text := p.text
		if c.settings.Chat {
			messages := p.messages
			if messages == nil {
				messages = []tokenizer.Message{{Role: "user", Content: strings.TrimSpace(text)}}
			}
			if text, err = c.language.render(messages); err != nil {
				if c.failed++; c.failed == 1 {
					c.reason = err
				}
				text = ""
			}
		} else if i > 0 && p.first {
			ids = append(ids, c.between...)
		}
		starts = append(starts, len(ids))
		more, err := c.language.Tokenizer.Encode(text, false)
		if err != nil {
			return nil, nil, fmt.Errorf("calib: document %d of %s: %w", p.document+1, c.settings.Source, err)
		}
		ids = append(ids, more...)
	}
	return ids, starts, nil
}
