package convert

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nibble/internal/version"
	"nibble/safetensors"
)

// PartError is what is wrong with the parts of an output.
type PartError struct{ err error }

// Error names the part and the rule.
func (e *PartError) Error() string { return "convert: " + e.err.Error() }

func partErrorf(format string, args ...any) error { return &PartError{fmt.Errorf(format, args...)} }

// sameTool refuses a part that another build of the program made.
func (m *manifest) sameTool(folder string) error {
	if have := version.String(); m.Tool != have {
		return partErrorf("%s was made by version %s, this is %s", folder, m.Tool, have)
	}
	return nil
}

// parts are the finished parts of an output.
type parts struct {
	folders   []string // by number
	manifests []*manifest
}

// openParts reads the manifests below a folder and finds them complete and of one plan.
func openParts(folder, plan string) (*parts, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, partErrorf("%s is not there: no part has been made", folder)
	}
	if err != nil {
		return nil, err
	}
	p := new(parts)
	for _, e := range entries {
		var part Part
		if n, _ := fmt.Sscanf(e.Name(), "%d-of-%d", &part.Index, &part.Count); n != 2 || part.String() != e.Name() {
			continue // an unfinished part, or none
		}
		dir := filepath.Join(folder, e.Name())
		m, err := readManifest(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, partErrorf("%s has no %s: remove it and make the part again", dir, partManifest)
		}
		if err != nil {
			return nil, err
		}
		if m.Part != part.Index || m.Parts != part.Count {
			return nil, partErrorf("%s holds part %d of %d", dir, m.Part, m.Parts)
		}
		if err := m.fits(dir, plan); err != nil {
			return nil, err
		}
		if p.folders == nil {
			p.folders, p.manifests = make([]string, part.Count), make([]*manifest, part.Count)
		}
		if len(p.folders) != part.Count {
			return nil, partErrorf("%s has parts of %d and of %d: remove those that do not belong to it", folder, len(p.folders), part.Count)
		}
		p.folders[part.Index], p.manifests[part.Index] = dir, m
	}
	if p.folders == nil {
		return nil, partErrorf("%s holds no finished part", folder)
	}
	var missing []string
	for i, m := range p.manifests {
		if m == nil {
			missing = append(missing, fmt.Sprint(i))
		}
	}
	if missing != nil {
		return nil, partErrorf("%s: parts are missing, of %d: %s", folder, len(p.folders), strings.Join(missing, ", "))
	}
	for i, m := range p.manifests {
		first := p.manifests[0].Calibration
		if (m.Calibration == nil) != (first == nil) || first != nil && *m.Calibration != *first {
			return nil, partErrorf("%s and %s were calibrated with different texts", p.folders[0], p.folders[i])
		}
	}
	return p, nil
}

// sums returns the SHA-256 of the source's files, in which all parts that read a file must agree. A file that has changed its
// size or time since a part read it is read again.
func (p *parts) sums(src *Plan) (map[string]string, error) {
	sums := map[string]string{}
	for _, f := range src.Source.Stored() {
		info, err := fs.Stat(src.Source.FS, f.Name)
		if err != nil {
			return nil, err
		}
		from, same := "", false
		for i, m := range p.manifests {
			at := slices.IndexFunc(m.Files, func(x partFile) bool { return x.Name == f.Name })
			if at < 0 {
				continue
			}
			x := m.Files[at]
			if sums[f.Name] == "" {
				sums[f.Name], from = x.SHA256, p.folders[i]
			}
			if x.SHA256 != sums[f.Name] {
				return nil, partErrorf("%s: %s and %s have read different contents", src.Source.In(f.Name), from, p.folders[i])
			}
			same = same || x.Size == info.Size() && x.Modified == info.ModTime().UnixNano()
		}
		if sums[f.Name] == "" {
			return nil, partErrorf("%s: no part has read it", src.Source.In(f.Name))
		}
		if same {
			continue
		}
		now, err := hashFile(src.Source.FS, f.Name)
		if err != nil {
			return nil, err
		}
		if now != sums[f.Name] {
			return nil, partErrorf("%s has changed since %s read it", src.Source.In(f.Name), from)
		}
	}
	return sums, nil
}

