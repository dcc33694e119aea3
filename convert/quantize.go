package convert

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"nibble/internal/stage"
	"nibble/internal/version"
	"nibble/quant"
	"nibble/safetensors"
)

// Run is one execution of a plan.
type Run struct {
	*Plan
	Out      string
	Mode     stage.Mode
	Progress Progress // may be nil

	dir     *stage.Dir
	out     *safetensors.Writer
	journal *journal
	done    map[string]entry // finished before this run
	noise   map[string]*quant.Noise
	sums    map[string]string // SHA-256 of the source's files
	Resumed int               // jobs that were found finished
}

// ErrInterrupted is the cause when the context ended. What is finished stays for a resume.
var ErrInterrupted = errors.New("interrupted")

// Quantize runs the plan and returns the report of the build. After an error other than ErrInterrupted nothing is left
// of the output.
func (r *Run) Quantize(ctx context.Context, check func(dir string) error) (*Report, error) {
	if err := r.open(); err != nil {
		return nil, err
	}
	report, err := r.quantize(ctx, check)
	return report, finish(ctx, r.dir, err)
}

// finish ends a run: the folder was committed, is left for a resume, or goes.
func finish(ctx context.Context, dir *stage.Dir, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		dir.Leave()
		return fmt.Errorf("%w; --resume continues from %s", ErrInterrupted, dir.Path())
	}
	dir.Abort()
	return err
}

func (r *Run) quantize(ctx context.Context, check func(dir string) error) (*Report, error) {
	defer r.out.Close()
	defer r.journal.close()
	r.noise, r.sums = map[string]*quant.Noise{}, map[string]string{}
	if err := run(ctx, r.jobs(), r.Threads, r.Progress); err != nil {
		return nil, err
	}
	report := r.report(r.noise, r.sums)
	report.Time = now()
	if err := r.writeOthers(report); err != nil {
		return nil, err
	}
	if err := errors.Join(r.out.Close(), r.journal.close(), os.Remove(filepath.Join(r.dir.Path(), journalName))); err != nil {
		return nil, err
	}
	if check != nil {
		if err := check(r.dir.Path()); err != nil {
			return nil, err
		}
	}
	return report, r.dir.Commit()
}

// open takes the unfinished folder, new or as an earlier run left it.
func (r *Run) open() error {
	if err := room(r.Out, r.Bytes()); err != nil && r.Mode != stage.Resume {
		return err
	}
	dir, resumed, err := stage.Open(r.Out, r.Mode)
	if err != nil {
		return err
	}
	if r.dir = dir; resumed {
		if err = r.resume(); !errors.Is(err, fs.ErrNotExist) {
			if err != nil {
				dir.Leave()
			}
			return err
		}
		// Killed before the journal was there: nothing is lost by starting again.
		if err := dir.Abort(); err != nil {
			return err
		}
		if r.dir, _, err = stage.Open(r.Out, stage.Fresh); err != nil {
			return err
		}
	}
	if err := r.create(); err != nil {
		r.dir.Abort()
		return err
	}
	return nil
}

func (r *Run) create() (err error) {
	if r.out, err = safetensors.Create(r.dir.Path(), r.Weights); err != nil {
		return err
	}
	digest, err := r.digest()
	if err != nil {
		return err
	}
	r.journal, err = createJournal(filepath.Join(r.dir.Path(), journalName), digest)
	return err
}

func (r *Run) resume() error {
	digest, err := r.digest()
	if err != nil {
		return err
	}
	if r.journal, r.done, err = resumeJournal(filepath.Join(r.dir.Path(), journalName), digest); err != nil {
		return err
	}
	if r.out, err = safetensors.Reopen(r.dir.Path(), r.Weights); err != nil {
		r.journal.close()
		return err
	}
	return nil
}

// room reports a file system that is too small before anything is written.
func room(out string, need int64) error {
	free, err := stage.Free(filepath.Dir(out))
	if err != nil {
		return err
	}
	if free < need {
		return fmt.Errorf("no space for %s: it takes %d bytes, %d are free", out, need, free)
	}
	return nil
}

