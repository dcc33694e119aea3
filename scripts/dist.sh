#!/usr/bin/env bash
# Static binaries for every system, packed, with checksums, a bill of materials and a container image, in dist/. The same commit and Go
# give the same bytes: times are the commit's.
set -euo pipefail
rm -rf dist
time=$(git log -1 --format=%ct)
for target in linux/amd64 linux/arm64 darwin/arm64 windows/amd64; do
  name=nibble-${target/\//-}
  mkdir -p "dist/$name"
  CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} "$GO" build -trimpath -ldflags '-s -w' -o "dist/$name/" ./cmd/...
  chmod 755 "dist/$name"/*
done
"$GO" run ./internal/release sbom "$time" dist/*/* >dist/nibble.spdx.json
for name in dist/nibble-*-*; do
  install -m 644 LICENSE README.md THIRD_PARTY_LICENSES "$name"
done
"$GO" run ./internal/release image "$time" dist/nibble-image.tar linux/amd64=dist/nibble-linux-amd64 linux/arm64=dist/nibble-linux-arm64
for name in dist/nibble-*-*; do
  tar -C dist --sort=name --format=ustar --mtime="@$time" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -cf - "$(basename "$name")" | gzip -9n >"$name.tar.gz"
  rm -r "$name"
done
(cd dist && sha256sum -- *.* >SHA256SUMS)