// Merge joins the parts below PartsFolder(r.Out) to the output: the bytes that one run of the plan writes. The parts stay. Check
// is that of Quantize.
func (r *Run) Merge(ctx context.Context, check func(dir string) (measured any, err error)) (*Report, error) {
	p, err := r.openParts()
	if err != nil {
		return nil, err
	}
	if err := r.open(); err != nil {
		return nil, err
	}
	report, err := r.merge(ctx, p, check)
	return report, finish(ctx, r.dir, err)
}

// openParts finds the parts of the output, and takes over what they say of the source.
func (r *Run) openParts() (p *parts, err error) {
	if p, err = openParts(PartsFolder(r.Out), r.planDigest()); err != nil {
		return nil, err
	}
	r.sums, err = p.sums(r.Plan)
	return p, err
}

func (r *Run) merge(ctx context.Context, p *parts, check func(dir string) (any, error)) (*Report, error) {
	defer r.out.Close()
	defer r.journal.close()
	if err := r.join(ctx, p); err != nil {
		return nil, err
	}
	report := r.report(r.outcomes, r.sums)
	if c := p.calibration(); c != nil {
		report.Calibration = c
	}
	if err := r.complete(ctx, report, check); err != nil {
		return nil, err
	}
	return report, nil
}

// calibration is what all parts say of the text, nil if there was none.
func (p *parts) calibration() *CalibrationReport { return p.manifests[0].Calibration }

// join copies all tensors from the parts.
func (r *Run) join(ctx context.Context, p *parts) error {
	items := map[string]*Item{}
	for i := range r.Items {
		items[r.Items[i].Name] = &r.Items[i]
	}
	var jobs []*job
	for i, m := range p.manifests {
		set, err := openPart(p.folders[i])
		if err != nil {
			return err
		}
		defer set.Close()
		for _, e := range m.Items {
			it := items[e.Job]
			if it == nil || !e.fits(it) {
				return partErrorf("%s: %s is not in the plan, or twice", p.folders[i], e.Job)
			}
			delete(items, e.Job)
			if r.finished(it) {
				r.Resumed++
				if r.Progress != nil {
					r.Progress(it.Name, r.cost(it))
				}
				continue
			}
			jobs = append(jobs, r.taken(it, e, set, p.folders[i]))
		}
	}
	if len(items) > 0 {
		return partErrorf("%s is in none of the parts", slices.Min(slices.Collect(maps.Keys(items))))
	}
	return r.work(ctx, jobs)
}

// openPart opens the tensors of a part.
func openPart(folder string) (*safetensors.Set, error) {
	name := indexName
	if _, err := os.Stat(filepath.Join(folder, name)); errors.Is(err, fs.ErrNotExist) {
		name = "model.safetensors"
	}
	return safetensors.OpenSet(os.DirFS(folder), name)
}

// taken copies the tensors of an item from a part, and finds them as the part has stored them.
func (r *Run) taken(it *Item, e entry, set *safetensors.Set, folder string) *job {
	const chunk = 1 << 20
	var first int64
	if it.place != nil {
		first = it.place.first
	}
	return &job{name: it.Name, rows: 1, strip: 1, cost: r.cost(it),
		run: func(w *worker, _, _ int) error {
			for _, o := range it.Outputs {
				from := o.Name
				if it.place != nil {
					from = it.Name // as in the plan that is apart
				}
				t, ok := set.Lookup(from)
				if !ok || t.DType != o.DType || !slices.Equal(t.Shape, o.Shape) {
					return partErrorf("%s: %s is not there as planned", folder, from)
				}
				for off := int64(0); off < t.Bytes(); off += chunk {
					raw := grow(&w.raw, int(min(chunk, t.Bytes()-off)))
					if err := set.ReadAt(from, raw, off); err != nil {
						return err
					}
					if err := r.out.WriteAt(o.Name, raw, first+off); err != nil {
						return err
					}
				}
			}
			return nil
		},
		done: func() error {
			crc, err := r.crc(it)
			if err == nil && crc != e.CRC {
				err = partErrorf("%s: %s does not have its checksum: the part is damaged; remove it and make it again", folder, it.Name)
			}
			if err != nil {
				return err
			}
			return r.record(it, e.Outcome)
		}}
}
