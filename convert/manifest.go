package convert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"nibble/internal/stage"
)

// partManifest is the file of a part that says what it is a part of and what it holds.
const partManifest = "part.json"

// manifest is the content of part.json.
type manifest struct {
	Tool        string             `json:"tool"` // version of the program
	Plan        string             `json:"plan"` // digest of what decides the output
	Part        int                `json:"part"`
	Parts       int                `json:"parts"`
	Calibration *CalibrationReport `json:"calibration,omitempty"`
	Files       []partFile         `json:"files"` // of the source, those that the part has read
	Items       []entry            `json:"items"`
}

// partFile is a file of the source as a part has seen it.
type partFile struct {
	SourceFile
	Modified int64 `json:"modified"` // nanoseconds since 1970
}

// Most bytes of a manifest: some 200 for every tensor, and models of a million have not been seen.
const maxManifest = 256 << 20

func (m *manifest) write(dir string) error {
	raw, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	return stage.WriteFile(filepath.Join(dir, partManifest), append(raw, '\n'))
}

// readManifest reads the manifest of the part in a folder.
func readManifest(dir string) (*manifest, error) {
	path := filepath.Join(dir, partManifest)
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(raw)
	if err != nil {
		return nil, partErrorf("%s: %w", path, err)
	}
	return m, nil
}

func parseManifest(raw []byte) (*manifest, error) {
	m := new(manifest)
	if err := decodeOwn(raw, maxManifest, m); err != nil {
		return nil, err
	}
	if m.Parts < 1 || m.Parts > MaxParts || m.Part < 0 || m.Part >= m.Parts {
		return nil, fmt.Errorf("part %d of %d", m.Part, m.Parts)
	}
	return m, nil
}

// decodeOwn reads one JSON object of at most so many bytes, which this program has written: it has no keys but those of v.
func decodeOwn(raw []byte, most int, v any) error {
	if len(raw) > most {
		return fmt.Errorf("more than %d bytes", most)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("something follows the object, at byte %d", dec.InputOffset())
	}
	return nil
}

// fits refuses a part of another plan, or by another version.
func (m *manifest) fits(folder, plan string) error {
	if m.Plan != plan {
		return partErrorf("%s was made with other settings, another version or another source; --overwrite makes it again", folder)
	}
	return m.sameTool(folder)
}
