#!/usr/bin/env bash
# Static binaries for every system, packed, with checksums, in dist/. The same commit and Go give the same bytes: times are the commit's.
set -euo pipefail
rm -rf dist
time=$(git log -1 --format=%ct)
for target in linux/amd64 linux/arm64 darwin/arm64 windows/amd64; do
  name=nibble-${target/\//-}
  mkdir -p "dist/$name"
  CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} "$GO" build -trimpath -ldflags '-s -w' -o "dist/$name/" ./cmd/...
  cp LICENSE README.md "dist/$name/"
  tar -C dist --sort=name --format=ustar --mtime="@$time" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -cf - "$name" | gzip -9n >"dist/$name.tar.gz"
  rm -r "dist/$name"
done
(cd dist && sha256sum ./*.tar.gz >SHA256SUMS)
