package calib

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"nibble/internal/parquet"
)

// parquet reads the rows of a Parquet file: a column of texts, or a list of messages.
func (r *rows) parquet(ctx context.Context, in io.ReaderAt, size int64) error {
	f, err := parquet.Open(in, size)
	if err != nil {
		return r.fail(-1, "%v", err)
	}
	var names []string
	for i := range f.Leaves {
		if name := f.Leaves[i].Path[0]; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if err := r.choose(names); err != nil {
		return err
	}
	var columns []*column
	for i := range f.Leaves {
		l := &f.Leaves[i]
		flat := len(l.Path) == 1 && l.MaxRep == 0
		inList := len(l.Path) > 2 && l.MaxRep == 1 && l.Strings
		if l.Path[0] != r.field || !flat && !inList || len(columns) > 0 && len(l.Path) != len(columns[0].leaf.Path) {
			continue // what a message has beside texts, such as lists of tool calls
		}
		x, err := f.Column(i)
		if err != nil {
			return r.fail(-1, "%v", err)
		}
		columns = append(columns, &column{Column: x, leaf: l})
	}
	switch {
	case len(columns) == 0:
		return r.fail(-1, "column %s holds neither texts nor a list of messages", r.field)
	case columns[0].leaf.MaxRep > 0 && !r.chat:
		return r.fail(-1, "column %s is a list: messages need the model's chat template", r.field)
	}
	for range f.Rows {
		r.number++
		if err := ctx.Err(); err != nil {
			return err
		}
		if columns[0].leaf.MaxRep > 0 {
			err = r.turns(columns)
		} else {
			err = r.value(columns[0])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// column is a column with one entry of look-ahead, if it repeats.
type column struct {
	*parquet.Column
	leaf  *parquet.Leaf
	ahead *parquet.Entry
}

// value takes the text of a row.
func (r *rows) value(c *column) error {
	e, err := c.Next()
	if err != nil {
		return r.fail(-1, "%v", err)
	}
	text, err := valid(e.Value)
	if err != nil {
		return r.fail(-1, "column %s: %v", r.field, err)
	}
	return r.to.text(text, true)
}

// turns takes the messages of a row.
func (r *rows) turns(columns []*column) error {
	var list []row
	for i, c := range columns {
		values, err := c.row()
		if err != nil {
			return r.fail(-1, "%v", err)
		}
		if i == 0 {
			list = make([]row, len(values))
		} else if len(values) != len(list) {
			return r.fail(-1, "column %.100q: %d messages, but %d in column %.100q", c.leaf.Name(), len(values), len(list), columns[0].leaf.Name())
		}
		for j, v := range values {
			if list[j] == nil {
				list[j] = row{}
			}
			if v != nil {
				list[j][c.leaf.Path[len(c.leaf.Path)-1]] = v
			}
		}
	}
	messages, err := conversation(list)
	if err != nil {
		return r.fail(-1, "column %s: %v", r.field, err)
	}
	return r.to.conversation(messages)
}

// row reads the elements of the next row, as JSON; nil for null.
func (c *column) row() (values []json.RawMessage, err error) {
	for begun := false; ; begun = true {
		if c.ahead == nil {
			e, err := c.Next()
			if errors.Is(err, io.EOF) && begun {
				return values, nil
			}
			if err != nil {
				return nil, err
			}
			c.ahead = &e
		}
		if begun && c.ahead.Rep == 0 {
			return values, nil
		}
		e := c.ahead
		c.ahead = nil
		if e.Def < c.leaf.ElementDef {
			continue
		}
		if e.Value == nil {
			values = append(values, nil)
			continue
		}
		text, err := valid(e.Value)
		if err != nil {
			return nil, fmt.Errorf("column %.100q: %w", c.leaf.Name(), err)
		}
		raw, err := json.Marshal(text)
		if err != nil {
			return nil, err
		}
		values = append(values, raw)
	}
}

// valid returns a value as text.
func valid(value []byte) (string, error) {
	if i := validPrefix(value); i < len(value) {
		return "", fmt.Errorf("byte %d of the text is %#02x, which is not UTF-8", i, value[i])
	}
	return string(value), nil
}
