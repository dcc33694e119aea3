package calib

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"nibble/runtime"
)

// How the model writes. The first tokens of a document are drawn among the likeliest at a high temperature, so that documents
// begin differently where the model has one favourite beginning; all others by the model's own probabilities.
const (
	openingTokens      = 4
	openingTopK        = 50
	openingTemperature = 2
)

const (
	mostBatch = 32       // sequences that run together
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
	front    []int32 // what the tokenizer puts in front of every text
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
	document int     // tokens of the last document, without front
	done     bool
}

func newWriter(m *runtime.Model, l *Language, s *Settings) (*writer, error) {
	w := &writer{model: m, settings: s, front: l.front()}
	for _, id := range l.Ends {
		if id >= 0 && int(id) < m.Width() {
			w.ends = append(w.ends, id)
		}
	}
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
	switch {
	case len(w.plain) == 0:
		return nil, errors.New("calib: every token of the tokenizer is a special one: it cannot write text")
	case len(w.front) >= s.Length:
		return nil, fmt.Errorf("calib: samples of %d tokens: the tokenizer begins every text with %d of its own; take longer ones",
			s.Length, len(w.front))
	}
	return w, nil
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
	d := &draft{session: s, sampler: runtime.NewSampler(runtime.Sampling{Seed: seed})}
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

// write adds the token that follows what has run.
func (w *writer) write(d *draft, logits []float32) {
	d.sampler.Temperature, d.sampler.TopK = 1, 0
	if d.document < openingTokens {
		d.sampler.Temperature, d.sampler.TopK = openingTemperature, openingTopK
	}
	w.logits = append(w.logits[:0], logits...)
	never := float32(math.Inf(-1))
	for _, id := range w.banned {
		w.logits[id] = never
	}
	if d.document < w.settings.least() {
		for _, id := range w.ends {
			w.logits[id] = never
		}
	}
	id := d.sampler.Next(w.logits, d.ids)
	length := w.settings.Length
	if !slices.Contains(w.ends, id) {
		d.ids, d.next = append(d.ids, id), []int32{id}
		d.document++
		d.done = len(d.ids) == length
		return
	}
	if !w.settings.Pack {
		d.done = true
		w.bound -= length - len(d.ids)
		return
	}
	d.next = []int32{id}
	if !slices.Equal(w.front, d.next) {
		d.next = append(d.next, w.front...)
	}
	d.document = 0
	d.next = d.next[:min(len(d.next), length-len(d.ids))]
	d.ids = append(d.ids, d.next...)
	d.done = len(d.ids) == length
}
