package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/ardanlabs/jinja"
)

const maxValueDepth = 64 // of lists and objects in a variable of a template

// toValue makes a value for templates. The keys of a Go map are sorted.
func toValue(v any, depth int) (jinja.Value, error) {
	if depth > maxValueDepth {
		return jinja.Undefined(), fmt.Errorf("more than %d levels", maxValueDepth)
	}
	switch v := v.(type) {
	case nil:
		return jinja.None(), nil
	case bool:
		return jinja.NewBool(v), nil
	case int:
		return jinja.NewInt(int64(v)), nil
	case int64:
		return jinja.NewInt(v), nil
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return jinja.NewInt(int64(v)), nil // encoding/json makes floats of all numbers
		}
		return jinja.NewFloat(v), nil
	case string:
		return jinja.NewString(v), nil
	case json.RawMessage:
		return orderedValue(v)
	case []any:
		items := make([]jinja.Value, len(v))
		for i, e := range v {
			var err error
			if items[i], err = toValue(e, depth+1); err != nil {
				return jinja.Undefined(), err
			}
		}
		return jinja.NewList(items), nil
	case map[string]any:
		dict := jinja.NewDict()
		for _, key := range slices.Sorted(maps.Keys(v)) {
			e, err := toValue(v[key], depth+1)
			if err != nil {
				return jinja.Undefined(), err
			}
			dict.AsDict().Set(key, e)
		}
		return dict, nil
	}
	return jinja.Undefined(), fmt.Errorf("a value of type %T is not supported", v)
}

// orderedValue reads JSON, the keys in their order.
func orderedValue(raw []byte) (jinja.Value, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := readValue(d, 0)
	if err == nil && d.More() {
		err = errors.New("more than one JSON value")
	}
	return v, err
}

func readValue(d *json.Decoder, depth int) (jinja.Value, error) {
	token, err := d.Token()
	if err != nil {
		return jinja.Undefined(), err
	}
	number, ok := token.(json.Number)
	if ok {
		if i, err := number.Int64(); err == nil {
			return jinja.NewInt(i), nil
		}
		f, err := number.Float64()
		return jinja.NewFloat(f), err
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return toValue(token, depth)
	}
	if depth > maxValueDepth {
		return jinja.Undefined(), fmt.Errorf("more than %d levels", maxValueDepth)
	}
	list, dict := jinja.NewList(nil), jinja.NewDict()
	for d.More() {
		var key string
		if delim == '{' {
			token, err := d.Token()
			if err != nil {
				return jinja.Undefined(), err
			}
			key = token.(string) // the decoder sees to it
		}
		v, err := readValue(d, depth+1)
		if err != nil {
			return jinja.Undefined(), err
		}
		if delim == '{' {
			dict.AsDict().Set(key, v)
		} else {
			list.AsList().Append(v)
		}
	}
	if _, err := d.Token(); err != nil { // the closing bracket
		return jinja.Undefined(), err
	}
	if delim == '{' {
		return dict, nil
	}
	return list, nil
}
