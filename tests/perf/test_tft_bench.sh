#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The benchmark's result is one JSON object with the agreed keys; wrong use is exit 2 with the cure. The model of GPUs,
# and its figures in docs/performance/training.md.
set -u
bench=$top_builddir/perf/halay-tft-bench
failed=0

out=$("$bench" --threads 2 --batch 9 --hidden 8 --steps 1 --dropout 0.2 --json -) || { echo "bench failed"; exit 1; }
for key in samples_per_second dtype threads ranks batch_size hidden_size by_layer_ms lstm attention floor_ms \
    floor_share; do
    printf '%s\n' "$out" | grep -q "\"$key\":" || { echo "no key '$key' in: $out"; failed=1; }
done
file=$(mktemp) || exit 99
"$bench" --batch 8 --hidden 8 --steps 1 --json "$file" &&
    grep -q '"batch_size": 8' "$file" || { echo "no file"; failed=1; }
"$bench" --evaluate --batch 9 --hidden 8 --steps 1 --json "$file" &&
    awk '/"evaluate": true/ { seen = 1 } /"loss_first"/ { a = $2 + 0 } /"loss_last"/ { b = $2 + 0 }
        END { exit !(seen && a > 0 && a == b) }' "$file" || { echo "no evaluation, or its loss changes"; failed=1; }
rm -f "$file"

refused() {
    text=$("$bench" "$@" 2>&1)
    status=$?
    [ "$status" -eq 2 ] && [ -n "$text" ] || { echo "'$*': status $status, text '$text'"; failed=1; }
}
refused --dtype f16
refused --device tpu
refused --threads 0
refused --hidden 7
refused --batch 8x
refused --nonsense
refused word
"$bench" --batch 8 --hidden 8 --steps 1 --json /nonexistent/file 2>/dev/null && { echo "wrote nowhere"; failed=1; }

# What may be expected of GPUs says in each part that it is a formula.
"$top_builddir/perf/halay-tft-modelled" --hidden 8 --batch 3 --by-kernel >"$file" &&
    [ "$(grep -c '^a formula' "$file")" = 2 ] && grep -q '^H200  *3  *[0-9]* .* - [0-9]*$' "$file" &&
    awk '/ batch / { part = 1 } part && / - / { a = $(NF - 2); b = $NF; n += a > 0 && a < b } END { exit n != 2 }' \
        "$file" || { echo "modelled: $(cat "$file")"; failed=1; }
# What the document has of it is what it prints.
document=$top_srcdir/docs/performance/training.md
"$top_builddir/perf/halay-tft-modelled" | sed 's/^/    /' >"$file"
awk '/^    a formula, not measured/ { inside = 1 } inside && !/^    / { exit } inside' "$document" |
    diff - "$file" || {
    echo "$document has other figures: replace its lines by what this prints:"
    echo "    perf/halay-tft-modelled | sed 's/^/    /'"
    failed=1
}
rm -f "$file"
exit $failed
