#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Losses on made data whose distribution is known: intervals of 80 % hold 78 to 82 % where the data are of that
# distribution, points reach the median and the mean; forecasts keep what they promise in files, with blends,
# calibration and several ranks; what does not fit together is refused.
. "${top_srcdir:?}/tests/tft/shell.sh"

# Five targets whose levels follow a known input: normal, Student's t (4 degrees of freedom), Poisson, negative binomial
# (dispersion 1/4), Tweedie (power 3/2, dispersion 1: the gamma values are exponential).
awk 'function u() { x = (x * 16807) % 2147483647; return x / 2147483647 }
function normal() { return sqrt(-2 * log(u())) * cos(6.283185307 * u()) }
function poisson(mean,  p, end, n) { p = u(); end = exp(-mean); for (n = 0; p > end; n++) p *= u(); return n }
BEGIN { x = 20251; print "t,level,normal,heavy,count,burst,rain"
    for (t = 0; t < 9000; t++) {
        level = sin(t / 3.7) + .5 * sin(t / 17); m = 5 + 2 * level; rain = 0
        for (n = poisson(2 * sqrt(m)); n > 0; n--) rain -= log(u()) * sqrt(m) / 2
        printf "%d,%.6f,%.6f,%.6f,", t, level, 20 + 4 * level + (2 + .8 * level) * normal(),
            20 + 4 * level + normal() / sqrt(-log(u() * u()) / 2)
        printf "%d,%d,%.6f\n", poisson(300 + 120 * level),
            poisson(-log(u() * u() * u() * u()) * (50 + 20 * level)), rain } }' </dev/null >"$scratch/A_made.csv"

# schema NAME COLUMN KEYS ENCODER: with more keys of the target.
schema() {
    cat >"$scratch/$1.yaml" <<END
id: {from: filename, pattern: "^(.*)_made"}
time: {column: t, integer: true}
season: 23
inputs:
  y:     {column: $2, role: target${3-}}
  level: {column: level, role: known}
window: {encoder: ${4-6}, horizon: 4}
split: {train: "< 4000", valid: "< 5000", test: "< 9000"}
END
    check "prepare $1" "$tft" prepare --schema "$scratch/$1.yaml" "$scratch/A_made.csv" -o "$scratch/$1.htd"
}
# train DATA RUN KEYS: 200 steps.
train() {
    data=$scratch/$1.htd run=$scratch/$2
    shift 2
    check "train $run" "$tft" train --data "$data" --out "$run" --hidden-size 4 --heads 2 --dropout 0 --max-steps 200 \
        --batch-size 32 --learning-rate 0.02 --clip-mode global --clip 1 --schedule cosine --valid-samples 300 \
        --threads 1 "$@"
}
# evaluate DATA RUN KEYS: into RUN.json.
evaluate() {
    data=$scratch/$1.htd run=$scratch/$2
    shift 2
    check "evaluate $run" "$tft" evaluate --checkpoint "$run" --data "$data" --stride 4 --json "$run.json" "$@"
}
# score RUN KEY: the first one.
score() {
    sed -n "s/^ *\"$2\": \([^,]*\),*\$/\1/p" "$scratch/$1.json" | head -n 1
}
# within WHAT A LEAST MOST
within() {
    if awk "BEGIN { exit !(\"$2\" != \"\" && $2 + 0 >= $3 && $2 + 0 <= $4) }" </dev/null; then pass
    else wrong "$1: $2 is not in $3 to $4"; fi
}

for column in normal heavy count burst rain; do
    schema $column $column
done

