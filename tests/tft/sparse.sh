#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# 4,000 series, of which a step sees 32: their embedding is updated by rows. One, two and four
# ranks and two threads end with the same parameters, bit for bit; so do a job that resumes with fewer ranks and one
# that loses a rank.
. "${top_srcdir:?}/tests/tft/shell.sh"
needs_halayrun
awk 'BEGIN { print "t,id,y,hour"; for (e = 0; e < 4000; e++) for (t = 0; t < 8; t++)
    print t ",s" e "," (e * 7919 % 1000 + t * t % 7) / 100 "," t % 4 }' </dev/null >"$scratch/series.csv"
cat >"$scratch/series.yaml" <<'END'
id: {column: id}
time: {column: t, integer: true}
inputs:
  y: {column: y, role: target}
  hour: {column: hour, role: known}
  id: {column: id, role: static, type: category}
window: {encoder: 2, horizon: 1}
split: {train: "< 6", valid: "< 7", test: "< 8"}
END
data=$scratch/series.htd
check "prepare" "$tft" prepare --schema "$scratch/series.yaml" "$scratch/series.csv" -o "$data"

train() {
    ranks=$1 name=$2
    shift 2
    "$halayrun" -np "$ranks" "$tft" train --data "$data" --out "$scratch/$name" --hidden-size 8 --heads 2 --threads 1 \
        --batch-size 32 --learning-rate 0.01 --train-samples 300 --valid-samples 50 --epochs 2 --deterministic ranks \
        --sparse-rows 4000 --schedule constant "$@"
}
same() {
    check "$1 and one rank" cmp "$scratch/one/model.safetensors" "$scratch/$1/model.safetensors"
}
check "one rank" train 1 one
check "two ranks of two threads" train 2 two --threads 2
same two
check "four ranks" train 4 four
same four
check "three ranks" train 3 three --deterministic run
check "its first epoch" train 2 resumed --max-steps 10
check "resumed" train 1 resumed --resume --max-steps 0
same resumed

# A rank is lost: the others' rows are gathered in less room.
pause_at manifest-0000000025.json "$halayrun" --verbose -np 2 --min-np 1 "$tft" train --elastic --data "$data" \
    --out "$scratch/lost" --hidden-size 8 --heads 2 --threads 1 --batch-size 32 --learning-rate 0.01 \
    --train-samples 1600 --valid-samples 50 --epochs 2 --checkpoint-every 25 --deterministic ranks --sparse-rows 4000 \
    --schedule constant
kill -9 "$(pid_of 1)"
go_on
status=0
wait $job || status=$?
if [ $status != 0 ] || ! grep -q '^halayrun: re-formed' "$scratch/said"; then
    wrong "a lost rank: exit status $status"
    tail -n 30 "$scratch/said"
fi
check "nothing lost" train 1 kept --train-samples 1600
check "a lost rank" cmp "$scratch/kept/model.safetensors" "$scratch/lost/model.safetensors"

# The parameters alone: after the header, which has the keys.
tensors() {
    length=$(od -A n -t u8 -N 8 "$1")
    tail -c +$((length + 9)) "$1" >"$2"
}
check "whole tables" train 1 whole --sparse-rows 0
for run in one whole; do tensors "$scratch/$run/model.safetensors" "$scratch/$run.tensors"; done
if cmp -s "$scratch/one.tensors" "$scratch/whole.tensors"; then wrong "no table was sparse"; fi
finish
