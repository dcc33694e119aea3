#!/usr/bin/env bash
# Speed of models that are not there, and of Q4_K_M files that are, in one table, with the share of what the machine can do. With LLAMA_CPP, the folder of
# llama-bench, and LLAMA_MODELS, a folder of files like tinyllama-1.1b-Q4_K_M.gguf, the same tests by llama.cpp beside them:
# the two take turns, ROUNDS of REPETITIONS each. ONLY=135m runs what has this in its name.
set -euo pipefail
exec "${GO:-go}" run ./internal/benchtable -runtime bin/runtime -llama "${LLAMA_CPP:-}" -models "${LLAMA_MODELS:-}" \
  -rounds "${ROUNDS:-2}" -repetitions "${REPETITIONS:-3}" -only "${ONLY:-}"
