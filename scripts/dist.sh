#!/usr/bin/env bash
# Static binaries for every system, packed, with checksums, in dist/.
set -euo pipefail
rm -rf dist
for target in linux/amd64 linux/arm64 darwin/arm64 windows/amd64; do
  name=nibble-${target/\//-}
  mkdir -p "dist/$name"
  CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} "$GO" build -trimpath -ldflags '-s -w' -o "dist/$name/" ./cmd/...
  cp LICENSE README.md "dist/$name/"
  tar -C dist -czf "dist/$name.tar.gz" "$name"
  rm -r "dist/$name"
done
(cd dist && sha256sum ./*.tar.gz >SHA256SUMS)
