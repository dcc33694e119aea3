package calib

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"nibble/runtime"
	"nibble/tokenizer"
)

// How the model writes. The first tokens of a document are drawn among the likeliest at a high temperature, so that documents
// begin differently where the model has one favourite beginning; all others by the model's own probabilities.
const (
	openingTokens      = 4
	openingTopK        = 50
	openingTemperature = 2
)

const (
	mostBatch = 32      // sequences that run together
	mostCache = 1 << 30 // bytes of their caches, unless one alone takes more
)

// Self takes sequences that the model writes itself. They depend on the settings and on the model's logits, not on how
// many run together. progress, which may be nil, is told how many tokens there are of those wanted.
func Self(ctx context.Context, m *runtime.Model, l *Language, s Settings, progress func(done, wanted int)) (*Sequences, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	w, err := newWriter(m, l, &s)
	if err != nil {
		return nil, err
	}
	if err := w.run(ctx, batch(m, &s), progress); err != nil {
		return nil, err
	}
	q := &Sequences{Source: "text that the model wrote itself"}
	for _, d := range w.started {
		q.IDs = append(q.IDs, d.ids)
	}
	q.Notes = append(q.Notes, fmt.Sprintf("seed %d; the first %d tokens of a document at temperature %d among the %d likeliest, the others at temperature 1 among all",
		s.Seed, openingTokens, openingTemperature, openingTopK))
	return q, nil
}

// batch is the number of sequences that run together.
func batch(m *runtime.Model, s *Settings) int {
	fit := mostCache / max(m.CacheBytes(s.Length, runtime.KVBF16), 1)
	return int(max(min(fit, mostBatch, int64(s.Samples)), 1))
}

// writer writes sequences.
type writer struct {
	model    *runtime.Model
	settings *Settings
	front    []int32 // what begins a document in use
	answer   []int32 // with a chat template, what stands between a question and its answer
	ends     []int32 // tokens that end a document
	banned   []int32 // tokens that are never written, without the ends
	plain    []int32 // tokens of text
	started  []*draft
	bound    int // of the tokens in all started sequences
	logits   []float32
}

// draft is a sequence that is being written.
type draft struct {
	session  *runtime.Session
	sampler  *runtime.Sampler
	ids      []int32
	next     []int32 // to run, then a token follows
	document int     // tokens written of the last document
	asks     bool    // they are a question, and an answer will follow
	done     bool
}

func newWriter(m *runtime.Model, l *Language, s *Settings) (*writer, error) {
	if l.Tokenizer.Size() > m.Width() {
		return nil, fmt.Errorf("calib: the tokenizer has %d tokens, the model %d: they do not belong together", l.Tokenizer.Size(), m.Width())
	}
	w := &writer{model: m, settings: s, front: l.front(), ends: l.ends()}
	for id := range int32(m.Width()) {
		_, known := l.Tokenizer.Token(id)
		switch {
		case slices.Contains(w.ends, id):
		case !known || l.Tokenizer.Special(id):
			w.banned = append(w.banned, id)
		default:
			w.plain = append(w.plain, id)
		}
	}
	if len(w.plain) == 0 {
		return nil, errors.New("calib: every token of the tokenizer is a special one: it cannot write text")
	}
	if s.Chat {
		if err := w.converse(l); err != nil {
			return nil, err
		}
	}
	if n := len(w.front) + len(w.answer); n >= s.Length {
		return nil, fmt.Errorf("calib: samples of %d tokens: %d stand around every text; take longer ones", s.Length, n)
	}
	return w, nil
}

// converse finds what the chat template puts before a question and between it and the answer.
func (w *writer) converse(l *Language) error {
	if l.Chat == nil {
		return errNoTemplate
	}
	const question = "nibble-question" // which no template has by itself
	text, err := l.render([]tokenizer.Message{{Role: "user", Content: question}})
	if err != nil {
		return fmt.Errorf("calib: %w", err)
	}
	before, behind, ok := strings.Cut(text, question)
	if !ok {
		return errors.New("calib: the chat template does not write a question as it is; let the model write without the template")
	}
	if w.front, err = l.Tokenizer.Encode(before, false); err != nil {
		return fmt.Errorf("calib: chat template: %w", err)
	}
	if w.answer, err = l.Tokenizer.Encode(behind, false); err != nil {
		return fmt.Errorf("calib: chat template: %w", err)
	}
	return nil
}

