package convert

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"nibble/internal/stage"
	"nibble/internal/version"
	"nibble/safetensors"
)

// Part is one of Count parts that a plan is divided into, numbered from 0. Every part computes the same plan from the same
// headers and does what falls to it; parts need not know of one another.
//
// A plan without calibration is divided by tensors, one with calibration by layers: the sequences run through the float
// layers before a part's own. What belongs to no layer falls to the first part, the head and what is decided with it to the
// last one. Every part also hashes the source's files that it reads from, and its share of those that nobody does.
//
// A part is a folder below OUT.parts: its tensors in safetensors files, and a manifest. It is written like any output, so that
// it appears whole, and goes on where an interrupted run of it stopped.
type Part struct{ Index, Count int }

// MaxParts is the most parts that a plan is divided into.
const MaxParts = 4096

// partsSuffix is what the name of the folder with the parts has behind the output's.
const partsSuffix = ".parts"

// PartsFolder is where the parts of an output are.
func PartsFolder(out string) string { return filepath.Clean(out) + partsSuffix }

// Folder is where a part of an output is.
func (p Part) Folder(out string) string { return filepath.Join(PartsFolder(out), p.String()) }

// Finished reports whether a part of an output is there.
func (p Part) Finished(out string) bool {
	info, err := os.Lstat(filepath.Join(p.Folder(out), partManifest))
	return err == nil && info.Mode().IsRegular()
}

// String is the name of the part's folder.
func (p Part) String() string { return fmt.Sprintf("%d-of-%d", p.Index, p.Count) }

// Check refuses plans that cannot be divided.
func (p Part) Check(plan *Plan) error {
	if p.Count < 1 || p.Count > MaxParts || p.Index < 0 || p.Index >= p.Count {
		return fmt.Errorf("convert: part %d of %d: parts are numbered from 0, and there are at most %d", p.Index, p.Count, MaxParts)
	}
	if c := plan.Calibration; c != nil && !c.Independent {
		return errors.New("convert: every layer is calibrated on what is quantized before it, so that no part can begin before the one before it has ended; " +
			"--independent calibrates every layer on the float model, or take one part")
	}
	return nil
}

// share is what falls to a part.
type share struct {
	Part
	items map[*Item]bool
	files map[string]bool // of the source
}

// owns reports whether an item falls to the run.
func (r *Run) owns(it *Item) bool { return r.share == nil || r.share.items[it] }

// hashes reports whether file number i of the source is for the run to hash.
func (r *Run) hashes(i int, name string) bool {
	return r.share == nil || r.share.files[name] || i%r.share.Count == r.share.Index
}

// layerShare reports whether something in a layer falls to the run, and whether something behind it does.
func (r *Run) layerShare(layer int) (mine, later bool) {
	for i := range r.Items {
		if it := &r.Items[i]; r.learns(it) && r.owns(it) {
			mine = mine || it.Tensor.Layer == layer
			later = later || it.Tensor.Layer > layer || it.Tensor.Layer < 0
		}
	}
	return mine, later
}

// effort is about what an item costs: quantizing a weight takes as long as copying many.
func (p *Plan) effort(it *Item) int64 {
	if it.Spec != nil {
		return 16 * p.cost(it)
	}
	return p.cost(it)
}

// divide returns what falls to a part: a run of units in the order of the plan, as long as its share of the effort.
func (p *Plan) divide(part Part) *share {
	s := &share{part, map[*Item]bool{}, map[string]bool{}}
	unit := func(i int) int { return i }
	if p.Calibration != nil {
		unit = func(i int) int { return p.Items[i].Tensor.Layer }
	}
	efforts, all := map[int]int64{}, int64(0)
	for i := range p.Items {
		if u := unit(i); u >= 0 {
			efforts[u] += p.effort(&p.Items[i])
			all += p.effort(&p.Items[i])
		}
	}
	of, before := map[int]int{}, int64(0) // part by unit
	for _, u := range slices.Sorted(maps.Keys(efforts)) {
		middle := before + efforts[u]/2
		of[u] = int(float64(middle) / float64(max(all, 1)) * float64(part.Count))
		before += efforts[u]
	}
	for i := range p.Items {
		it := &p.Items[i]
		to := min(of[unit(i)], part.Count-1)
		if unit(i) < 0 {
			to = 0
			if p.learns(it) {
				to = part.Count - 1
			}
		}
		if to == part.Index {
			s.items[it] = true
			s.files[p.Source.Set.FileOf(it.Tensor.Source)] = true
		}
	}
	return s
}

