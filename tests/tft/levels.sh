#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A series whose level leaves that of the training span: scaled by the training span its forecasts lose to the last day
# repeated, and train, evaluate and report say so; scaled per window they are better, and blended they beat it. A run
# knows by which season it was trained.
. "${top_srcdir:?}/tests/tft/shell.sh"

# 60 days of a rising load with a daily curve and noise of its own.
awk 'BEGIN { print "t,load"; x = 7; for (i = 0; i < 1440; i++) { x = (x * 16807) % 2147483647
    printf "%d,%.4f\n", i, 50 + .1 * i + 8 * sin(i % 24 / 3.82) + 4 * x / 2147483647 } }' </dev/null \
    >"$scratch/A_load.csv"

# schema NAME KEYS: with more keys of the target.
schema() {
    cat >"$scratch/$1.yaml" <<END
id: {from: filename, pattern: "^(.*)_load"}
time: {column: t, integer: true}
season: ${3-24}
inputs:
  load:  {column: load, role: target$2}
  steps: {calendar: steps, role: known, scale: none}
window: {encoder: 48, horizon: 24}
split: {train: "< 960", valid: "< 1200", test: "< 1440"}
END
    check "prepare $1" "$tft" prepare --schema "$scratch/$1.yaml" "$scratch/A_load.csv" -o "$scratch/$1.htd"
}
# train NAME [STEPS]: 60 of them; what it and evaluate say is in NAME.trained and NAME.scores.
train() {
    check "train $1" "$tft" train --data "$scratch/$1.htd" --out "$scratch/$1" --hidden-size 8 --heads 2 --dropout 0 \
        --max-steps ${2-60} --batch-size 32 --learning-rate 3e-3 --quantiles 0.1,0.5,0.9 --valid-samples 40 --threads 1
    cp "$scratch/said" "$scratch/$1.trained"
    check "evaluate $1" "$tft" evaluate --checkpoint "$scratch/$1" --data "$scratch/$1.htd" --stride 24
    cp "$scratch/said" "$scratch/$1.scores"
}
# risk NAME FORECAST: its P50.
risk() {
    sed -n "s/^$2  *[0-9.]* *\([0-9.]*\) .*/\1/p" "$scratch/$1.scores"
}
# holds WHAT A RELATION B
holds() {
    awk "BEGIN { exit !($2 + 0 > 0 && $4 + 0 > 0 && $2 $3 $4) }" </dev/null && pass || wrong "$1: $2, not $3 $4"
}
# advises NAME KEYS: training and evaluation say that it is no better than naive, and which keys the target lacks.
advises() {
    for said in trained scores; do
        grep "^no better than naive: the forecast's p50 is [^;]* that of '[^']*' [0-9.]*; " \
            "$scratch/$1.$said" | grep -q " the target (schema) can have $2\$" ||
            wrong "$1.$said does not advise $2: $(grep naive "$scratch/$1.$said")"
    done
}

schema plain ''
schema window ', per: window'
for name in plain window; do
    train $name
done
naive=$(risk plain 'value of 24 steps before')
holds "by the training span" "$(risk plain forecast)" ">" "10 * $naive"
holds "per window" "$(risk window forecast)" "<" "$(risk plain forecast) / 5"
advises plain "'per: window', 'blend: season'"
schema poor ', per: window' '[24, 2000]' # no series is so long
train poor 1
advises poor "'blend: season'"
check "report" "$tft" report --run "$scratch/plain" --data "$scratch/plain.htd" -o "$scratch/page.html"
drawn "$scratch/page.html"
shows '<b>Warning: </b>'
grep -qF "no better than naive: the forecast" "$scratch/page.html" || wrong "the page has no warning"

# The best naive forecast is what a forecast must beat: of a random walk its last value, whatever season the schema
# gives; of one that rises faster and faster drift; of one that comes round its season. The walk leaves its level at the
# end of training, so that the model has no share.
# best NAME KEY FORMULA: of x, the value before, i, and u between -1 and 1.
best() {
    awk 'BEGIN { print "t,load"; s = 7; x = 100; for (i = 0; i < 1440; i++) { s = (s * 16807) % 2147483647
        u = 2 * s / 2147483647 - 1; x = '"$3"'; printf "%d,%.4f\n", i, x } }' </dev/null >"$scratch/A_load.csv"
    schema "$1" ', blend: season' 5
    train "$1" 2
    [ "$(grep -c "  the best; forecast's p50 is [0-9.]* % " "$scratch/$1.scores")" = 1 ] ||
        wrong "not one is the best for $1: $(cat "$scratch/$1.scores")"
    check "evaluate $1, JSON" "$tft" evaluate --checkpoint "$scratch/$1" --data "$scratch/$1.htd" \
        --json "$scratch/$1.json"
    tr -d ' \n' <"$scratch/$1.json" | grep -q "\"best_naive\":{\"forecast\":\"$2\"," ||
        wrong "the best of $1: $(cat "$scratch/$1.scores")"
}
mv "$scratch/A_load.csv" "$scratch/load.csv"
best walk 1 'x + u + (i == 900 ? 1000 : 0)'
for said in trained scores; do
    grep -q "^no better than naive: .*'last value repeated" "$scratch/walk.$said" ||
        wrong "a random walk, $said: $(cat "$scratch/walk.$said")"
