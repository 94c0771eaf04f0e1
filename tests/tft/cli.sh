#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# halay-tft from outside: help, exit statuses, and files that are broken in every common way: a clear error, nothing
# half-written.
. "${top_srcdir:?}/tests/tft/shell.sh"
schema=$top_srcdir/data/pjm.yaml
piece=$top_srcdir/data/pjm

check "--version" "$tft" --version
check "--help" "$tft" --help
for command in prepare train evaluate backtest predict explain report export; do
    check "$command --help" "$tft" $command --help
    # shellcheck disable=SC2016 # the inner shell expands
    refused 1 "cannot write to standard output" sh -c '"$tft" "$1" --help >/dev/full' sh $command
done
refused 2 "usage: halay-tft COMMAND" "$tft"
refused 2 "unknown command 'trian'; did you mean 'train'?" "$tft" trian
refused 2 "did you mean '--schema'?" "$tft" prepare --shcema x
refused 2 "--schema is missing" "$tft" prepare -o x y
refused 2 "-o is missing" "$tft" prepare --schema "$schema" y
refused 2 "a FILE to read is missing" "$tft" prepare --schema "$schema" -o x
refused 2 "option --schema wants a value: --schema FILE" "$tft" prepare --schema
refused 2 "--data is missing" "$tft" train --out x
refused 2 "unknown option '--hiden-size'; did you mean '--hidden-size'?" "$tft" train --hiden-size 3
refused 2 "command 'calibrate' was removed: 'train' calibrates" "$tft" calibrate --checkpoint x
refused 2 "command 'compare' was removed: " "$tft" compare --data x
refused 2 "command 'watch' was removed: 'train' prints" "$tft" watch x
refused 2 "option --strategy: key 'strategy' was removed: every rank" "$tft" train --data x --out y --strategy zero1
refused 2 "option --schedule: 'schedule: plateau' was removed: 'cosine'" "$tft" train --data x --schedule=plateau
refused 2 "option --accumulate: key 'accumulate' was removed: multiply 'batch_size'" \
    "$tft" backtest --data x --accumulate 2
refused 2 "HALAY_TFT_STRATEGY': key 'strategy' was removed" env HALAY_TFT_STRATEGY=zero1 "$tft" train --data x --out y
refused 2 "unknown key 'speed'" env HALAY_TFT_SPEED=1 "$tft" train --data x --out y
refused 2 "must be a whole number" env HALAY_TFT_SEED=x "$tft" train --data x --out y
refused 1 "cannot open 'x'" "$tft" train --data x --out "$scratch/y"
refused 2 "option --split: 'tset' is not one of train, valid, test" "$tft" evaluate --checkpoint x --data y --split tset
refused 2 "option --stride: '0' is not a whole number from 1" "$tft" evaluate --checkpoint x --data y --stride 0
refused 2 "--data is missing" "$tft" explain --checkpoint x
refused 2 "option --regime: '2' is not" "$tft" explain --checkpoint x --data y --regime 2
refused 2 "did you mean '--no-occlusion'?" "$tft" explain --checkpoint x --data y --no-oclusion
refused 1 "holds no trained model" "$tft" explain --checkpoint "$scratch/none" --data y
refused 1 "holds no trained model" "$tft" evaluate --checkpoint "$scratch/none" --data y
refused 2 "'--future' is for forecasts beyond the end" "$tft" predict --checkpoint x --future f --split test y -o z
refused 2 "option --format: 'xml' is not one of csv, jsonl" "$tft" predict --checkpoint x --format xml y -o z
refused 2 "'--explain' and -o name the same file, '-'" "$tft" predict --checkpoint x --explain - y -o -
refused 2 "--format is missing" "$tft" export --checkpoint x -o y
refused 2 "unknown format 'keras': onnx is written here" "$tft" export --checkpoint x --format keras -o y
refused 2 "halay.tft.Forecaster.load('x').export('y', format='nvidia')" "$tft" export --checkpoint x \
    --format pytorch-forecasting -o y
refused 2 "standard output is taken by -o" "$tft" export --checkpoint x --format onnx -o -
refused 2 "command 'import' was removed: Python reads PyTorch's files: halay.tft.import_torch('FILE'" "$tft" import x

# Configuration files.
printf 'hidden_size: 8\nhidden_sise: 8\n' >"$scratch/c.yaml"
refused 2 "unknown key 'hidden_sise'; did you mean 'hidden_size'?" "$tft" train --data x --out y \
    --config "$scratch/c.yaml"
refused 1 "cannot open" "$tft" train --data x --out y --config "$scratch/none.yaml"

