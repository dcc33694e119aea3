#!/usr/bin/env bash
# A product and a sum that become one instruction are rounded once, which gives other bits than rounding twice does. arm64 has them wherever the
# language lets the compiler write them, GOAMD64=v3 in some places. So there is none in what decides bytes and figures: in all packages but
# those of pictures and times, where some are, which shows that this script can see them.
set -euo pipefail
out="$(mktemp)"
trap 'rm -f "$out"' EXIT
GOARCH=arm64 "$GO" list -export -f '{{.ImportPath}} {{.Export}}' ./... | while read -r pkg object; do
  if [ -n "$object" ]; then
    "$GO" tool objdump "$object" | awk -v pkg="$pkg" '/^TEXT/{f = $2} /\tFN?M(ADD|SUB)[SD]/{print pkg, $1, f}'
  fi
done | sort | uniq >"$out"
if ! grep -q '^nibble/report ' "$out"; then echo "no fused product found anywhere: the disassembler writes something else" >&2; exit 1; fi
if grep -vE '^nibble/(report|bench) ' "$out"; then echo "fused, see above: round the product, float32(x*y) + z" >&2; exit 1; fi
