#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What explain says of models whose data are made: the one input that decides comes first among the weights and in the
# check by occlusion, attention looks where the answer lies, a planted change is another regime. The same bytes on one
# and two ranks and threads, and nothing half-written.
. "${top_srcdir:?}/tests/tft/shell.sh"
needs_halayrun

# y is the driver's value of 12 steps before; in mode m1, of 6 steps before: now and then in training, once in the test.
made='BEGIN { x = 7; print "t,phase,mode,driver,noise,other,y"
    for (i = 0; i < 3000; i++) {
        for (k = 0; k < 3; k++) { x = (x * 16807) % 2147483647; v[k] = x / 2147483647 * 2 - 1 }
        d[i] = v[0]; m = modes && (i < 2200 ? int(i / 60) % 3 == 2 : i >= 2600 && i < 2700)
        lag = m ? 6 : 12
        printf "%d,p%d,m%d,%.4f,%.4f,%.4f,%.4f\n", i, i % 12, m, d[i], v[1], v[2], i < lag ? 0 : d[i - lag] } }'
# make NAME MODES MORE: the model in $scratch/NAME.
make_run() {
    mkdir "$scratch/of_$1"
    awk -v modes="$2" "$made" </dev/null >"$scratch/of_$1/A_made.csv"
    cat >"$scratch/$1.yaml" <<END
id: {from: filename, pattern: "^(.*)_made"}
time: {column: t, integer: true}
season: 12
inputs:
  y:      {column: y, role: target, scale: none}
  driver: {column: driver, role: observed, scale: none}
  noise:  {column: noise, role: observed, scale: none}
  other:  {column: other, role: known, scale: none}
  phase:  {column: phase, role: known, type: category}
$3
window: {encoder: 14, horizon: 4}
split: {train: "< 1900", valid: "< 2200", test: "< 3000"}
END
    check "prepare $1" "$tft" prepare --schema "$scratch/$1.yaml" "$scratch/of_$1/A_made.csv" -o "$scratch/$1.htd"
    check "train $1" "$tft" train --data "$scratch/$1.htd" --out "$scratch/$1" --hidden-size 16 --heads 1 \
        --dropout 0 --max-steps "$4" --batch-size 32 --learning-rate 1e-2 --valid-samples 100 --eval-every 500 \
        --patience 20 --ema 0 --schedule constant --quantiles 0.1,0.5,0.9 --threads 1
}
make_run made 0 "" 1500
set -- --checkpoint "$scratch/made" --data "$scratch/made.htd"
check "explain" "$tft" explain "$@" --csv "$scratch/tables" --json "$scratch/1.json" -o "$scratch/page.html"
drawn "$scratch/page.html"
for part in 'What the forecasts rely on' 'past input</th>' 'Without each input' 'Weight of other by horizon' \
    'Attention by horizon and lag' 'Attention by lag, one step ahead' Regimes 'farthest windows' 'farthest window<' \
    'The worst forecast' 'The best forecast' 'class="share"' '</html>'; do
    shows "$part"
done
for part in 'past</h3>' 'occlusion</h2>' 'by_horizon</h3>' 'farthest</h3>' '<td>worst</td>' '<td>best</td>' \
    '</html>'; do
    grep -q "$part" "$scratch/page.html" || wrong "the page has no '$part'"
done
sed '/^"use strict"/,$d' "$scratch/page.html" | grep -qw 'nan\|inf' && wrong "the page has numbers that are none"
if [ -e "$scratch/drawn" ] && grep -qw 'NaN\|Infinity\|undefined' "$scratch/drawn"; then
    wrong "the charts have no numbers"
fi
check "again" "$tft" explain "$@"
mv "$scratch/said" "$scratch/table"

# first BLOCK COLUMN: the input with the largest number of that block of the table.
first() {
    awk -v block="$1" -v column="$2" '/^[^ ]/ || /^$/ { on = index($0, block) == 1 }
        on && /^  / && (name == "" || $column > most) { name = $1; most = $column } END { print name }' "$scratch/table"
}
is() {
    [ "$2" = "$3" ] && pass || wrong "$1: '$2', not '$3': $(cat "$scratch/table")"
}
is "heaviest past input" "$(first 'past inputs' 2)" driver
is "most missed input" "$(first 'without the input' 3)" driver
is "the verdict" "$(sed -n 's/^(.*; \(.*\))$/\1/p' "$scratch/table")" "driver is first in both"
shows 'The rank correlation of the two is [-0-9.]*: the weights .*; driver is first in both'
grep -q '<td class="long">the weights .*; driver is first in both</td>' "$scratch/page.html" ||
    wrong "the page does not say how far the weights may be believed"