# Files to read: none of these may leave anything behind.
one=$scratch/COMED_hourly.csv.gz
out=$scratch/out.htd
head -c 50000 "$piece/COMED_hourly.csv.gz" >"$one"
refused 1 "is truncated: its compressed data end too early" "$tft" prepare --schema "$schema" "$one" -o "$out"
: >"$one"
refused 1 "COMED_hourly.csv.gz'" "$tft" prepare --schema "$schema" "$one" -o "$out"
: >"$scratch/A_hourly.csv"
refused 1 "is empty" "$tft" prepare --schema "$schema" "$scratch/A_hourly.csv" -o "$out"
echo 'Datetime,load' >"$scratch/A_hourly.csv"
refused 1 "has no column '*_MW' (its columns: 'Datetime', 'load')" "$tft" prepare --schema "$schema" \
    "$scratch/A_hourly.csv" -o "$out"
printf 'Datetime,A_MW\n2016-01-01 00:00:00,12\n2016-01-01 01:00:00,x\n' >"$scratch/A_hourly.csv"
refused 1 "row 3, column 'A_MW': 'x' is not a number" "$tft" prepare --schema "$schema" "$scratch/A_hourly.csv" \
    -o "$out"
refused 1 "does not match the id's pattern" "$tft" prepare --schema "$schema" "$schema" -o "$out"
refused 1 "cannot open" "$tft" prepare --schema "$schema" "$scratch/none.csv" -o "$out"
refused 1 "holds no file that matches" "$tft" prepare --schema "$schema" "$top_srcdir/tft" -o "$out"
printf 'Datetime,A_MW\n2016-01-01 00:00:00,12\n' >"$scratch/A_hourly.csv"
refused 1 "long enough for a training window" "$tft" prepare --schema "$schema" "$scratch/A_hourly.csv" -o "$out"
refused 1 "cannot write" "$tft" prepare --schema "$schema" "$piece" -o "$scratch/no/such/folder/x.htd"
if [ -e "$out" ] || ls "$scratch"/*.tmp.* >/dev/null 2>&1; then
    wrong "a failed prepare left a file behind"
else
    pass
fi
refused 1 "is not a file of prepared data" "$tft" train --data "$piece/COMED_hourly.csv.gz" --out "$scratch/run"
[ ! -e "$scratch/run" ] || wrong "a failed train left a folder behind"

# Tables that hold less, or more, than they should.
cat >"$scratch/long.yaml" <<'END'
id: {column: z}
inputs:
  y:    {column: y, role: target, fill: interpolate}
  x:    {column: x, role: observed, fill: forward}
  name: {column: c, role: observed, type: category}
  step: {calendar: steps, role: known}
window: {encoder: 2, horizon: 1}
split: {train: "< 2000000"}
END
long() {
    "$tft" prepare --schema "$scratch/long.yaml" "$scratch/long.csv" -o "$scratch/long.htd"
}
printf 'z,y,x,c\r\n' >"$scratch/long.csv"
refused 1 "hold no row" long
printf '\357\273\277z,y,x,c\r\na,1,,p\r\na,2,,p\r\na,3,,q\r\n' >"$scratch/long.csv"
refused 1 "long.csv', row 2: 'a' has no value for input 'x' (column 'x') at 0; nor anywhere else" long
printf 'z,y,x,c\na,1,much,p\n' >"$scratch/long.csv"
refused 1 "row 2, column 'x': 'much' is not a number" long
printf 'z,y,x,c\na,1,2,p\na,2,2,p\n' >"$scratch/long.csv"
refused 1 "long enough for a training window of 2 + 1 steps" long
awk 'BEGIN { print "z,y,x,c"; for (i = 0; i < 1000000; i++) print "a," i % 7 ",1,c" i }' </dev/null >"$scratch/long.csv"
check "a million categories" long
grep -q '^name  *c  *observed  *1000000 ' "$scratch/said" || wrong "not a million categories: $(cat "$scratch/said")"
rm "$scratch/long.csv" "$scratch/long.htd"

# shellcheck disable=SC2016 # the inner shell expands
refused 1 "cannot write to standard output" sh -c '"$tft" prepare --schema "$1" "$2" -o "$3" >/dev/full' sh \
    "$schema" "$piece" "$scratch/full.htd"

# What was there is still there after a failure.
echo keep >"$out"
refused 1 "cannot open" "$tft" prepare --schema "$schema" "$scratch/none.csv" -o "$out"
check "the old file is untouched" grep -q '^keep$' "$out"
finish
