package fidelity

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"nibble/build"
	"nibble/internal/parallel"
	"nibble/quant"
	"nibble/runtime"
)

// Streams measures what many small changes of a model cost, each change alone, in one pass over its layers: the residual
// stream of the float model goes through every layer, and from a layer with a changed matrix on there is one more stream,
// which goes through the float layers that follow. At the end every stream is compared with that of the float model.
//
// Inputs of products are rounded to bfloat16 (A16).
type Streams struct {
	stages  *runtime.Stages
	ids     [][]int32
	hidden  int
	threads int
	base    []stream // behind the present layer, once Enter has returned
	before  []stream // the same before it
	changed [][]stream
	heads   map[int]*runtime.Stages // of the changes that have a head of their own
	entered int
	clean   bool // the matrices in memory are those of the float model
}

// stream is the residual stream [len(ids), hidden] of a sequence.
type stream []float32

// StreamBytes is the memory that so many changes take over so many tokens, each token being hidden numbers.
func StreamBytes(changes, tokens, hidden int) int64 {
	return 4 * int64(changes+2) * int64(tokens) * int64(hidden)
}

// NewStreams embeds the sequences: their residual streams, 4·hidden bytes a token, are in memory until Close.
func NewStreams(b *build.Build, ids [][]int32, threads int) (*Streams, error) {
	s := &Streams{ids: ids, hidden: b.Arch.Hidden, threads: max(threads, 1)}
	var err error
	if s.stages, err = runtime.OpenStages(b, runtime.A16, s.threads); err != nil {
		return nil, err
	}
	if s.base, err = s.embed(s.stages); err != nil {
		s.stages.Close()
		return nil, err
	}
	return s, nil
}

// Close gives the weights back.
func (s *Streams) Close() {
	for _, x := range s.heads {
		x.Close()
	}
	s.stages.Close()
}

// ChangeHead adds the stream of a model that has another head than the float model and, with embeds, another embedding, and is like it
// everywhere else. It takes part before the first layer.
func (s *Streams) ChangeHead(b *build.Build, embeds bool) error {
	x, err := runtime.OpenStages(b, runtime.A16, s.threads)
	if err != nil {
		return err
	}
	if s.heads == nil {
		s.heads = map[int]*runtime.Stages{}
	}
	s.heads[len(s.changed)] = x
	var to []stream // nil: the float model's
	if embeds {
		to, err = s.embed(x)
	}
	s.changed = append(s.changed, to)
	return err
}

// ChangeEmbedding adds the stream of a model that has another embedding than the float model, and is like it everywhere else. It takes part
// before the first layer.
func (s *Streams) ChangeEmbedding(b *build.Build) error {
	x, err := runtime.OpenStages(b, runtime.A16, s.threads)
	if err != nil {
		return err
	}
	defer x.Close()
	to, err := s.embed(x)
	s.changed = append(s.changed, to)
	return err
}

// embed returns the residual streams before the first layer.
func (s *Streams) embed(x *runtime.Stages) ([]stream, error) {
	to := make([]stream, len(s.ids))
	return to, x.Embed(s.ids, func(i int, h []float32) error { to[i] = h; return nil })
}

// parallel runs f for the numbers below n on all threads, each with a lane; see [parallel.Each].
func (s *Streams) parallel(ctx context.Context, n int, f func(x *runtime.Lane, i int) error) error {
	return parallel.With(ctx, n, s.threads, s.stages.Lane, f)
}

// fork returns what the present layer makes of the stream before it.
func (s *Streams) fork(ctx context.Context) ([]stream, error) {
	to := make([]stream, len(s.ids))
	return to, s.parallel(ctx, len(to), func(x *runtime.Lane, i int) error {
		to[i] = append(stream(nil), s.before[i]...)
		x.Through(to[i])
		return nil
	})
}

// Enter takes all streams through the float layer.
func (s *Streams) Enter(ctx context.Context, layer int) (err error) {
	if err := s.stages.Enter(layer); err != nil {
		return err
	}
	s.entered, s.clean, s.before = layer, true, s.base
	if s.base, err = s.fork(ctx); err != nil {
		return err
	}
	return s.parallel(ctx, len(s.changed)*len(s.ids), func(x *runtime.Lane, i int) error {
		if to := s.changed[i/len(s.ids)]; to != nil {
			x.Through(to[i%len(s.ids)])
		}
		return nil
	})
}

