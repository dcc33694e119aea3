package convert

import (
	"errors"
	"fmt"
	"io/fs"

	"nibble/build"
)

// ErrChanged is the cause where somebody changed the source while it was read: what was made of it is of no single state.
var ErrChanged = errors.New("the source was changed while it was read")

// Watch remembers the files of a model, by size and time, as they were when its folder was opened. unchanged reports one that is another by
// then, or gone.
func Watch(b *build.Build) (unchanged func() error, err error) {
	files, _ := b.Carry()
	for _, f := range b.Stored() {
		files = append(files, f.Name)
	}
	before := make([]fs.FileInfo, len(files))
	for i, name := range files {
		var seen bool
		if before[i], seen = b.Seen[name]; seen {
			continue
		}
		if before[i], err = fs.Stat(b.FS, name); err != nil { // not beside the others
			return nil, fmt.Errorf("convert: %w", err)
		}
	}
	return func() error {
		for i, name := range files {
			now, err := fs.Stat(b.FS, name)
			if err != nil {
				return fmt.Errorf("convert: %w: %w", ErrChanged, err)
			}
			if now.Size() != before[i].Size() || !now.ModTime().Equal(before[i].ModTime()) {
				return fmt.Errorf("convert: %s: %w", b.In(name), ErrChanged)
			}
		}
		return nil
	}, nil
}
