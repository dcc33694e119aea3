#!/usr/bin/env bash
# The demo in every format, by binaries for GOAMD64=v1, v2 and v3, with kernels and without: the files must be the same. v3 may fuse products and sums,
# which is why products are rounded explicitly.
set -euo pipefail
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
for level in v1 v2 v3; do
  GOAMD64=$level "$GO" build -trimpath -o "$dir/$level/" ./cmd/quantize
  for kernel in generic avx2; do
    for format in gptq awq compressed-tensors cpu_int4; do
      NIBBLE_KERNEL=$kernel "$dir/$level/quantize" -q --format "$format" -o "$dir/out" >/dev/null 2>&1
      sum=$(cat "$dir/out"/*.safetensors | sha256sum)
      rm -r "$dir/out"
      was=$(cat "$dir/$format" 2>/dev/null || echo "$sum")
      echo "$sum" >"$dir/$format"
      if [ "$sum" != "$was" ]; then echo "GOAMD64=$level, $kernel, $format: other bytes" >&2; exit 1; fi
    done
  done
  echo "GOAMD64=$level: the same bytes"
done
