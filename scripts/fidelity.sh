#!/usr/bin/env bash
# make fidelity: what methods, groups and grids lose on real models, as a Markdown table.
#
#   MODELS   folders, or demo for the built-in model (default: demo)
#   CALIB    calibration text (default: the demo's own; other models write theirs)
#   TEXT     what models are measured on, none of it in CALIB (the demo has a text of its own)
#   SAMPLES  sequences of 512 tokens (default 128)             WINDOWS  of 512 tokens to measure on (default 40)
#   METHODS, GROUPS_OF, FORMATS   to take less: of gptq (symmetric), awq (asymmetric) and others
#
# Linears only: the head stays in float, so that bits count alike. KL divergence is the mean over the whole vocabulary; each figure
# has its 95 % interval over the windows, which are the same in every row, float32 activations. Groups wider than the model are left out.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
bin="$root/bin"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# figure KEY SCALE: a figure of the comparison and its interval.
figure() {
  awk -v key="\"$1\":" -v ends="\"$1_ci\":" -v scale="$2" -v form="$3" '
    $1 == key { sub(",", "", $2); v = $2 }
    $1 == ends { getline a; getline b; gsub(/[ ,]/, "", a); gsub(/[ ,]/, "", b) }
    END { printf form " (" form " to " form ")", scale * v, scale * a, scale * b }' "$work/json"
}

echo "| model | grid | group | method | KL divergence | perplexity, build over model | top-1, % | CPU s |"
echo "|---|---|---|---|---|---|---|---|"
for name in ${MODELS:-demo}; do
  model="$name" text=(${TEXT:+--text "$TEXT"}) calib="${CALIB:-self}" config="$name/config.json"
  if [ "$name" = demo ]; then
    model="" text=() calib="$root/demo/calibration.txt" config="$root/demo/config.json"
  fi
  hidden="$(awk -F'[:,]' '/"hidden_size"/ { print $2 + 0; exit }' "$config")"
  for format in ${FORMATS:-gptq awq}; do
    for group in ${GROUPS_OF:-32 64 128}; do
      [ "$group" -le "$hidden" ] || continue
      for method in ${METHODS:-rtn search weighted awq gptq best}; do
        flags=(--method "$method")
        case $method in
          weighted) flags=(--method search --calib "$calib" --samples "${SAMPLES:-128}") ;;
          awq | gptq | best) flags+=(--calib "$calib" --samples "${SAMPLES:-128}") ;;
        esac
        rm -rf "$work/out"
        TIMEFORMAT='%U %S'
        cpu="$({ time "$bin/quantize" ${model:+"$model"} -o "$work/out" --format "$format" --group "$group" --lm-head keep --embedding keep \
          --pad-mlp auto --unfit keep --target-loader none --quiet "${flags[@]}" >/dev/null 2>"$work/err"; } 2>&1)" ||
          { cat "$work/err" >&2; exit 1; }
        "$bin/runtime" compare ${model:+"$model"} "$work/out" --greedy 0 --max-windows "${WINDOWS:-40}" "${text[@]}" --json --quiet >"$work/json"
        echo "| $(basename "$name") | $format | $group | $method | $(figure kl_mean 1 %.4f) | $(figure ppl_ratio 1 %.4f) |" \
          "$(figure top1 100 %.1f) | $(awk '{ printf "%.1f", $1 + $2 }' <<<"$cpu") |"
      done
    done
  done
done