# ---- distributions ----
for pair in normal:gaussian heavy:student-t count:poisson burst:negative-binomial rain:tweedie; do
    loss=${pair#*:} column=${pair%:*}
    train $column $loss --loss $loss
    evaluate $column $loss
    within "$loss: 80 % hold" "$(score $loss coverage_p10_p90)" .78 .82
    within "$loss: below the lower end, over 10 %" "$(score $loss p0_p10)" .8 1.2
    within "$loss: above the upper end, over 10 %" "$(score $loss p90_p100)" .8 1.2
    [ "$(score $loss crossing)" = 0.0 ] || wrong "$loss: quantiles cross"
done
train burst other --loss poisson
evaluate burst other
within "the right likelihood" "$(score negative-binomial loss)" 5.85 5.95 # that of the true parameters is 5.89
within "poisson's likelihood of what it is not" "$(score other loss)" 10 100

# Counts are whole, and what never falls is 0, in the file and in its scores.
check "predict counts" "$tft" predict --checkpoint "$scratch/negative-binomial" "$scratch/A_made.csv" --split test \
    --stride 97 -o "$scratch/counts.csv"
sed 1d "$scratch/counts.csv" | cut -d, -f 5-7 >"$scratch/quantiles"
if grep -q '\.' "$scratch/quantiles"; then wrong "a quantile of counts is no whole number"; fi
train rain lower --loss tweedie --quantiles 0.001,0.1,0.9
check "predict rain" "$tft" predict --checkpoint "$scratch/lower" "$scratch/A_made.csv" --split test --stride 97 \
    -o "$scratch/rain.csv"
cut -d, -f 5 "$scratch/rain.csv" | grep -qx 0 || wrong "the lowest quantile of rain is never 0"

# ---- points ----
# bias RUN: the mean forecast over the mean of the burst that was made.
bias() {
    check "predict $1" "$tft" predict --checkpoint "$scratch/$1" "$scratch/A_made.csv" --split test --stride 4 \
        -o "$scratch/points.csv"
    awk -F, 'FNR == NR { mean[$1] = 200 + 80 * $2; next } FNR > 1 { p += $5; y += mean[$3] } END { print p / y }' \
        "$scratch/A_made.csv" "$scratch/points.csv"
}
for loss in mae mse huber; do
    train burst $loss --loss $loss --max-steps 400 --learning-rate 0.01
    evaluate burst $loss
done
# Half of the values are below the median, which is 8 % below the mean.
within "below mae's point" "$(score mae p0_p50)" .95 1.05
within "mse's point" "$(bias mse)" .98 1.02
within "mae's point" "$(bias mae)" .90 .94
within "huber's point" "$(bias huber)" .905 .97
head -n 1 "$scratch/points.csv" | grep -qx 'entity,origin,t,horizon,y_0.5' || wrong "a point has other columns"
[ "$(score mse coverage_p50_p50)" = null ] || wrong "a point has an interval"

# ---- together with the rest ----
schema moving count ', per: window, blend: season' 24
for loss in poisson gaussian mse; do
    train moving moving-$loss --loss $loss
    evaluate moving moving-$loss
    within "moving $loss" "$(score moving-$loss p50)" .01 .165 # naive: .169
done
train count poisson --loss poisson --resume --calibrate rolling
evaluate count poisson --calibrate rolling
within "calibrated counts" "$(score poisson coverage_p10_p90)" .78 .83
check "report" "$tft" report --run "$scratch/mse" --data "$scratch/burst.htd" --stride 400 -o "$scratch/page.html"
drawn "$scratch/page.html"
if grep -q '"coverage_[a-z0-9_]*":[0-9]' "$scratch/page.html" ||
    grep -q '^<td>0.0 %<\|Reliability' "$scratch/drawn" 2>/dev/null; then
    wrong "the page gives a point an interval"
fi
check "explain" "$tft" explain --checkpoint "$scratch/tweedie" --data "$scratch/rain.htd" --stride 400 \
    -o "$scratch/explained"
if [ -x "$halayrun" ]; then
    cp "$scratch/student-t.json" "$scratch/alone"
    check "evaluate on 2 ranks" "$halayrun" -np 2 "$tft" evaluate --checkpoint "$scratch/student-t" \
        --data "$scratch/heavy.htd" --stride 4 --json "$scratch/student-t.json"
    check "the same scores" cmp "$scratch/alone" "$scratch/student-t.json"
fi

# The body of a model goes over to another loss, its last layer begins anew.
check "init from" "$tft" train --data "$scratch/burst.htd" --out "$scratch/after" --init-from "$scratch/mse" \
    --loss negative-binomial --hidden-size 4 --heads 2 --max-steps 1 --valid-samples 10 --threads 1
grep -q "init_from: of '.*mse': .* 2 begin at random; another loss" "$scratch/said" || wrong "$(cat "$scratch/said")"

# ---- refused ----
refuse() {
    status=$1 text=$2 data=$3
    shift 3
    refused "$status" "$text" "$tft" train --data "$scratch/$data.htd" --out "$scratch/refused" --hidden-size 4 \
        --heads 2 "$@"
}
refuse 1 "target 'y' of 'A' is 3.93199 at 0: 'loss: poisson' is of whole numbers from 0 on; tweedie is of others, too" \
    rain --loss poisson
sed 's/^\(4,[^,]*\),/\1,-/' "$scratch/A_made.csv" >"$scratch/B_made.csv"
sed 's/\^(.\*)_made/^(B)_made/' "$scratch/normal.yaml" >"$scratch/below.yaml"
check "prepare below" "$tft" prepare --schema "$scratch/below.yaml" "$scratch/B_made.csv" -o "$scratch/below.htd"
refuse 1 "at 4: 'loss: tweedie' is of numbers from 0 on; gaussian and student-t are of any" below --loss tweedie
schema logarithm count ', scale: log1p-standard'
refuse 1 "target 'y' is scaled by its logarithm, and 'loss: poisson' is of the target itself" logarithm --loss poisson
refuse 2 "'loss: gaussian' is of 'conformance: published'" normal --loss gaussian --conformance nvidia
refuse 2 "'crossing: forbid' is of 'loss: quantiles'" normal --loss gaussian --crossing forbid
refuse 2 "'loss: mae' forecasts one number: leave 'quantiles' out" normal --loss mae --quantiles 0.1,0.9
refuse 2 "'loss: mae' forecasts one number and so has no interval to calibrate" normal --loss mae --calibrate conformal
refused 1 "'loss' was \"mse\" when the run began and is \"mae\" now" "$tft" train --data "$scratch/burst.htd" \
    --out "$scratch/mse" --hidden-size 4 --heads 2 --dropout 0 --resume --loss mae
finish