is "where attention looks" "$(sed -n 's/^attention looks most \([0-9]*\) .*/\1/p' "$scratch/table")" 12

# The tables, and the JSON's keys.
is "importance.csv" "$(sed 1q "$scratch/tables/importance.csv")" part,input,step,windows,mean,p10,p50,p90
is "attention.csv" "$(sed 1q "$scratch/tables/attention.csv")" horizon,head,step,lag,mean,p10,p50,p90
is "windows.csv" "$(sed 1q "$scratch/tables/windows.csv")" \
    "entity,origin,distance,regime,past driver,past noise,past other,past phase,past y,future other,future phase"
awk -F, 'NR > 1 && $3 != "all" { sum[$1 $3] += $5 }
    END { for (k in sum) if (sum[k] < .9999 || sum[k] > 1.0001) exit 1 }' "$scratch/tables/importance.csv" ||
    wrong "the weights of a step do not add up to 1"
awk -F, 'NR > 1 { sum[$1 $2] += $5 } END { for (k in sum) if (sum[k] < .9999 || sum[k] > 1.0001) exit 1 }' \
    "$scratch/tables/attention.csv" || wrong "the attention of a step does not add up to 1"
awk 'END { exit NR != 201 }' "$scratch/tables/windows.csv" || wrong "windows.csv has not 200 windows"
for key in split windows stride step encoder horizon q_risk importance by_step by_entity over_time attention peaks \
    by_lag by_head by_horizon regimes threshold distance farthest nearer forecasts which mae usual occlusion inputs \
    rank_correlation; do
    grep -q "\"$key\": " "$scratch/1.json" || wrong "the JSON has no '$key'"
done