done
check "report of a walk" "$tft" report --run "$scratch/walk" --data "$scratch/walk.htd" -o "$scratch/page.html"
drawn "$scratch/page.html"
shows 'the best naive forecast, last value repeated'
shows '<td>last value and drift, plain</td>'
grep -q '<td>last value repeated</td>' "$scratch/page.html" &&
    grep -q '<td>last value and drift</td>' "$scratch/page.html" || wrong "the page has not the last value"
best rise drift '.01 * i * i + u'
# Two baselines that hit every value in validation have parts of one another.
best round 5 '100 + i % 5 * i % 5 + (i < 1200 ? 0 : .01 * u)'
grep -q "forecast by .*season of 5, .*mean of seasons of 5" "$scratch/round.trained" ||
    wrong "baselines that are alike: $(grep "is forecast by" "$scratch/round.trained")"
mv "$scratch/load.csv" "$scratch/A_load.csv"

# Blended with baselines, by weights that validation chooses once, for the best parameters, whose file keeps them.
# weight NAME: the model's, in the first third.
weight() {
    grep -ao '"blend":"\[[0-9.]*' "$scratch/$1/model.safetensors" | sed 's/.*\[//'
}
# losses NAME: those of its validations.
losses() {
    sed 's/.*"valid_loss":\([0-9.e-]*\),.*/\1/' "$scratch/$1/metrics.jsonl"
}
schema blend ', blend: season'
train blend
grep -q "^'load' is forecast by [01][.][0-9/.]* .*\(theta\|season\)" "$scratch/blend.trained" ||
    wrong "the blend is not described: $(cat "$scratch/blend.trained")"
grep -qxF "$(grep "^'load' is forecast by" "$scratch/blend.trained")" "$scratch/blend.scores" ||
    wrong "evaluate does not say what the forecast is made of"
[ "$(losses blend)" = "$(losses plain)" ] || wrong "the blend is part of the validation: $(losses blend)"
! grep "no better than naive" "$scratch/blend.trained" "$scratch/blend.scores" || wrong "a good forecast is warned of"
holds "a blend with a poor model" "$(risk blend forecast)" "<" "1.05 * $naive"
holds "whose weight" "1 + $(weight blend)" "<" "1.3"
cp "$scratch/blend/model.safetensors" "$scratch/before"
check "resume blend" "$tft" train --data "$scratch/blend.htd" --out "$scratch/blend" --hidden-size 8 --heads 2 \
    --dropout 0 --max-steps 60 --batch-size 32 --learning-rate 3e-3 --quantiles 0.1,0.5,0.9 --valid-samples 40 \
    --threads 1 --resume
cmp -s "$scratch/before" "$scratch/blend/model.safetensors" || wrong "the resumed run has other weights"
check "train with few" "$tft" train --data "$scratch/blend.htd" --out "$scratch/few" --hidden-size 8 --heads 2 \
    --max-steps 1 --valid-samples 1 --threads 1
check "export blend" "$tft" export --checkpoint "$scratch/blend" --format onnx -o "$scratch/blend.onnx"
grep -q "the graph forecasts by the model alone" "$scratch/said" || wrong "the export does not say what it lacks"
holds "one window" "$(weight few)" ">" ".45"
holds "one window, above" "$(weight few)" "<" ".55"
cp -r "$scratch/few" "$scratch/older"
sed 's/"baselines"/"seasons"/' "$scratch/few/run.json" >"$scratch/older/run.json"
refused 1 "does not have the baselines that this version blends forecasts with: train the model again" \
    "$tft" predict --checkpoint "$scratch/older" "$scratch/A_load.csv" -o "$scratch/a.csv"
check "predict blend" "$tft" predict --checkpoint "$scratch/blend" "$scratch/A_load.csv" -o "$scratch/a.csv"
sed 's/role: known, scale: none/role: known, blend: season/' "$scratch/blend.yaml" >"$scratch/known.yaml"
refused 1 "'blend' must be left out: it is for targets" \
    "$tft" prepare --schema "$scratch/known.yaml" "$scratch/A_load.csv" -o "$scratch/known.htd"

# A load of a thousand times the size, which training has not seen.
awk -F, 'NR == 1 || NR < 500 { print NR == 1 ? $0 : $1 "," 1000 * $2 }' "$scratch/A_load.csv" >"$scratch/B_load.csv"
check "predict another entity" "$tft" predict --checkpoint "$scratch/window" "$scratch/B_load.csv" -o "$scratch/b.csv"
awk -F, 'NR > 1 { n++; wide += $6 < 80000 || $6 > 130000 } END { exit !(n == 24 && !wide) }' "$scratch/b.csv" ||
    wrong "forecasts of the new entity: $(sed -n 2,3p "$scratch/b.csv")"

schema week ', blend: season' 12
refused 1 "was prepared with a season of 12 steps (seasons: 1), the model's forecasts are blended by one of 24" \
    "$tft" evaluate --checkpoint "$scratch/blend" --data "$scratch/week.htd"
schema week ', blend: season' '[24, 168]' # whose past is longer than what the model keeps
refused 1 "was prepared with a season of 24 steps (seasons: 2), the model's forecasts are blended by one of 24" \
    "$tft" evaluate --checkpoint "$scratch/blend" --data "$scratch/week.htd"
sed 's/role: known, scale: none/role: known, per: window/' "$scratch/window.yaml" >"$scratch/calendar.yaml"
refused 1 "a window scales real columns that have a 'scale' already" \
    "$tft" prepare --schema "$scratch/calendar.yaml" "$scratch/A_load.csv" -o "$scratch/calendar.htd"
finish