// digest covers everything that decides the output: a journal written under another digest is of no use.
func (r *Run) digest() (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "nibble %s\n%s\n", version.Number(), r.Config)
	for _, f := range r.Weights.Files {
		fmt.Fprintf(h, "%s %x\n", f.Name, sha256.Sum256(f.Header))
	}
	for i := range r.Items {
		it := &r.Items[i]
		fmt.Fprintf(h, "%s %s %d", it.Name, it.Tensor.Source, it.Tensor.Offset)
		if it.Spec != nil {
			fmt.Fprintf(h, " %+v", *it.Spec)
		}
		fmt.Fprintln(h)
	}
	for _, f := range r.Source.Set.Files() {
		info, err := fs.Stat(r.Source.FS, f.Name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d %d\n", f.Name, info.Size(), info.ModTime().UnixNano())
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// jobs lists the work that is not done yet: the source's files to hash, which take longest, then the items.
func (r *Run) jobs() []*job {
	var jobs []*job
	for _, f := range r.Source.Set.Files() {
		name := "file " + f.Name
		if e, ok := r.done[name]; ok && e.SHA256 != "" {
			r.sums[f.Name] = e.SHA256
			r.Resumed++
			continue
		}
		jobs = append(jobs, &job{name: name, rows: 1, strip: 1, run: func(*worker, int, int) error {
			sum, err := hashFile(r.Source.FS, f.Name)
			if err != nil {
				return err
			}
			if err := r.journal.line(entry{Job: name, SHA256: sum}); err != nil {
				return err
			}
			r.journal.mu.Lock()
			r.sums[f.Name] = sum
			r.journal.mu.Unlock()
			return nil
		}})
	}
	for i := range r.Items {
		it := &r.Items[i]
		if r.finished(it) {
			r.Resumed++
			continue
		}
		switch {
		case it.Spec != nil:
			jobs = append(jobs, r.quantized(it))
		case it.rows != nil:
			jobs = append(jobs, r.padded(it))
		default:
			jobs = append(jobs, r.copied(it))
		}
	}
	return jobs
}

// finished reports whether the journal has the item and the output still holds what was stored.
func (r *Run) finished(it *Item) bool {
	e, ok := r.done[it.Name]
	if !ok || (it.Spec != nil) != (e.Noise != nil) {
		return false
	}
	crc, err := r.crc(it)
	if err != nil || crc != e.CRC {
		return false
	}
	if e.Noise != nil {
		r.noise[it.Name] = e.Noise
	}
	return true
}

// quantized is the job of a matrix: read, solve, account, pack, strip by strip.
func (r *Run) quantized(it *Item) *job {
	blocks := make([]quant.Noise, (it.N+block-1)/block)
	put := func(tensor int, off int64, p []byte) error { return r.out.WriteAt(it.Outputs[tensor].Name, p, off) }
	return &job{name: it.Name, rows: it.N, strip: r.stripRows(it.K),
		cost: int64(it.K) * int64(it.rows.elements),
		run: func(w *worker, row0, rows int) error {
			weights, err := it.rows.read(w, row0, rows)
			if err != nil {
				return err
			}
			m := w.fit(rows, it.K, *it.Spec)
			it.solve(m, weights, nil)
			row := grow(&w.row, it.K)
			for n := range rows {
				m.DequantizeRow(row, n)
				blocks[(row0+n)/block].Add(weights[n*it.K:(n+1)*it.K], row)
			}
			return r.Format.Pack(*it.Spec, r.Options, m, row0, it.N, put)
		},
		done: func() error {
			var noise quant.Noise
			for _, b := range blocks {
				noise.Merge(b)
			}
			return r.record(it, &noise)
		}}
}

// fit returns the worker's matrix for a strip of a module, made anew only where the last one was smaller.
func (w *worker) fit(rows, k int, s quant.Spec) *quant.Matrix {
	m := w.matrix
	if m == nil || m.K != k || m.Bits != s.Bits || m.Group != s.GroupSize(k) || m.Zero != s.Zero || cap(m.Codes) < rows*k {
		w.matrix = quant.NewMatrix(rows, k, s.Bits, s.GroupSize(k), s.Zero)
		return w.matrix
	}
	m.Resize(rows)
	return m
}

// stripRows returns how many rows of k weights make a strip.
func (p *Plan) stripRows(k int) int { return max(block, int(p.strip)/k/block*block) }

// padded copies a float tensor into a wider one.
func (r *Run) padded(it *Item) *job {
	x := it.rows
	size := int64(x.k * x.elements)
	return &job{name: it.Name, rows: x.n, strip: r.stripRows(x.k), cost: size,
		run: func(w *worker, row0, rows int) error {
			weights, err := x.read(w, row0, rows)
			if err != nil {
				return err
			}
			raw := grow(&w.raw, len(weights)*x.elements)
			encode(x.dtype, raw, weights)
			return r.out.WriteAt(it.Outputs[0].Name, raw, int64(row0)*size)
		},
		done: func() error { return r.record(it, nil) }}
}

// copied copies the bytes of a tensor, or of the part of one that the item is.
func (r *Run) copied(it *Item) *job {
	const chunk = 1 << 20
	size := bytesOf(it.Outputs[0])
	from := it.Tensor.Offset * int64(it.Outputs[0].DType.Bits()) / 8
	return &job{name: it.Name, rows: max(1, int((size+chunk-1)/chunk)), strip: 1, cost: min(size, chunk),
		run: func(w *worker, row0, _ int) error {
			off := int64(row0) * chunk
			raw := grow(&w.raw, int(min(chunk, size-off)))
			if err := r.Source.Set.ReadAt(it.Tensor.Source, raw, from+off); err != nil {
				return err
			}
			return r.out.WriteAt(it.Outputs[0].Name, raw, off)
		},
		done: func() error { return r.record(it, nil) }}
}

// record notes a finished item in the journal.
func (r *Run) record(it *Item, noise *quant.Noise) error {
	crc, err := r.crc(it)
	if err != nil {
		return err
	}
	if noise != nil {
		r.journal.mu.Lock()
		r.noise[it.Name] = noise
		r.journal.mu.Unlock()
	}
	return r.journal.line(entry{Job: it.Name, CRC: crc, Noise: noise})
}

// crc reads back the tensors of an item.
func (r *Run) crc(it *Item) (uint32, error) {
	table := crc32.MakeTable(crc32.Castagnoli)
	buf := make([]byte, 256<<10)
	crc := uint32(0)
	for _, o := range it.Outputs {
		size := bytesOf(o)
		for off := int64(0); off < size; off += int64(len(buf)) {
			p := buf[:min(int64(len(buf)), size-off)]
			if err := r.out.ReadAt(o.Name, p, off); err != nil {
				return 0, err
			}
			crc = crc32.Update(crc, table, p)
		}
	}
	return crc, nil
}

// writeOthers writes all files of the plan but the weights.
func (r *Run) writeOthers(report *Report) error {
	carry, _ := r.Source.Carry()
	own := map[string][]byte{"config.json": r.Config}
	if index := r.Weights.Index(); index != nil {
		own[indexName] = index
	}
	if name := r.Format.Sidecar(); name != "" {
		side, err := r.quantization("")
		if err != nil {
			return err
		}
		own[name] = append(side, '\n')
	}
	for name, content := range own {
		if err := os.WriteFile(filepath.Join(r.dir.Path(), name), content, 0o666); err != nil {
			return err
		}
	}
	for _, name := range carry {
		if err := copyFile(r.Source.FS, name, r.dir.Path()); err != nil {
			return err
		}
	}
	raw, err := report.encode(r.Files[len(r.Files)-1].Size)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dir.Path(), ReportName), raw, 0o666)
}

func copyFile(src fs.FS, name, dir string) error {
	in, err := src.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func hashFile(src fs.FS, name string) (string, error) {
	f, err := src.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.CopyBuffer(h, f, make([]byte, 256<<10)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// bytesOf returns the size of a planned tensor, whose shape the plan has checked.
func bytesOf(s safetensors.Spec) int64 {
	n := int64(s.DType.Bits())
	for _, d := range s.Shape {
		n *= int64(d)
	}
	return n / 8
}
