#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Calibrated intervals in all commands: train and `train --resume` write the same file, evaluate, predict and report
# use it, with the same bits on any ranks; what is missing, stale or too small is said.
. "${top_srcdir:?}/tests/tft/shell.sh"
needs_halayrun
data=$scratch/piece.htd run=$scratch/run
check "prepare" "$tft" prepare --schema "$top_srcdir/data/pjm.yaml" "$top_srcdir/data/pjm" -o "$data"
# What the program of a training is started with.
with=
train() {
    $with "$tft" train --data "$data" --hidden-size 8 --heads 2 --batch-size 32 --learning-rate 0.01 --clip 1 \
        --max-steps 20 --valid-samples 50 --ema 0 --schedule constant "$@"
}
evaluate() {
    "$tft" evaluate --checkpoint "$run" --data "$data" --stride 48 "$@"
}
# A key of the scores of all values.
score() {
    sed -n "s/^ \"$2\": \([^,]*\),*\$/\1/p" "$1"
}

# A run that has ended is calibrated by two ranks.
resume_on_2() {
    with="$halayrun -np 2"
    train --out "$scratch/plain" --resume
    with=
}

check "train" train --out "$run" --calibrate rolling
grep -q "intervals calibrated on 736 validation windows, each entity by its own" "$scratch/said" ||
    wrong "train does not say how it calibrates: $(cat "$scratch/said")"
check "train by default" train --out "$scratch/plain"
check "the same weights" cmp "$run/model.safetensors" "$scratch/plain/model.safetensors"
check "the same calibration" cmp "$run/calibration.json" "$scratch/plain/calibration.json"
rm "$scratch/plain/calibration.json"
refused 1 "'$scratch/plain' has no calibration: 'halay-tft train --out $scratch/plain --data DATA --resume" \
    "$tft" evaluate --checkpoint "$scratch/plain" --data "$data" --stride 480 --calibrate conformal
check "calibrate in next to no time" train --out "$scratch/plain" --resume --max-time 0.001
grep -q "intervals calibrated on 64 validation windows" "$scratch/said" ||
    wrong "a resumed run's end takes what time it likes: $(cat "$scratch/said")"
rm "$scratch/plain/calibration.json"
check "calibrate on 2 ranks" resume_on_2
check "calibrations" cmp "$run/calibration.json" "$scratch/plain/calibration.json"

check "evaluate, rolling" evaluate --json "$scratch/rolling"
check "evaluate on 2 ranks" "$halayrun" -np 2 "$tft" evaluate --checkpoint "$run" --data "$data" --stride 48 \
    --json "$scratch/rolling2"
check "evaluations" cmp "$scratch/rolling" "$scratch/rolling2"
check "evaluate, conformal" evaluate --calibrate conformal --json "$scratch/conformal"
check "evaluate, none" evaluate --calibrate none --json "$scratch/none"
rm "$scratch/plain/calibration.json"
check "evaluate a run that is not calibrated" "$tft" evaluate --checkpoint "$scratch/plain" --data "$data" --stride 48 \
    --json "$scratch/without"
check "none is as the model says" cmp "$scratch/none" "$scratch/without"
sed 's/"parameters": *"[0-9a-f]*"/"parameters": "0"/' "$run/calibration.json" >"$scratch/plain/calibration.json"
check "evaluate by default" "$tft" evaluate --checkpoint "$scratch/plain" --data "$data" --stride 480
grep -q "warning: intervals are not calibrated: '.*' was made with other parameters" "$scratch/said" ||
    wrong "a calibration of another model: $(cat "$scratch/said")"
check "export by default" "$tft" export --checkpoint "$scratch/plain" --format onnx -o "$scratch/plain.onnx"
grep -q "warning: intervals are not calibrated: '.*' was made with other parameters" "$scratch/said" ||
    wrong "an export by a calibration of another model: $(cat "$scratch/said")"
refused 1 "was made with other parameters" "$tft" export --checkpoint "$scratch/plain" --format onnx \
    --calibrate conformal -o "$scratch/plain.onnx"
share=$(score "$scratch/rolling" coverage_p10_p90)
awk -v share="$share" 'BEGIN { exit !(share > .77 && share < .83) }' || wrong "rolling: 80 % are $share"
raw=$(sed -n '/^ "uncalibrated"/,/^ }/s/^  "coverage_p10_p90": \([^,]*\),*$/\1/p' "$scratch/rolling")
[ "$raw" = "$(score "$scratch/none" coverage_p10_p90)" ] || wrong "uncalibrated: $raw"
[ "$(score "$scratch/conformal" crossing)" = 0.0 ] || wrong "calibrated quantiles cross"
[ "$(score "$scratch/conformal" coverage_p10_p90)" != "$raw" ] || wrong "conformal changes nothing"

