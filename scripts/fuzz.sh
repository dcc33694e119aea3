#!/usr/bin/env bash
# Runs every fuzz target of the module for $FUZZ each.
set -euo pipefail
for pkg in $("$GO" list ./...); do
  for target in $("$GO" test -list '^Fuzz' "$pkg" | grep '^Fuzz' || true); do
    echo "fuzz $pkg $target"
    "$GO" test -run '^$' -fuzz "^$target\$" -fuzztime "$FUZZ" -fuzzminimizetime 10x "$pkg" | tail -n 2
  done
done
