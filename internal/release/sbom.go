package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The parts of SPDX 2.3 (ISO/IEC 5962) that are written.
type (
	spdx struct {
		Version       string         `json:"spdxVersion"`
		Data          string         `json:"dataLicense"`
		ID            string         `json:"SPDXID"`
		Name          string         `json:"name"`
		Namespace     string         `json:"documentNamespace"`
		Creation      creation       `json:"creationInfo"`
		Packages      []spdxPackage  `json:"packages"`
		Relationships []relationship `json:"relationships"`
	}
	creation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		Name      string     `json:"name"`
		ID        string     `json:"SPDXID"`
		Version   string     `json:"versionInfo,omitempty"`
		File      string     `json:"packageFileName,omitempty"`
		Location  string     `json:"downloadLocation"`
		Analyzed  bool       `json:"filesAnalyzed"`
		Checksums []checksum `json:"checksums,omitempty"`
		Concluded string     `json:"licenseConcluded"`
		Declared  string     `json:"licenseDeclared"`
		Copyright string     `json:"copyrightText"`
		Comment   string     `json:"comment,omitempty"` // of a module: its hash as go.sum has it
		External  []external `json:"externalRefs,omitempty"`
	}
	checksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	external struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	relationship struct {
		From string `json:"spdxElementId"`
		Type string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
)

const unknown = "NOASSERTION"

// binary is a file with what it says about itself.
type binary struct {
	name string // folder/file
	raw  []byte
	info *buildinfo.BuildInfo
}

func readBinary(path string) (b binary, err error) {
	b.name = filepath.Base(filepath.Dir(path)) + "/" + filepath.Base(path)
	if b.info, err = buildinfo.ReadFile(path); err == nil {
		b.raw, err = os.ReadFile(path)
	}
	return b, err
}

// sbom writes every binary as a package that depends on the modules it is linked from.
func sbom(w io.Writer, at time.Time, binaries []binary, list []module) error {
	licence := map[string]string{}
	for _, m := range list {
		licence[m.Path] = m.Licence
	}
	d := spdx{Version: "SPDX-2.3", Data: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: "nibble",
		Creation: creation{at.Format(time.RFC3339), []string{"Tool: nibble-release"}}}
	seen := map[string]bool{}
	all := sha256.New()
	for _, b := range binaries {
		sum := sha256.Sum256(b.raw)
		all.Write(sum[:])
		id := spdxID(b.name)
		d.Packages = append(d.Packages, spdxPackage{Name: b.name, ID: id, File: b.name, Location: unknown, Concluded: "Apache-2.0", Declared: "Apache-2.0",
			Copyright: unknown, Checksums: []checksum{{"SHA256", hex.EncodeToString(sum[:])}}})
		d.Relationships = append(d.Relationships, relationship{d.ID, "DESCRIBES", id})
		depend := func(path, version, hash string) {
			to := spdxID(path + "@" + version)
			d.Relationships = append(d.Relationships, relationship{id, "DEPENDS_ON", to})
			if seen[to] {
				return
			}
			seen[to] = true
			p := spdxPackage{Name: path, ID: to, Version: version, Location: unknown, Concluded: unknown, Declared: unknown, Copyright: unknown, Comment: hash}
			if l := licence[path]; l != "" {
				p.Concluded, p.Declared = l, l
			}
			if path == "Go" {
				p.External = []external{{"PACKAGE-MANAGER", "purl", "pkg:golang/stdlib@" + strings.TrimPrefix(version, "go")}}
			} else {
				p.External = []external{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}}
			}
			d.Packages = append(d.Packages, p)
		}
		depend("Go", b.info.GoVersion, "")
		for _, m := range b.info.Deps {
			if m.Replace != nil {
				return fmt.Errorf("%s: %s is replaced: releases are built from modules as they are", b.name, m.Path)
			}
			depend(m.Path, m.Version, m.Sum)
		}
	}
	slices.SortFunc(d.Packages, func(a, b spdxPackage) int { return strings.Compare(a.ID, b.ID) })
	d.Namespace = "urn:nibble:sbom:" + hex.EncodeToString(all.Sum(nil))
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(d)
}

// spdxID makes an identifier of a name: letters, digits, dots and hyphens.
func spdxID(name string) string {
	return "SPDXRef-" + strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' {
			return r
		}
		return '-'
	}, name)
}