// run writes sequences, so many at a time, until there are enough tokens.
func (w *writer) run(ctx context.Context, batch int, progress func(done, wanted int)) error {
	sessions := make([]*runtime.Session, batch)
	for i := range sessions {
		var err error
		if sessions[i], err = w.model.NewSession(w.settings.Length, runtime.KVBF16); err != nil {
			return err
		}
	}
	running := make([]*draft, 0, batch)
	inputs := make([]runtime.Input, 0, batch)
	for {
		running = slices.DeleteFunc(running, func(d *draft) bool {
			if d.done {
				sessions = append(sessions, d.session)
			}
			return d.done
		})
		// bound counts those that run as if they became as long as they can: another is started only if it is needed.
		for len(running) < batch && w.bound < w.settings.wanted() {
			last := len(sessions) - 1
			running = append(running, w.start(sessions[last]))
			sessions = sessions[:last]
		}
		if len(running) == 0 {
			return nil
		}
		inputs = inputs[:0]
		for _, d := range running {
			inputs = append(inputs, runtime.Input{Session: d.session, Tokens: d.next})
			d.next = nil
		}
		err := w.model.ForwardContext(ctx, inputs, func(i, _ int, logits []float32) { w.write(running[i], logits) })
		if err != nil {
			return err
		}
		if progress != nil {
			done := 0
			for _, d := range w.started {
				done += len(d.ids)
			}
			progress(min(done, w.settings.wanted()), w.settings.wanted())
		}
	}
}

// start begins a sequence. Its draws depend on the seed and its number.
func (w *writer) start(s *runtime.Session) *draft {
	s.Reset()
	seed := scatter(scatter(w.settings.Seed) + uint64(len(w.started)))
	d := &draft{session: s, sampler: runtime.NewSampler(runtime.Sampling{Seed: seed}), asks: w.settings.Chat}
	switch {
	case len(w.front) > 0:
		d.ids = slices.Clone(w.front)
		d.next = d.ids
	case len(w.ends) > 0:
		d.next = w.ends[:1] // what the model has seen before every document, but does not get in use
	default:
		d.ids = []int32{w.plain[scatter(seed)%uint64(len(w.plain))]}
		d.next, d.document = d.ids, 1
	}
	w.started = append(w.started, d)
	w.bound += w.settings.Length
	return d
}

// write adds the token that follows what has run, and what follows that token in any case.
func (w *writer) write(d *draft, logits []float32) {
	id := w.draw(d, logits)
	ends := slices.Contains(w.ends, id)
	switch {
	case !ends:
		d.document++
		if w.add(d, id); d.asks && d.document == w.settings.Length/4 {
			d.asks = false
			w.add(d, w.answer...)
		}
	case d.asks: // the template has an end of its own
		d.asks = false
		w.add(d, w.answer...)
	case w.settings.Pack:
		d.document, d.asks = 0, w.settings.Chat
		if w.add(d, id); len(w.front) != 1 || w.front[0] != id {
			w.add(d, w.front...)
		}
	default:
		d.done = true
		w.bound -= w.settings.Length - len(d.ids)
	}
}

// draw chooses a token.
func (w *writer) draw(d *draft, logits []float32) int32 {
	least := w.settings.least()
	if d.asks {
		least = openingTokens
	}
	d.sampler.Temperature, d.sampler.TopK = 1, 0
	if d.document < openingTokens {
		d.sampler.Temperature, d.sampler.TopK = openingTemperature, openingTopK
	}
	w.logits = append(w.logits[:0], logits...)
	never := float32(math.Inf(-1))
	for _, id := range w.banned {
		w.logits[id] = never
	}
	if d.document < least {
		for _, id := range w.ends {
			w.logits[id] = never
		}
	}
	return d.sampler.Next(w.logits, d.ids)
}

// add appends tokens that are to run next, as far as there is room.
func (w *writer) add(d *draft, ids ...int32) {
	ids = ids[:min(len(ids), w.settings.Length-len(d.ids))]
	d.ids = append(d.ids, ids...)
	d.next = append(d.next, ids...)
	d.done = len(d.ids) == w.settings.Length
}