// planDigest names what all parts of an output have in common, apart from what the source's files hold.
func (p *Plan) planDigest() string {
	h := sha256.New()
	p.describe(h)
	if c := p.Calibration; c != nil {
		fmt.Fprintf(h, "%s %t %s\n", c.Settings, c.Independent, c.Kernel)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// PartPlan returns the files of a part, the manifest not among them, and the bytes of the source that its jobs work on.
func (p *Plan) PartPlan(part Part) (files []File, costs map[string]int64, err error) {
	p = p.apart()
	s := p.divide(part)
	weights, err := p.partWeights(s)
	if err != nil {
		return nil, nil, err
	}
	costs = map[string]int64{}
	for it := range s.items {
		costs[it.Name] = p.cost(it)
	}
	return fileSizes(weights), costs, nil
}

func fileSizes(w *safetensors.Plan) (files []File) {
	for _, f := range w.Files {
		files = append(files, File{f.Name, f.Size})
	}
	return files
}

func (p *Plan) partWeights(s *share) (*safetensors.Plan, error) {
	var specs []safetensors.Spec
	for i := range p.Items {
		if s.items[&p.Items[i]] {
			specs = append(specs, p.Items[i].Outputs...)
		}
	}
	return safetensors.NewPlan(specs, map[string]string{"format": "pt"}, p.MaxShard)
}

// QuantizePart does what falls to a part, and reports false if the part is there already. An unfinished part is taken up unless
// the mode is Overwrite. r.Out is the output of all parts. After an error other than ErrInterrupted nothing is left of the part.
func (r *Run) QuantizePart(ctx context.Context, part Part) (worked bool, err error) {
	if err := part.Check(r.Plan); err != nil {
		return false, err
	}
	folder, digest := part.Folder(r.Out), r.planDigest()
	if r.Mode != stage.Overwrite {
		m, err := readManifest(folder)
		if err == nil {
			return false, m.fits(folder, digest)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("%w; --overwrite starts again", err)
		}
		r.Mode = stage.Resume
	}
	if err := r.loadSequences(ctx); err != nil {
		return false, err
	}
	plan := r.apart()
	r.share = plan.divide(part)
	if plan.Weights, err = plan.partWeights(r.share); err != nil {
		return false, err
	}
	plan.Files = fileSizes(plan.Weights)
	r.Plan, r.Out = plan, folder
	if err := r.open(); err != nil {
		return false, err
	}
	return true, finish(ctx, r.dir, r.quantizePart(ctx, digest))
}

func (r *Run) quantizePart(ctx context.Context, digest string) error {
	defer r.out.Close()
	defer r.journal.close()
	jobs := r.jobs()
	sequences := r.sequences
	if mine, later := r.layerShare(-1); !mine && !later {
		r.sequences = nil // nothing here is calibrated
	}
	if err := r.work(ctx, jobs); err != nil {
		return err
	}
	if err := r.unchanged(); err != nil {
		return err
	}
	m := manifest{Tool: version.String(), Plan: digest, Part: r.share.Index, Parts: r.share.Count}
	if sequences != nil {
		m.Calibration = &CalibrationReport{Text: r.Calibration.Settings}
		m.Calibration.set(sequences)
	}
	for i, f := range r.Source.Stored() {
		if !r.hashes(i, f.Name) {
			continue
		}
		info, err := fs.Stat(r.Source.FS, f.Name)
		if err != nil {
			return err
		}
		m.Files = append(m.Files, partFile{SourceFile{f.Name, f.Size, r.sums[f.Name]}, info.ModTime().UnixNano()})
	}
	for i := range r.Items {
		it := &r.Items[i]
		if !r.owns(it) {
			continue
		}
		crc, err := r.crc(it)
		if err != nil {
			return err
		}
		m.Items = append(m.Items, entry{Job: it.Name, CRC: crc, Outcome: r.outcomes[it.Name]})
	}
	if err := r.out.Close(); err != nil {
		return err
	}
	if index := r.Weights.Index(); index != nil {
		if err := stage.WriteFile(filepath.Join(r.dir.Path(), indexName), index); err != nil {
			return err
		}
	}
	if err := m.write(r.dir.Path()); err != nil {
		return err
	}
	if err := cmp.Or(r.journal.close(), stage.Discard(filepath.Join(r.dir.Path(), journalName))); err != nil {
		return err
	}
	return r.dir.Commit()
}