// Change adds the stream of a model in which these matrices of the present layer, and no others, are quantized.
func (s *Streams) Change(ctx context.Context, linears map[string]quant.Linear) error {
	if !s.clean {
		if err := s.stages.Enter(s.entered); err != nil {
			return err
		}
	}
	s.clean = false
	if err := s.stages.Replace(linears); err != nil {
		return err
	}
	to, err := s.fork(ctx)
	s.changed = append(s.changed, to)
	return err
}

// headRows is the number of positions whose logits are compared at a time: a thread has that many distributions in memory.
const headRows = 16

// HeadBytes is the memory that Divergences takes for a vocabulary.
func HeadBytes(threads, vocab int) int64 {
	return int64(threads) * int64(vocab) * (headRows*(4+4+4+8) + 8)
}

// Divergences returns the mean KL divergence of every change, in the order in which they came: KL(float‖changed) of the
// next-token distributions at all positions. It takes part behind the last layer. progress, which may be nil, is told how many
// pieces of the text are done; its calls do not overlap.
func (s *Streams) Divergences(ctx context.Context, progress func(done, all int)) ([]float64, error) {
	if err := s.stages.EnterHead(); err != nil {
		return nil, err
	}
	for _, x := range s.heads {
		if err := x.EnterHead(); err != nil {
			return nil, err
		}
	}
	type piece struct{ sequence, at, rows int }
	var pieces []piece
	positions := 0
	for i, ids := range s.ids {
		for at := 0; at < len(ids); at += headRows {
			pieces = append(pieces, piece{i, at, min(headRows, len(ids)-at)})
		}
		positions += len(ids)
	}
	if positions == 0 {
		return nil, errors.New("fidelity: no positions to compare")
	}
	sums := make([][]float64, len(pieces)) // of every change
	var mu sync.Mutex
	done := 0
	err := s.parallel(ctx, len(pieces), func(x *runtime.Lane, i int) error {
		p := pieces[i]
		lo, hi := p.at*s.hidden, (p.at+p.rows)*s.hidden
		c, err := newComparer(x, s.stages.Width(), s.base[p.sequence][lo:hi], p.rows)
		if err != nil {
			return err
		}
		sums[i] = make([]float64, len(s.changed))
		for j, to := range s.changed {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if to == nil {
				to = s.base
			}
			if c.lane = x; s.heads[j] != nil {
				c.lane = s.heads[j].Lane()
			}
			if sums[i][j], err = c.divergence(to[p.sequence][lo:hi]); err != nil {
				return fmt.Errorf("change %d: %w", j, err)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if done++; progress != nil {
			progress(done, len(pieces))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	means := make([]float64, len(s.changed))
	for _, list := range sums { // in the order of the text
		for j, v := range list {
			means[j] += v
		}
	}
	for j := range means {
		means[j] /= float64(positions)
	}
	return means, nil
}

// comparer holds the distributions of some positions, with which others are compared.
type comparer struct {
	lane      *runtime.Lane
	width     int
	reference []distribution
	logits    []float32 // [rows, width] of what is compared
	scratch   []float64 // [width]
}

func newComparer(x *runtime.Lane, width int, h []float32, rows int) (*comparer, error) {
	c := &comparer{lane: x, width: width, reference: make([]distribution, rows), logits: make([]float32, rows*width), scratch: make([]float64, width)}
	own := make([]float32, rows*width)
	if err := x.Logits(own, h); err != nil {
		return nil, err
	}
	powers := make([]float64, rows*width)
	for r := range c.reference {
		var err error
		if c.reference[r], err = normalize(own[r*width:(r+1)*width], powers[r*width:(r+1)*width]); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// divergence returns the sum over the positions.
func (c *comparer) divergence(h []float32) (sum float64, err error) {
	if err := c.lane.Logits(c.logits, h); err != nil {
		return 0, err
	}
	for r := range c.reference {
		q, err := normalize(c.logits[r*c.width:(r+1)*c.width], c.scratch)
		if err != nil {
			return 0, err
		}
		sum += c.reference[r].divergence(&q)
	}
	return sum, nil
}
