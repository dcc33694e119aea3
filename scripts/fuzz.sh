#!/usr/bin/env bash
# Runs every fuzz target of the module for $FUZZ each, a package for each processor at a time. Go reports "context deadline exceeded" when the time
# ends in the middle of an input, which is no finding (golang.org/issue/48591): such a run is repeated. A finding names the failing input.
set -euo pipefail
if [ $# -eq 0 ]; then
  "$GO" list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... | xargs -P "$(getconf _NPROCESSORS_ONLN)" -n 1 "$0"
  exit
fi
pkg=$1
out="$(mktemp)"
trap 'rm -f "$out"' EXIT
for target in $("$GO" test -list '^Fuzz' "$pkg" | grep '^Fuzz' || true); do
  for try in 1 2 3 4 5; do
    if "$GO" test -run '^$' -fuzz "^$target\$" -parallel 1 -fuzztime "$FUZZ" -fuzzminimizetime 10x "$pkg" >"$out" 2>&1; then
      echo "fuzz $pkg $target: $(tail -n 1 "$out")"
      break
    fi
    if [ "$try" = 5 ] || grep -q 'Failing input' "$out" || ! grep -q '^ *context deadline exceeded$' "$out"; then
      echo "fuzz $pkg $target"
      cat "$out"
      exit 255 # xargs ends
    fi
  done
done
