#!/usr/bin/env bash
# make fidelity: what methods, groups and grids lose on real models, as a Markdown table.
#
#   MODELS   folders, besides the built-in model              TEXT     what they are measured on (default: the demo's text)
#   CALIB    calibration text (default: the model writes it)  SAMPLES  sequences of 512 tokens (default 128)
#   METHODS, GROUPS, FORMATS, WINDOWS   to take less
#
# Linears only: the head stays in float, so that bits count alike. KL divergence is the mean over the whole vocabulary, with
# its 95 % interval over windows of 512 tokens, float32 activations.
set -euo pipefail
bin="$(cd "$(dirname "$0")/.." && pwd)/bin"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

figure() { awk -v key="\"$1\":" '$1 == key { sub(",", "", $2); print $2; exit }' "$work/json"; }
interval() { awk -v key="\"$1\":" '$1 == key { getline a; getline b; gsub(/[ ,]/, "", a); gsub(/[ ,]/, "", b); print (b - a) / 2; exit }' "$work/json"; }

echo "| model | format | group | method | KL divergence | perplexity | top-1 | CPU s |"
echo "|---|---|---|---|---|---|---|---|"
for model in "" ${MODELS:-}; do
  for format in ${FORMATS:-gptq awq cpu_int4}; do
    for group in ${GROUPS_OF:-32 64 128}; do
      for method in ${METHODS:-rtn search weighted awq gptq best}; do
        flags=(--method "$method")
        case $method in
          weighted) flags=(--method search --calib "${CALIB:-self}") ;;
          awq | gptq | best) flags+=(--calib "${CALIB:-self}") ;;
        esac
        rm -rf "$work/out"
        TIMEFORMAT='%U %S'
        cpu="$({ time "$bin/quantize" ${model:+"$model"} -o "$work/out" --format "$format" --group "$group" --lm-head keep --embedding keep \
          --unfit keep --target-loader none --quiet --samples "${SAMPLES:-128}" "${flags[@]}" >/dev/null 2>"$work/err"; } 2>&1)" || { cat "$work/err" >&2; exit 1; }
        "$bin/runtime" compare ${model:+"$model"} "$work/out" --greedy 0 --max-windows "${WINDOWS:-40}" ${TEXT:+--text "$TEXT"} --json --quiet >"$work/json"
        awk -v m="$(basename "${model:-demo}")" -v f="$format" -v g="$group" -v s="$method" -v k="$(figure kl_mean)" -v i="$(interval kl_mean_ci)" \
          -v p="$(figure ppl_ratio)" -v t="$(figure top1)" -v c="$cpu" \
          'BEGIN { split(c, u, " "); printf "| %s | %s | %s | %s | %.5f ± %.5f | %+.2f %% | %.1f %% | %.1f |\n", m, f, g, s, k, i, 100 * (p - 1), 100 * t, u[1] + u[2] }'
      done
    done
  done
done