# Percentiles by entity are those of the windows' weights, to a bin of 1/64 of themselves.
told=$(awk '/"by_entity"/ { on = 1 } on && /"past"/ { on = 2 } on == 2 && /"driver"/ { on = 3 }
    on == 3 && /"p90"/ { sub(/.*: /, ""); print $1 + 0; exit }' "$scratch/1.json")
column=$(sed 1q "$scratch/tables/windows.csv" | tr ',' '\n' | grep -n '^past driver$' | cut -d: -f1)
found=$(sed 1d "$scratch/tables/windows.csv" | cut -d, -f"$column" | sort -g | sed -n 180p)
awk "BEGIN { exit !($told > .98 * $found && $told < 1.02 * $found) }" </dev/null && pass ||
    wrong "by_entity: P90 of the driver's weight is $told, of the windows' it is $found"

# Percentiles by horizon: of a single window they are its values, to a bin; of all they are in order and differ.
check "explain one window" "$tft" explain "$@" --no-occlusion --stride 800 --csv "$scratch/one"
awk -F, 'function near(a, b) { return a > .98 * b - 2e-5 && a < 1.02 * b + 2e-5 }
    FNR == 1 { file++; next }
    file == 1 && $1 == "future" || file == 2 && $2 == "all" { n[file]++; p = file == 1 ? $6 : $7
        if (p == "" || !near(p, $5)) exit 1 }
    END { exit n[1] != 10 || n[2] != 66 }' "$scratch/one/importance.csv" "$scratch/one/attention.csv" ||
    wrong "a window's percentiles are not its values"
awk -F, 'NR > 1 && $1 == "future" { if ($6 > $7 || $7 > $8) exit 1; wide += $6 < $8 } END { exit !wide }' \
    "$scratch/tables/importance.csv" || wrong "percentiles by horizon are out of order, or all the same"

# The farthest window is that of windows.csv; none is called another regime that is not beyond the threshold.
# of_json BLOCK KEY: the first value of that key behind that of the block.
of_json() {
    awk -v block="\"$1\":" -v key="\"$2\":" '$1 == block { on = 1 }
        on && $1 == key { sub(/^[^:]*: /, ""); gsub(/[",]/, ""); print; exit }' "$scratch/1.json"
}
is "the farthest window" "$(of_json farthest origin)" \
    "$(sed 1d "$scratch/tables/windows.csv" | sort -t, -gk3 | tail -n 1 | cut -d, -f2)"
is "windows listed" "$(awk '/"farthest"/ { on = 1 } on && /"nearer"/ { n++ } END { print n }' "$scratch/1.json")" 10
is "windows called another regime" "$(grep -c '"regime": true' "$scratch/1.json")" 0
is "the farthest is at" "$(of_json farthest nearer)" 0.995

# Of each forecast: the weights that windows.csv has; attention whose mean over the forecasts is that of attention.csv;
# the same numbers in both formats and on two ranks; and the forecasts that predict writes without.
windows="--checkpoint $scratch/made --split test --stride 4 $scratch/of_made/A_made.csv"
# shellcheck disable=SC2086 # one word each
{
    check "predict" "$tft" predict $windows -o "$scratch/plain.csv"
    check "predict --explain" "$tft" predict $windows --explain "$scratch/why.csv" -o "$scratch/p.csv"
    check "as JSON" "$tft" predict $windows --explain "$scratch/why.jsonl" -o "$scratch/p.csv"
    check "predict on two ranks" "$halayrun" -np 2 "$tft" predict $windows --explain "$scratch/why2.csv" \
        -o "$scratch/p2.csv"
    "$tft" predict $windows --explain - -o "$scratch/p.csv" >"$scratch/dash"
    refused 1 "cannot write" "$tft" predict $windows --explain "$scratch/none/why.csv" -o "$scratch/no.csv"
}
# The worst and the best forecast are by the errors of predict's medians.
awk -F, 'FNR == 1 { file++; next } file == 1 { y[$1] = $7; next }
    { d = $6 - y[$3]; sum[$2] += d < 0 ? -d : d } END { for (o in sum) print sum[o], o }' \
    "$scratch/of_made/A_made.csv" "$scratch/plain.csv" | sort -g >"$scratch/errors"
is "worst" "$(awk '/"origin"/ { origin = $2 } /"which": "worst"/ { print origin + 0 }' FS='"origin": "' \
    "$scratch/1.json")" "$(tail -n 1 "$scratch/errors" | cut -d' ' -f2)"
is "best" "$(awk '/"origin"/ { origin = $2 } /"which": "best"/ { print origin + 0 }' FS='"origin": "' \
    "$scratch/1.json")" "$(head -n 1 "$scratch/errors" | cut -d' ' -f2)"
check "a forecast by name" "$tft" explain "$@" --no-occlusion --window A,2207 --json "$scratch/2.json"
is "which" "$(grep -c '"which": "chosen"' "$scratch/2.json")" 1
refused 1 "'--window A,2200' names no window: that entity's first one has the origin '2199'" \
    "$tft" explain "$@" --no-occlusion --window A,2200
refused 1 "the data have no entity 'B'" "$tft" explain "$@" --no-occlusion --window B,2199
refused 1 "write its entity, a comma, and its origin" "$tft" explain "$@" --no-occlusion --window 2199
cmp "$scratch/plain.csv" "$scratch/p.csv" || wrong "an explanation changes the forecasts"
cmp "$scratch/why.csv" "$scratch/why2.csv" || wrong "two ranks explain otherwise"
cmp "$scratch/why.csv" "$scratch/dash" || wrong "standard output has something else"
[ ! -e "$scratch/no.csv" ] || wrong "a failed predict left a file behind"
cut -d, -f1,2,5-11 "$scratch/tables/windows.csv" >"$scratch/expected"
cut -d, -f1-9 "$scratch/why.csv" | cmp - "$scratch/expected" || wrong "other weights than explain's"
awk -F, 'FNR == 1 { file++; next } file == 1 { if ($2 != "all") { sum[$4] += $5; n[$4]++ } next }
    { for (i = 10; i <= NF; i++) mean[i - 10] += $i }
    END { for (k in sum) { d = sum[k] / n[k] - mean[k] / (FNR - 1); if (d * d > 1e-10) exit 1; lags++ }
        exit lags != 18 }' "$scratch/tables/attention.csv" "$scratch/why.csv" ||
    wrong "other attention than explain's"
is "the first line of JSON" "$(sed -n '1s/:[0-9][^,}]*/:N/g; 1s/\[.*\]/[]/p' "$scratch/why.jsonl")" "$(printf %s \
    '{"entity":"A","origin":"2199","static":{},"past":{"driver":N,"noise":N,"other":N,"phase":N,"y":N},' \
    '"future":{"other":N,"phase":N},"attention":[]}')"
sed 1d "$scratch/why.csv" >"$scratch/expected"
sed 's/"[^"]*"://g; s/[]["{}]//g; s/,,/,/' "$scratch/why.jsonl" | paste -d, "$scratch/expected" - |
    awk -F, '{ for (i = 1; i <= 27; i++) if ($i != $(i + 27)) exit 1 } END { exit NF != 54 || NR != 200 }' ||
    wrong "JSON lines have other numbers"

# On other threads and ranks.
check "one thread" taskset -c "$(taskset -cp $$ | sed 's/.*: //; s/[,-].*//')" "$tft" explain "$@" \
    --json "$scratch/2.json"
cmp "$scratch/1.json" "$scratch/2.json" || wrong "one thread gives other numbers"
check "two ranks" "$halayrun" -np 2 "$tft" explain "$@" --json "$scratch/2.json" --csv "$scratch/tables2"
cmp "$scratch/1.json" "$scratch/2.json" || wrong "two ranks give other numbers"
diff -r "$scratch/tables" "$scratch/tables2" >&2 || wrong "two ranks write other tables"

# A change that is planted in the test: windows that look elsewhere, told apart by a distance half-way.
make_run modes 1 "  mode:   {column: mode, role: known, type: category}" 2000
# regimes MORE: means of the distances and shares of regimes, outside of the change and in it.
regimes() {
    check "explain modes" "$tft" explain --checkpoint "$scratch/modes" --data "$scratch/modes.htd" \
        --csv "$scratch/regimes" --no-occlusion "$@"
    awk -F, 'NR > 1 { there = $2 >= 2600 && $2 < 2695; n[there]++; sum[there] += $3; found[there] += $4 }
        END { print sum[0] / n[0], sum[1] / n[1], found[0] / n[0], found[1] / n[1] }' "$scratch/regimes/windows.csv"
}
regimes >"$scratch/found"
half=$(awk '{ print ($1 + $2) / 2 }' "$scratch/found")
regimes --regime "$half" >"$scratch/found"
awk '{ exit !($2 > 1.4 * $1 && $3 < .3 && $4 > .7) }' "$scratch/found" ||
    wrong "the planted regime: $(cat "$scratch/found")"

# A window with a short past is no regime for that: it is compared with what the mean has in its steps. With all of the
# mean its distance would be .73.
sed 's/encoder: 14/encoder: 14, min_encoder: 2/' "$scratch/made.yaml" >"$scratch/short.yaml"
check "prepare short" "$tft" prepare --schema "$scratch/short.yaml" "$scratch/of_made/A_made.csv" \
    -o "$scratch/short.htd"
check "train short" "$tft" train --data "$scratch/short.htd" --out "$scratch/short" --hidden-size 4 --heads 1 \
    --max-steps 10 --batch-size 16 --valid-samples 50 --threads 1
check "explain short" "$tft" explain --checkpoint "$scratch/short" --data "$scratch/short.htd" --split train \
    --no-occlusion --csv "$scratch/short_tables"
awk -F, 'NR == 2 { exit !($2 == 1 && $3 < .5) }' "$scratch/short_tables/windows.csv" ||
    wrong "a short window: $(sed -n 2p "$scratch/short_tables/windows.csv")"

# What cannot be written.
refused 1 "cannot write to standard output" sh -c '"$tft" explain "$@" --no-occlusion >/dev/full' sh "$@"
refused 1 "No space left on device" sh -c '"$tft" explain "$@" --no-occlusion --json - >/dev/full' sh "$@"
: >"$scratch/file"
refused 1 "$scratch/file" "$tft" explain "$@" --no-occlusion --csv "$scratch/file"
refused 1 "cannot make" "$tft" explain "$@" --no-occlusion --csv "$scratch/none/tables"
finish
