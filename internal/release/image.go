package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// user is who the container runs as: nobody that a host knows.
const user = "65532"

// The parts of the OCI image specification 1.1 that are written.
type (
	descriptor struct {
		MediaType   string            `json:"mediaType"`
		Digest      string            `json:"digest"`
		Size        int               `json:"size"`
		Platform    *platform         `json:"platform,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
	}
	platform struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
	}
	index struct {
		Schema    int          `json:"schemaVersion"`
		MediaType string       `json:"mediaType"`
		Manifests []descriptor `json:"manifests"`
	}
	manifest struct {
		Schema    int          `json:"schemaVersion"`
		MediaType string       `json:"mediaType"`
		Config    descriptor   `json:"config"`
		Layers    []descriptor `json:"layers"`
	}
	config struct {
		Created string `json:"created"`
		platform
		Config struct {
			User       string            `json:"User"`
			Env        []string          `json:"Env"`
			Cmd        []string          `json:"Cmd"`
			WorkingDir string            `json:"WorkingDir"`
			Labels     map[string]string `json:"Labels"`
		} `json:"config"`
		RootFS struct {
			Type    string   `json:"type"`
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
)

// archive writes a tar file whose entries all have one time.
type archive struct {
	*tar.Writer
	at time.Time
}

func (a *archive) add(name string, mode, owner int64, raw []byte) error {
	h := &tar.Header{Format: tar.FormatUSTAR, Name: name, Mode: mode, Uid: int(owner), Gid: int(owner), Size: int64(len(raw)), ModTime: a.at, Typeflag: tar.TypeReg}
	if strings.HasSuffix(name, "/") {
		h.Typeflag = tar.TypeDir
	}
	if err := a.WriteHeader(h); err != nil {
		return err
	}
	_, err := a.Write(raw)
	return err
}

// layer is the whole file system: the binaries, a user, a folder for temporary files and one to work in.
func layer(folder string, at time.Time) ([]byte, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	a := &archive{tar.NewWriter(&b), at}
	add := func(name string, mode, owner int64, raw []byte) {
		if err == nil {
			err = a.add(name, mode, owner, raw)
		}
	}
	add("bin/", 0o755, 0, nil)
	for _, e := range entries { // in the order of their names
		raw, e2 := os.ReadFile(filepath.Join(folder, e.Name()))
		if e2 != nil {
			return nil, e2
		}
		if filepath.Ext(e.Name()) == "" && e.Name() == strings.ToLower(e.Name()) {
			add("bin/"+e.Name(), 0o755, 0, raw)
		} else {
			add(e.Name(), 0o644, 0, raw) // licences and the like
		}
	}
	add("etc/", 0o755, 0, nil)
	add("etc/passwd", 0o644, 0, []byte("nibble:x:"+user+":"+user+"::/work:/sbin/nologin\n"))
	add("tmp/", 0o1777, 0, nil)
	add("work/", 0o755, 65532, nil)
	return b.Bytes(), errors.Join(err, a.Close())
}

// image writes an image for several platforms, as a folder of the OCI's layout in a tar file: podman load, docker load, skopeo copy
// oci-archive:FILE.
func image(w io.Writer, at time.Time, platforms map[string]string) error {
	blobs := map[string][]byte{}
	put := func(kind string, raw []byte) descriptor {
		sum := sha256.Sum256(raw)
		digest := hex.EncodeToString(sum[:])
		blobs[digest] = raw
		return descriptor{MediaType: "application/vnd.oci.image." + kind, Digest: "sha256:" + digest, Size: len(raw)}
	}
	encode := func(v any) []byte {
		raw, err := json.Marshal(v)
		if err != nil {
			panic(err) // strings and numbers only
		}
		return raw
	}
	const list = "index.v1+json"
	images := index{Schema: 2, MediaType: "application/vnd.oci.image." + list}
	for _, name := range slices.Sorted(maps.Keys(platforms)) {
		raw, err := layer(platforms[name], at)
		if err != nil {
			return err
		}
		files := put("layer.v1.tar", raw)
		var c config
		c.Created = at.Format(time.RFC3339)
		c.OS, c.Architecture, _ = strings.Cut(name, "/")
		c.Config.User, c.Config.Env, c.Config.Cmd, c.Config.WorkingDir = user+":"+user, []string{"PATH=/bin"}, []string{"runtime", "--help"}, "/work"
		c.Config.Labels = map[string]string{"org.opencontainers.image.title": "nibble", "org.opencontainers.image.licenses": "Apache-2.0"}
		c.RootFS.Type, c.RootFS.DiffIDs = "layers", []string{files.Digest}
		m := put("manifest.v1+json", encode(manifest{2, "application/vnd.oci.image.manifest.v1+json", put("config.v1+json", encode(c)), []descriptor{files}}))
		m.Platform = &c.platform
		images.Manifests = append(images.Manifests, m)
	}
	// One entry, which is the list of platforms: where there are several, podman and skopeo ask which.
	top := images
	top.Manifests = []descriptor{put(list, encode(images))}
	top.Manifests[0].Annotations = map[string]string{"org.opencontainers.image.ref.name": "nibble"}
	a := &archive{tar.NewWriter(w), at}
	err := errors.Join(a.add("oci-layout", 0o644, 0, []byte(`{"imageLayoutVersion":"1.0.0"}`)), a.add("index.json", 0o644, 0, encode(top)),
		a.add("blobs/", 0o755, 0, nil), a.add("blobs/sha256/", 0o755, 0, nil))
	for _, digest := range slices.Sorted(maps.Keys(blobs)) {
		err = errors.Join(err, a.add("blobs/sha256/"+digest, 0o644, 0, blobs[digest]))
	}
	return errors.Join(err, a.Close())
}
