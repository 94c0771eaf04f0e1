#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# ONNX graphs of trained models: their form; and their forecasts, of windows of data/pjm with what tables have, beside
# those of predict, run by NumPy alone and by onnxruntime where it is. Between the schemas and the conformances there is
# each role, source, fill, scale and category.
. "${top_srcdir:?}/tests/tft/shell.sh"
python=
for wish in 'import numpy, onnx' 'import numpy' ''; do # the first one that has most
    for candidate in "${PYTHON:-python3}" python3 /usr/bin/python3; do
        [ -n "$python" ] || ! "$candidate" -c "$wish" 2>/dev/null || python=$candidate
    done
done
[ -n "$python" ] || {
    echo "skipped: no python3"
    exit 77
}
has_numpy=1
for package in numpy onnx onnxruntime; do
    "$python" -c "import $package" 2>/dev/null && continue
    echo "skipped: no $package"
    [ $package != numpy ] || has_numpy=
done
windows="$python $top_srcdir/tests/tft/onnx_windows.py"
table=$scratch/table.csv
# shellcheck disable=SC2086 # two words
check "the table" $windows table "$top_srcdir/data/pjm" "$table"

schema() {
    {
        printf 'id: {column: zone}\ntime: {column: time}\nevery: 1h\ninputs:\n'
        cat
        printf 'window: {encoder: %s, horizon: %s}\n' "$2" "$3"
        printf 'split: {train: "< 2016-05-01", valid: "< 2016-05-10", test: "< 2016-05-19"}\n'
    } >"$scratch/$1.yaml"
}
schema plain 48 12 <<'END'
  load: {column: load, role: target, fill: interpolate}
  hour: {calendar: hour, role: known}
  hours: {calendar: steps, role: known}
  zone: {from: id, role: static, type: category}
END
schema bare "1, min_encoder: 1" 1 <<'END'
  flow: {column: flow, role: target, fill: interpolate, per: all, scale: robust}
  hour: {calendar: hour, role: known, per: all, scale: robust}
END
days='{"2016-03-27": Easter, "2016-05-01": May Day}'
schema rich 48 12 <<END
  load: {column: load, role: target, fill: interpolate, per: window, lags: [24],
         missing_indicator: true}
  flow: {column: flow, role: target, fill: forward, scale: log1p-standard, per: all}
  temp: {column: temp, role: observed, fill: forward, missing_number: -99, missing_indicator: true, lags: [6]}
  wind: {column: wind, role: known, fill: {constant: 3.5}, scale: robust}
  gust: {column: wind, role: observed, fill: {constant: 0}, scale: robust, per: all, transform: log1p}
  event: {column: event, role: known, type: category, unknown: true}
  sky: {column: sky, role: observed, type: category, fill: forward, missing_indicator: true}
  hour: {calendar: hour, role: known, type: category}
  month: {calendar: month, role: known, type: category}
  day_of_week: {calendar: day_of_week, role: known}
  turn: {calendar: hour, role: known, cyclic: true}
  holiday: {holiday: $days, role: known, type: category}
  day_off: {holiday: $days, role: known, scale: none}
  until: {holiday: $days, role: known, days: until}
  wave: {fourier: {period: 7 days, terms: 2}, role: known}
  zone: {from: id, role: static, type: category}
  area: {from: id, role: static, type: category, map: {COMED: west, DAYTON: mid, DEOK: mid, PJME: east}}
  region: {column: region, role: static, type: category}
  size: {column: size, role: static}
END
schema short "48, min_encoder: 24" 6 <<'END'
  load: {column: load, role: target, fill: interpolate, per: window}
  second: {column: flow, role: target, fill: interpolate, per: window, missing_indicator: true}
  temp: {column: temp, role: observed, fill: interpolate, missing_number: -99, per: window, lags: [6]}
  event: {column: event, role: known, type: category, unknown: true, map: {sale: good, strike: bad}}
  sky: {column: sky, role: observed, type: category, fill: {constant: rain}}
  hour: {calendar: hour, role: known, per: all}
  zone: {from: id, role: static, type: category, unknown: true}
END

