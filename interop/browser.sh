#!/usr/bin/env bash
# A real browser shows the page of runtime report: no errors or warnings on its console, no request but for the file itself, and
# pictures of it in interop/out/browser: light, dark, and as wide as a phone, for somebody to look at. Needs Debian's chromium.
set -euo pipefail
cd "$(dirname "$0")"
command -v chromium >/dev/null || { echo "browser.sh: chromium is not installed (Debian: apt-get install chromium)" >&2; exit 1; }
bin=$PWD/../bin
out=$PWD/out/browser
rm -rf "$out"
mkdir -p "$out"
cd "$out"
"$bin/quantize" --quiet --format awq --group 128 -o awq-g128 >/dev/null
"$bin/quantize" --quiet --format gptq --group 32 --method gptq --samples 16 -o gptq-g32 >/dev/null
"$bin/quantize" --quiet --format gguf --type q4_k_m -o q4_k_m.gguf >/dev/null
"$bin/export" --quiet --context 256 --prefill 32 -o npu >/dev/null
"$bin/runtime" bench --quiet --json --pp 64 --tg 16 --repetitions 2 awq-g128 >bench.json
"$bin/runtime" report --quiet awq-g128 gptq-g32 q4_k_m.gguf npu --against builtin --max-windows 8 --bench bench.json --json -o report.html >values.json
cmp values.json report.json

# shown NAME WIDTH HEIGHT URL FLAG...: a picture, and what the browser said and asked for.
shown() {
  local name=$1 width=$2 height=$3 url=$4
  shift 4
  timeout 120 chromium --headless=new --no-sandbox --disable-gpu --hide-scrollbars --disable-background-networking --disable-component-update \
    --disable-sync --no-first-run --user-data-dir="$out/profile-$name" --enable-logging=stderr --host-resolver-rules='MAP * ~NOTFOUND' \
    --log-net-log="$out/$name.net.json" --window-size="$width,$height" --screenshot="$out/$name.png" "$@" "$url" 2>"$name.log" >/dev/null
  [ -s "$name.png" ] || { echo "browser.sh: $name: no picture" >&2; exit 1; }
}

# quiet NAME: fails if the page wrote to the console, or asked for more than its file. What the browser itself asks for goes to Google.
quiet() {
  ! grep -E ':CONSOLE' "$1.log" && ! grep -Eo '"url":"(https?|wss?|ftp)://[^"]*' "$1.net.json" | grep -Ev '://[a-z0-9.]*\.(google|googleapis)\.com/'
}

# A window of the browser is 500 wide at least, so a phone is a frame.
printf '<!doctype html><title>phone</title><body style="margin:0"><iframe src="report.html" style="border:0;width:390px;height:7000px"></iframe>' >phone.html
printf '<!doctype html><title>x</title><img src="http://asks.invalid/x.png" alt=""><script>console.log("says")</script>' >loud.html
shown light 1100 9000 "file://$out/report.html"
shown dark 1100 9000 "file://$out/report.html" --blink-settings=preferredColorScheme=0
shown phone 500 7000 "file://$out/phone.html"
shown loud 500 500 "file://$out/loud.html"
for page in light dark phone; do
  quiet $page || { echo "browser.sh: $page: the page is not quiet" >&2; exit 1; }
done
if quiet loud >loud.txt || ! grep -q says loud.txt; then
  echo "browser.sh: a page that talks and asks is not noticed" >&2
  exit 1
fi
grep -q asks.invalid loud.net.json || { echo "browser.sh: a request is not noticed" >&2; exit 1; }
echo "browser.sh: no message, no request; pictures in $out"
