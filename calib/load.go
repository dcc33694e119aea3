package calib

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// blockSize is the number of bytes that are cut into windows together, at least.
const blockSize = 64 << 10

// Load takes sequences from a file or a folder. If there is too little text, the error is a [*TooLittleError], and what
// there is comes with it.
func Load(ctx context.Context, l *Language, s Settings) (*Sequences, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	c := &chooser{ctx: ctx, language: l, settings: &s, front: l.front(), between: l.between()}
	switch {
	case s.Source == SelfSource:
		return nil, errors.New("calib: text of the model itself comes from Self")
	case s.Chat && l.Chat == nil:
		return nil, errNoTemplate
	case len(c.front) >= s.Length:
		return nil, fmt.Errorf("calib: samples of %d tokens: the tokenizer begins every text with %d of its own; take longer ones",
			s.Length, len(c.front))
	}
	files, err := list(s.Source)
	if err != nil {
		return nil, err
	}
	c.block = max(blockSize, 32*s.Length)
	to := &documents{size: c.block, emit: c.add}
	if s.Chat { // of a plain text every sequence is to be a turn
		to.size = max(3*s.Length, 64)
	}
	for _, path := range files {
		if err := c.read(path, to); err != nil {
			return nil, err
		}
	}
	if err := c.cut(true); err != nil {
		return nil, err
	}
	return c.result(to.count)
}

// result sorts what was kept.
func (c *chooser) result(count int) (*Sequences, error) {
	slices.SortFunc(c.kept, func(a, b window) int { return compareLots(a.lot, b.lot) })
	q := &Sequences{Source: filepath.Base(c.settings.Source), Documents: count, Short: c.short}
	used := map[int]bool{}
	for _, w := range c.kept {
		q.IDs = append(q.IDs, w.ids)
		for d := w.first; d <= w.last; d++ {
			used[d] = true
		}
	}
	q.Used = len(used)
	if c.failed > 0 {
		reason := strings.Join(strings.Fields(c.reason.Error()), " ")
		q.Notes = append(q.Notes, fmt.Sprintf("the chat template refused %s, the first with: %.300s", plural(c.failed, "conversation"), reason))
	}
	if c.full() {
		return q, nil
	}
	return q, &TooLittleError{Source: q.Source, Have: c.tokens, Wanted: c.settings.wanted(), Least: c.settings.least(),
		Documents: count, Short: c.short, Used: q.Used}
}
