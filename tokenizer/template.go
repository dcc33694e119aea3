package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
)

const maxTemplate = 1024 // ids

// template is what a post-processor makes of a text: ids before it and behind it.
type template struct{ before, after []int32 }

func (t template) apply(ids []int32) []int32 {
	out := make([]int32, 0, len(t.before)+len(ids)+len(t.after))
	out = append(out, t.before...)
	out = append(out, ids...)
	return append(out, t.after...)
}

// processorSpec is a post-processor as tokenizer.json writes it; every type has its own fields of these.
type processorSpec struct {
	Type          string            `json:"type"`
	Processors    []json.RawMessage `json:"processors"`
	Single        []templatePiece   `json:"single"`
	SpecialTokens map[string]struct {
		IDs []int64 `json:"ids"`
	} `json:"special_tokens"`
	Sep namedID `json:"sep"`
	Cls namedID `json:"cls"`
}

// templatePiece is one of a special token and the text.
type templatePiece struct {
	SpecialToken *struct {
		ID string `json:"id"`
	}
	Sequence *struct {
		ID string `json:"id"`
	}
}

// namedID is a pair of a token and its id.
type namedID struct{ id int64 }

// UnmarshalJSON reads ["</s>", 2].
func (n *namedID) UnmarshalJSON(raw []byte) error {
	var token string
	parts := []any{&token, &n.id}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	if len(parts) != 2 {
		return errors.New("not a pair of token and id")
	}
	return nil
}

// newTemplates appends the templates of a component, those of a Sequence one after the other.
func (t *Tokenizer) newTemplates(list []template, raw json.RawMessage, depth int) ([]template, error) {
	var spec processorSpec
	if absent, err := component(raw, "post-processor", depth, &spec); absent || err != nil {
		return list, err
	}
	switch spec.Type {
	case "ByteLevel": // concerns offsets alone
		return list, nil
	case "Sequence":
		var err error
		for _, raw := range spec.Processors {
			if list, err = t.newTemplates(list, raw, depth+1); err != nil {
				return nil, err
			}
		}
		return list, nil
	case "BertProcessing", "RobertaProcessing":
		before, err := t.checkIDs([]int64{spec.Cls.id})
		if err != nil {
			return nil, fmt.Errorf("post-processor %s: cls: %w", spec.Type, err)
		}
		after, err := t.checkIDs([]int64{spec.Sep.id})
		if err != nil {
			return nil, fmt.Errorf("post-processor %s: sep: %w", spec.Type, err)
		}
		return append(list, template{before, after}), nil
	case "TemplateProcessing":
		tpl, err := t.newTemplate(spec)
		if err != nil {
			return nil, fmt.Errorf("post-processor TemplateProcessing: %w", err)
		}
		return append(list, tpl), nil
	}
	return nil, fmt.Errorf("post-processor %q is not supported", clip(spec.Type))
}

func (t *Tokenizer) newTemplate(spec processorSpec) (tpl template, err error) {
	text := false
	for i, p := range spec.Single {
		switch {
		case p.SpecialToken != nil && p.Sequence == nil:
			token, ok := spec.SpecialTokens[p.SpecialToken.ID]
			if !ok {
				return tpl, fmt.Errorf("%q is not among the special tokens", clip(p.SpecialToken.ID))
			}
			ids, err := t.checkIDs(token.IDs)
			if err != nil {
				return tpl, err
			}
			if len(tpl.before)+len(tpl.after)+len(ids) > maxTemplate {
				return tpl, fmt.Errorf("more than %d special tokens around a text", maxTemplate)
			}
			if text {
				tpl.after = append(tpl.after, ids...)
			} else {
				tpl.before = append(tpl.before, ids...)
			}
		case p.Sequence != nil && p.SpecialToken == nil && p.Sequence.ID == "A" && !text:
			text = true
		default:
			return tpl, fmt.Errorf("piece %d is neither a special token nor the only Sequence A", i)
		}
	}
	if !text {
		return tpl, errors.New("no Sequence A")
	}
	return tpl, nil
}

// checkIDs refuses ids that are not the vocabulary's.
func (t *Tokenizer) checkIDs(ids []int64) ([]int32, error) {
	list := make([]int32, len(ids))
	for i, id := range ids {
		if id < 0 || id >= int64(t.Size()) {
			return nil, fmt.Errorf("id %d is not in 0..%d", id, t.Size()-1)
		}
		list[i] = int32(id)
	}
	return list, nil
}
