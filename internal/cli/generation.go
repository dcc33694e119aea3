package cli

import (
	"context"
	"io"
	"slices"
	"strings"

	"nibble/runtime"
)

// generation is one text as it grows.
type generation struct {
	PromptTokens int     `json:"prompt_tokens"`
	Tokens       int     `json:"tokens"`
	Text         string  `json:"text"`
	Reason       string  `json:"stop_reason"`
	IDs          []int32 `json:"ids"`

	options *generateOptions
	runner  *runner
	ends    []int32
	out     io.Writer // nil: nothing streams
	held    string    // end of the text that may begin a stop string
}

// promptPiece is how much of a prompt runs before a look at Ctrl-C.
const promptPiece = 128

// run generates until something ends the text.
func (g *generation) run(ctx context.Context, prompt []int32, length int) error {
	session, err := g.runner.NewSession(length, g.options.kv)
	if err != nil {
		return err
	}
	sampler := runtime.NewSampler(g.options.sampling)
	stream := g.runner.tokenizer.Stream(true)
	for _, id := range prompt { // what stands before a token may decide its text
		if _, err := stream.Next(id); err != nil {
			return err
		}
	}
	history := slices.Clone(prompt)
	rest := prompt
	for g.Reason == "" {
		if ctx.Err() != nil {
			g.Reason = "interrupted"
			break
		}
		piece := rest[:min(len(rest), promptPiece)]
		rest = rest[len(piece):]
		var next int32
		err := g.runner.ForwardContext(ctx, []runtime.Input{{Session: session, Tokens: piece}}, func(_, _ int, logits []float32) {
			if len(rest) == 0 {
				next = sampler.Next(logits, history)
			}
		})
		if err != nil {
			return err
		}
		if len(rest) > 0 {
			continue
		}
		history = append(history, next)
		rest = history[len(history)-1:]
		text := ""
		if int(next) < g.runner.tokenizer.Size() { // the embedding may have more rows
			if text, err = stream.Next(next); err != nil {
				return err
			}
		}
		if err := g.add(next, text, session.Len() == length); err != nil {
			return err
		}
	}
	tail, err := stream.Flush()
	if err != nil {
		return err
	}
	if g.Reason == "stop" {
		return nil
	}
	ready, held, stopped := holdBack(g.held+tail, g.options.stops)
	if stopped {
		g.Reason = "stop"
	}
	return g.write(ready + held)
}

// add takes a token with its text and sees whether it is the last.
func (g *generation) add(id int32, text string, full bool) error {
	g.IDs = append(g.IDs, id)
	g.Tokens++
	switch {
	case slices.Contains(g.ends, id):
		g.Reason = "eos"
	case g.Tokens == g.options.tokens:
		g.Reason = "length"
	case full:
		g.Reason = "context"
	}
	ready, held, stopped := holdBack(g.held+text, g.options.stops)
	if g.held = held; stopped {
		g.Reason = "stop"
	}
	return g.write(ready)
}

// holdBack cuts text before the first of the stop strings, or else before the longest end that may begin one.
func holdBack(text string, stops []string) (ready, held string, stopped bool) {
	first, keep := -1, 0
	for _, s := range stops {
		if i := strings.Index(text, s); i >= 0 && (first < 0 || i < first) {
			first = i
		}
		for n := min(len(s)-1, len(text)); n > keep; n-- {
			if strings.HasSuffix(text, s[:n]) {
				keep = n
			}
		}
	}
	if first >= 0 {
		return text[:first], "", true
	}
	return text[:len(text)-keep], text[len(text)-keep:], false
}

func (g *generation) write(text string) error {
	g.Text += text
	if g.out == nil || text == "" {
		return nil
	}
	_, err := io.WriteString(g.out, text)
	return err
}
