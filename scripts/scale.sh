#!/usr/bin/env bash
# One layer each of models of 8, 70 and 400 billion parameters, the last with 128 experts, quantized for real: the time of a whole model is that
# of its layer times their number, for a disk that keeps up; head and embedding are copied and not counted. Takes 12 GB in DIR. SIZES=8B for less.
set -euo pipefail
dir="$(mktemp -d "${DIR:-/tmp}/scale.XXXXXX")"
trap 'rm -rf "$dir"' EXIT
llama='"architectures":["LlamaForCausalLM"],"max_position_embeddings":8192,"num_key_value_heads":8,"rms_norm_eps":1e-5,"tie_word_embeddings":false,"vocab_size":4096'
mixture='"architectures":["Qwen3MoeForCausalLM"],"head_dim":128,"intermediate_size":12288,"max_position_embeddings":40960,"moe_intermediate_size":2048,
  "norm_topk_prob":true,"num_experts":128,"num_experts_per_tok":8,"num_key_value_heads":4,"rms_norm_eps":1e-6,"tie_word_embeddings":false,"vocab_size":4096'
one() { # name, layers, config
  [[ " ${SIZES:-8B 70B 400B} " == *" $1 "* ]] || return 0
  printf '{%s,"num_hidden_layers":1}' "$3" >"$dir/config.json"
  "$GO" run ./internal/benchmodel -config "$dir/config.json" -o "$dir/model"
  for method in rtn search; do
    local from to
    from=$(date +%s%N)
    bin/quantize "$dir/model" -q --format awq --method "$method" --lm-head keep --embedding keep --target-loader none -o "$dir/out" >"$dir/log" 2>&1 || { cat "$dir/log" >&2; exit 1; }
    to=$(date +%s%N)
    awk -v n="$1" -v m="$method" -v t="$(((to - from) / 1000000))" -v l="$2" \
      'BEGIN { printf "%s, --method %s: one layer in %.1f s; times %d layers %.1f min\n", n, m, t / 1e3, l, t * l / 6e4 }'
    rm -r "$dir/out"
  done
  rm -r "$dir/model"
}
one 8B 32 "$llama,\"hidden_size\":4096,\"intermediate_size\":14336,\"num_attention_heads\":32"
one 70B 80 "$llama,\"hidden_size\":8192,\"intermediate_size\":28672,\"num_attention_heads\":64"
one 400B 97 "$mixture,\"hidden_size\":5120,\"num_attention_heads\":64"