# export_of SCHEMA RUN [KEY VALUE]...: train, export with a description.
export_of() {
    name=$1 run=$scratch/$2
    shift 2
    check "train $name $*" "$tft" train --data "$scratch/$name.htd" --out "$run" --hidden-size 12 --heads 2 \
        --max-steps 12 --eval-every 12 --valid-samples 32 --threads 1 "$@"
    check "export $name $*" "$tft" export --checkpoint "$run" --format onnx --explain -o "$run.onnx" \
        --config "$run.json"
    check "form of $name $*" "$top_builddir/tests/tft/onnx_form" "$run.onnx"
}
# beside RUN SPLIT STRIDE: the graph's forecasts and weights beside those of predict.
beside() {
    [ -n "$has_numpy" ] || return 0
    run=$scratch/$1
    check "predict $1" "$tft" predict --checkpoint "$run" "$table" --split "$2" --stride "$3" -o "$run.csv" \
        --explain "$run.weights.csv"
    # shellcheck disable=SC2086 # two words
    check "forecasts of $1" $windows compare "$table" "$run.onnx" "$run.json" "$run.csv" "$run.weights.csv"
    echo "$1, $2: $(cat "$scratch/said")"
}

for name in plain rich bare; do
    check "prepare $name" "$tft" prepare --schema "$scratch/$name.yaml" "$table" -o "$scratch/$name.htd"
done
grep -v PJME "$table" >"$scratch/known.csv" # the fourth zone is new to the model
check "prepare short" "$tft" prepare --schema "$scratch/short.yaml" "$scratch/known.csv" -o "$scratch/short.htd"

for conformance in published nvidia pytorch-forecasting; do
    export_of rich "rich-$conformance" --conformance $conformance
    beside "rich-$conformance" test 5
    export_of bare "bare-$conformance" --conformance $conformance --quantiles 0.5
    beside "bare-$conformance" test 9
done
export_of short short --crossing forbid --quantiles 0.02,0.1,0.5,0.9,0.98 --calibrate conformal
beside short train 11
export_of plain plain --calibrate none
beside plain test 7
export_of plain gaussian --loss gaussian
beside gaussian test 17
export_of plain point --loss huber
beside point test 17
# shellcheck disable=SC2086 # two words
[ -z "$has_numpy" ] || check "what a graph cannot forecast" $windows refuse "$scratch/plain.onnx" "$scratch/plain.json"

# ---- options ----
check "without weights" "$tft" export --checkpoint "$scratch/plain" --format onnx -o "$scratch/less.onnx"
grep -q '"horizon": 12' "$scratch/said" || wrong "no description: $(cat "$scratch/said")"
"$top_builddir/tests/tft/onnx_form" "$scratch/less.onnx" | grep '^output' >"$scratch/outputs"
[ "$(cat "$scratch/outputs")" = "output quantiles" ] || wrong "outputs: $(cat "$scratch/outputs")"
check "without calibration" "$tft" export --checkpoint "$scratch/short" --format onnx --calibrate none \
    -o "$scratch/less.onnx"
grep -q '"calibration": "none"' "$scratch/said" || wrong "calibrated: $(cat "$scratch/said")"
cp -r "$scratch/short" "$scratch/trained"
sed '/"parameters"/s/: "[^"]*"/: "0"/' "$scratch/short/calibration.json" >"$scratch/trained/calibration.json"
sed '/"calibrate"/s/conformal/auto/' "$scratch/short/run.json" >"$scratch/trained/run.json"
check "a calibration of other weights" "$tft" export --checkpoint "$scratch/trained" --format onnx \
    -o "$scratch/less.onnx"
grep -q "'$scratch/trained/calibration.json' was made with other parameters" "$scratch/said" ||
    wrong "which calibration is not said: $(cat "$scratch/said")"
refused 1 "'$scratch/trained/calibration.json' was made with other parameters" "$tft" export --format onnx \
    --checkpoint "$scratch/trained" --calibrate conformal -o "$scratch/no.onnx"
bad=$scratch/bad.onnx
refused 1 "cannot calibrate 'rolling'" "$tft" export --checkpoint "$scratch/short" --format onnx \
    --calibrate rolling -o "$bad"
refused 1 "has no calibration" "$tft" export --checkpoint "$scratch/plain" --format onnx --calibrate conformal -o "$bad"
check "train poisson" "$tft" train --data "$scratch/plain.htd" --out "$scratch/poisson" --hidden-size 4 --heads 1 \
    --max-steps 2 --valid-samples 8 --threads 1 --loss poisson
refused 1 "'loss: poisson': quantiles of this distribution" "$tft" export --checkpoint "$scratch/poisson" \
    --format onnx -o "$bad"
refused 1 "holds no trained model" "$tft" export --checkpoint "$scratch/none" --format onnx -o "$bad"
[ ! -e "$bad" ] || wrong "a file stays behind"
finish