files=$top_srcdir/data/pjm
check "predict" "$tft" predict --checkpoint "$run" "$files" -o "$scratch/rolling.csv"
grep -q "^intervals calibrated 100 % by the entity's latest windows" "$scratch/said" || wrong "$(cat "$scratch/said")"
check "predict on 2 ranks" "$halayrun" -np 2 "$tft" predict --checkpoint "$run" "$files" -o "$scratch/rolling2.csv"
check "forecasts" cmp "$scratch/rolling.csv" "$scratch/rolling2.csv"
check "predict, none" "$tft" predict --checkpoint "$run" "$files" --calibrate none -o "$scratch/none.csv"
if cmp -s "$scratch/rolling.csv" "$scratch/none.csv"; then wrong "predict's intervals are not calibrated"; fi
# Only intervals move.
cut -d, -f 1-4,6 "$scratch/rolling.csv" >"$scratch/medians"
cut -d, -f 1-4,6 "$scratch/none.csv" | cmp -s - "$scratch/medians" || wrong "calibration moves medians"

check "report" "$tft" report --run "$run" --data "$data" --stride 480 -o "$scratch/page.html"
drawn "$scratch/page.html"
shows '<td>not calibrated</td>'
grep -q "<h3>uncalibrated</h3>\|<td>uncalibrated " "$scratch/page.html" ||
    wrong "the page does not compare intervals with the model's"

check "backtest" "$tft" backtest --data "$data" --out "$scratch/fits" --hidden-size 8 --heads 2 --max-steps 5 \
    --valid-samples 50 --stride 480 --calibrate conformal --json "$scratch/back"
[ -s "$scratch/fits/fit-0001/calibration.json" ] || wrong "backtest does not calibrate its fits"
grep -q '^ "uncalibrated"' "$scratch/back" || wrong "backtest does not use the calibration"
check "backtest on two ranks that share no files" apart 2 "$tft" backtest --data "$data" --out fits --hidden-size 8 \
    --heads 2 --max-steps 5 --valid-samples 50 --stride 480 --calibrate conformal --deterministic ranks \
    --json "$scratch/back2"
grep -q '^ "uncalibrated"' "$scratch/back2" || wrong "backtest on two ranks does not use the calibration"

# Other parameters than it was made with; damaged; too little to learn from.
check "train longer" train --out "$run" --calibrate none --resume --max-steps 30
refused 1 "run/calibration.json' was made with other parameters" evaluate --calibrate rolling
check "calibrate" train --out "$run" --calibrate rolling --resume --max-steps 30
# An older file has no factors for flat forecasts, of which there are none here.
check "evaluate the longer run" evaluate --calibrate conformal --json "$scratch/longer"
sed -z 's/,\n *null//g' "$run/calibration.json" >"$scratch/older"
! cmp -s "$run/calibration.json" "$scratch/older" || wrong "no factors of flat forecasts are in the file"
cp "$scratch/older" "$run/calibration.json"
check "evaluate by an older calibration" evaluate --calibrate conformal --json "$scratch/by_older"
check "scores by an older calibration" cmp "$scratch/longer" "$scratch/by_older"
sed '/"by_horizon"/,/[0-9]/s/-*[0-9][0-9.]*/"x"/' "$run/calibration.json" >"$scratch/less"
cp "$scratch/less" "$run/calibration.json"
refused 1 "run/calibration.json' is damaged" evaluate --calibrate rolling
sed 's/valid: "< 2018-02-01"/valid: "< 2017-08-10"/' "$top_srcdir/data/pjm.yaml" >"$scratch/short.yaml"
check "prepare" "$tft" prepare --schema "$scratch/short.yaml" "$files" -o "$scratch/short.htd"
run=$scratch/short
check "calibrate on 9 days" train --data "$scratch/short.htd" --out "$run" --max-steps 1
grep -q "^intervals calibrated on 36 validation windows: 0 of 4 entities by their own" "$scratch/said" ||
    wrong "few windows are not said: $(cat "$scratch/said")"
check "evaluate" evaluate --calibrate conformal
grep -q "^intervals calibrated 100 % by all entities' validation windows" "$scratch/said" ||
    wrong "evaluate does not say by what: $(cat "$scratch/said")"
sed 's/valid: "< 2018-02-01"/valid: "< 2017-08-03"/' "$top_srcdir/data/pjm.yaml" >"$scratch/short.yaml"
check "prepare" "$tft" prepare --schema "$scratch/short.yaml" "$files" -o "$scratch/short.htd"
run=$scratch/shorter
check "calibrate on 2 days" train --data "$scratch/short.htd" --out "$run" --max-steps 1 --calibrate conformal
grep -q "^intervals are not calibrated: 8 validation windows" "$scratch/said" || wrong "$(cat "$scratch/said")"
check "evaluate" evaluate --calibrate conformal
grep -q "^intervals calibrated 100 % not, for want of windows" "$scratch/said" || wrong "$(cat "$scratch/said")"
finish
