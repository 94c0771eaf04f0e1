#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# examples/forecast.c: from a CSV file to forecasts, alone and as a job of two ranks, which all get the same.
set -e
forecast=$top_builddir/examples/forecast run=$top_builddir/launcher/halayrun
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
wrong() {
    echo "$1"
    exit 1
}

awk 'BEGIN {
    print "unique_id,ds,y"
    for (e = 1; e <= 2; e++)
        for (h = 0; h < 24 * 20; h++)
            printf "series %d,2024-01-%02d %02d:00,%g\n", e, 1 + int(h / 24), h % 24, 50 * e + 10 * sin(h / 3.8)
}' >"$scratch/series.csv"

TMPDIR=$scratch "$forecast" "$scratch/series.csv" >"$scratch/alone" 2>"$scratch/said" || wrong "$(cat "$scratch/said")"
[ "$(wc -l <"$scratch/alone")" = 49 ] || wrong "not two times 24 hours: $(cat "$scratch/alone")"
# 50 and 100, and at most 10 up and down: an untrained model, or the other series' forecasts, would be far off.
awk -F, 'NR > 1 && ($3 < 30 || ($1 == "series 1" ? $3 > 70 : $3 < 80)) { print; bad = 1 }
    NR > 1 && !($4 <= $3 && $3 <= $5) { print; bad = 1 } END { exit bad }' "$scratch/alone" || wrong "is far off"
[ -z "$(find "$scratch" -name 'halay-tft.*')" ] || wrong "a folder stays behind"

if "$forecast" "$scratch/missing.csv" >"$scratch/out" 2>"$scratch/said"; then wrong "a missing file is no error"; fi
grep -q "^forecast: .*missing.csv" "$scratch/said" || wrong "the error has no text: $(cat "$scratch/said")"

[ -x "$run" ] || { echo "skipped: no halayrun"; exit 77; }
TMPDIR=$scratch "$run" -np 2 "$forecast" "$scratch/series.csv" >"$scratch/two" 2>"$scratch/said" ||
    wrong "$(cat "$scratch/said")"
sed "s/^\[[01]\] //" "$scratch/two" | sort | uniq -c | awk '$1 != 2 { print; bad = 1 } END { exit bad || NR != 49 }' ||
    wrong "two ranks do not forecast the same"

"$run" -np 2 "$top_builddir/tests/tft/library_ranks" "$scratch/series.csv" >"$scratch/ranks" 2>&1 ||
    wrong "a rank that gives up: $(cat "$scratch/ranks")"
