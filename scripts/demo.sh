#!/usr/bin/env bash
# The whole job on the built-in model: quantize, look at the result, expand it and measure the loss.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bin=$PWD/bin
cd "$dir"
set -x
"$bin/quantize" --quiet --format awq --group 128
"$bin/runtime" inspect demo-awq-g128 | grep -e '^demo' -e parameters -e '^vllm-cpu'
"$bin/dequantize" --quiet
"$bin/runtime" compare --quiet --max-windows 4
"$bin/runtime" generate --quiet -n 40
