#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Time zones: Python's zoneinfo is asked the same; quarters of an hour by a clock that is put forward and back, through
# prepare, train and predict; a run keeps its zone's rules.
. "${top_srcdir:?}/tests/tft/shell.sh"

if python3 -c 'import zoneinfo; zoneinfo.ZoneInfo("Europe/Berlin")' 2>/dev/null; then
    check "the same as Python's zoneinfo" python3 "$top_srcdir/tests/tft/zones.py" "$top_builddir/tests/tft/test_zone" -
else
    echo "skipped: no Python with zoneinfo"
fi

# 50 days around 2020-10-25, every 15 minutes, by the clock of Berlin and without an offset.
awk 'BEGIN { print "unique_id,ds,y"; first = 1600898400 # 2020-09-24 00:00 in Berlin, 22:00 UTC
    for (i = 0; i < 50 * 96; i++) { t = first + i * 900; shown = t + (t < 1603587600 ? 7200 : 3600)
        hour = int(shown / 3600) % 24
        y = 10 + 5 * (hour > 7 && hour < 19) + i * 7919 % 13 / 10
        print "a," strftime("%Y-%m-%d %H:%M:%S", shown, 1) "," y } }' \
    </dev/null >"$scratch/load.csv" 2>/dev/null
[ "$(wc -l <"$scratch/load.csv")" -eq 4801 ] || wrong "made $(wc -l <"$scratch/load.csv") rows"
prepare() {
    "$tft" prepare --preset long --zone Europe/Berlin --encoder 96 --horizon 96 "$@"
}
check "prepare" prepare "$scratch/load.csv" -o "$scratch/load.htd"
for line in 'preset  *every 15min, window 96 + 96; train < 2020-11-07 23:15:00' 'rows in a repeated hour  *8' \
    'rows missing, added  *0' 'rows  *4800' 'minute ' \
    'time  *2020-09-24 00:00:00+02:00 to 2020-11-12 22:45:00+01:00'; do
    grep -q "^$line" "$scratch/said" || wrong "prepare does not say '$line': $(cat "$scratch/said")"
done
refused 1 "did you mean 'Europe/Berlin'?" "$tft" prepare --preset long --zone Berlin "$scratch/load.csv" -o "$scratch/x"
check "train" "$tft" train --data "$scratch/load.htd" --out "$scratch/run" --hidden-size 8 --heads 2 --max-steps 2 \
    --batch-size 8 --valid-samples 8 --threads 1
check "evaluate" "$tft" evaluate --checkpoint "$scratch/run" --data "$scratch/load.htd" --stride 96
grep -q '^value of 672 steps before ' "$scratch/said" || wrong "no season of a week: $(cat "$scratch/said")"
# From 01:00 on there are 24 hours to midnight, not 23.
head -n 2981 "$scratch/load.csv" >"$scratch/short.csv"
check "predict" "$tft" predict --checkpoint "$scratch/run" "$scratch/short.csv" -o "$scratch/out.csv"
[ "$(sed -n 2p "$scratch/out.csv" | cut -d, -f1-4)" = \
    "a,2020-10-25 00:45:00+02:00,2020-10-25 01:00:00+02:00,1" ] || wrong "predict: $(head -n 2 "$scratch/out.csv")"
[ "$(sed '$!d' "$scratch/out.csv" | cut -d, -f3,4)" = "2020-10-25 23:45:00+01:00,96" ] ||
    wrong "predict: $(sed '$!d' "$scratch/out.csv")"
grep -q '"then": *"CET-1CEST,M3.5.0,M10.5.0/3"' "$scratch/run/run.json" || wrong "the run has no rules of its zone"

# A run without a zone reads times as its training's were written, with an offset or without one.
hours() { # SUFFIX NAME: 100 hours
    awk -v suffix="$1" 'BEGIN { print "unique_id,ds,y"
        for (i = 0; i < 100; i++)
            printf "a,2020-01-%02d %02d:00:00%s,%d\n", 1 + int(i / 24), i % 24, suffix, i % 24 }' </dev/null \
        >"$scratch/$2.csv"
}
hours "" none
hours Z utc
hours +01:00 offset
for kind in none utc; do
    check "prepare $kind" "$tft" prepare --preset long --encoder 8 --horizon 2 "$scratch/$kind.csv" \
        -o "$scratch/$kind.htd"
    check "train $kind" "$tft" train --data "$scratch/$kind.htd" --out "$scratch/$kind" --hidden-size 2 --heads 1 \
        --max-steps 1 --threads 1 --keep 0
    check "predict $kind" "$tft" predict --checkpoint "$scratch/$kind" "$scratch/$kind.csv" -o "$scratch/out.csv"
done
check "predict another offset" "$tft" predict --checkpoint "$scratch/utc" "$scratch/offset.csv" -o "$scratch/out.csv"
first="row 2, column 'ds': '2020-01-01 00:00:00"
have="from UTC, and the times that the model was trained on have"
refused 1 "none.csv', $first' has no offset $have one; write these" "$tft" predict --checkpoint "$scratch/utc" \
    "$scratch/none.csv" -o "$scratch/out.csv"
for kind in utc offset; do
    refused 1 "has an offset $have none; write these as those" "$tft" predict --checkpoint "$scratch/none" \
        "$scratch/$kind.csv" -o "$scratch/out.csv"
done
refused 1 "prepared from times with an offset from UTC; those that the model was trained on have none" \
    "$tft" evaluate --checkpoint "$scratch/none" --data "$scratch/utc.htd"
refused 1 "has an offset $have none" "$tft" predict --checkpoint "$scratch/none" --future "$scratch/utc.csv" \
    "$scratch/none.csv" -o "$scratch/out.csv"
finish
