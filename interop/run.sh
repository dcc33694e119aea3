#!/usr/bin/env bash
# Lets Hugging Face's safetensors open our files, and a numpy program that shares no code with ours dequantize them:
# every value must equal what our dequantize writes, bit for bit. Then the gguf package reads what we write, and we what it
# writes. Then ONNX checks every graph that export writes, and ONNX Runtime runs them as a host would: node by node within a
# step of our simulation, and as far from the float model as it says; folders for ONNX Runtime GenAI are run by it, too. Works in interop/.venv and interop/out.
set -euo pipefail
cd "$(dirname "$0")"
[ -x .venv/bin/python ] || python3 -m venv .venv
.venv/bin/pip install --quiet --disable-pip-version-check -r requirements.txt
rm -rf out
mkdir out
bin=$PWD/../bin
n=0
# One build a line: the flags of quantize.
while read -r flags; do
  n=$((n + 1))
  # shellcheck disable=SC2086
  "$bin/quantize" --quiet $flags -o "out/build-$n" >/dev/null
  "$bin/dequantize" --quiet "out/build-$n" --dtype f32 -o "out/plain-$n" >/dev/null
  .venv/bin/python check.py "out/build-$n" "out/plain-$n" "$flags"
done <<'E'
--format gptq --group 128
--format gptq --group 32 --method rtn --checkpoint-format gptq_v2
--format gptq --group -1 --signed-scale off --scale-dtype f16
--format gptq --group 64 --bits 8 --target-loader transformers
--format awq --group 128
--format awq --group 32 --method rtn --scale-dtype f16
--format awq --group 64 --sym
--format compressed-tensors --group 128
--format compressed-tensors --group 32 --asym --scale-dtype f32
--format compressed-tensors --group -1 --method rtn
--scheme W8A16 --target-loader transformers
--scheme W8A8
--format cpu_int4 --group 64
--format cpu_int4 --group 128 --method shrink --embedding keep
--format cpu_int4 --group 32 --method rtn --max-shard-size 400kB
E
sample() { "$GO" run ../internal/ggufsample "$@"; }
mkdir out/gguf out/gguf/little out/gguf/big out/gguf/parts
sample out/gguf
.venv/bin/python gguf_check.py sample out/gguf/sample-*.gguf
.venv/bin/python gguf_check.py write out/gguf
sample out/gguf/little.gguf out/gguf/little
sample out/gguf/big.gguf out/gguf/big
sample out/gguf/parts-00002-of-00002.gguf out/gguf/parts
.venv/bin/python gguf_check.py same out/gguf/little.gguf out/gguf/*/copy.gguf
for type in q4_k_m q5_k_m q3_k_m q6_k q8_0 q4_0 q4_1 q5_0 q5_1 iq4_nl iq4_xs bf16 f16 f32; do
  "$bin/quantize" --quiet --format gguf --type "$type" -o "out/gguf/demo-$type.gguf" >/dev/null
  "$bin/dequantize" --quiet "out/gguf/demo-$type.gguf" --dtype f32 -o "out/gguf/plain-$type" >/dev/null
  .venv/bin/python gguf_check.py model "out/gguf/demo-$type.gguf" "out/gguf/plain-$type"
done

# One export a line: a model, - for the demo, and the flags of export.
n=0
while read -r model flags; do
  n=$((n + 1))
  [ "$model" = - ] && model=
  # shellcheck disable=SC2086
  "$bin/export" $model --quiet $flags --min-sqnr 0 --trace "out/trace-$n" -o "out/export-$n" >/dev/null
  .venv/bin/python npu.py "out/export-$n" "out/trace-$n"
  [ ! -e "out/export-$n/genai_config.json" ] || .venv/bin/python genai.py "out/export-$n" "out/trace-$n"
done <<'E'
- --context 256 --prefill 32 --style aimet
- --context 256 --prefill 32 --kv uint8 --linear conv --embedding inside --shards 2
- --context 256 --prefill 32 --style genai
../runtime/testdata/golden/spark2_5 --calib random --context 32 --prefill 8 --decode 14 --style genai --shards 2
- --context 256 --prefill 32 --scheme w4a16 --promote auto --norm rms --head-block 300 --style aimet
../runtime/testdata/golden/spark2_5 --calib random --context 24 --prefill 8 --decode 6 --style aimet
../runtime/testdata/golden/spark2_5 --calib random --context 24 --prefill 8 --decode 6 --scheme w8a8 --shards 3 --style aimet
../runtime/testdata/golden/gemma3 --calib random --context 24 --prefill 8 --decode 6 --scheme w16a16 --norm rms --style aimet
E
