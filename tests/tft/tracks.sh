#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What a training writes for other programs: TensorBoard's events (read back by tests/tft/events.py alone, and by
# TensorBoard where it is), CSV, of which Python makes MLflow's folder; all of it without a row too many where a run
# resumes. And its
# health: a training made sick is warned of; a healthy one is not.
. "${top_srcdir:?}/tests/tft/shell.sh"
needs_halayrun
data=$scratch/data.htd
python=${PYTHON:-python3}
needs "$python"

# A daily curve and noise; 'same' never changes.
awk 'BEGIN { print "t,load,same"; x = 7; for (i = 0; i < 1440; i++) { x = (x * 16807) % 2147483647
    printf "%d,%.4f,3\n", i, 50 + 8 * sin(i % 24 / 3.82) + 4 * x / 2147483647 } }' </dev/null >"$scratch/A_load.csv"
schema() {
    cat >"$scratch/$1.yaml" <<END
id: {from: filename, pattern: "^(.*)_load"}
time: {column: t, integer: true}
season: 24
inputs:
  load:  {column: load, role: target}
  steps: {calendar: steps, role: known, scale: none}
$2
window: {encoder: 24, horizon: 6}
split: {train: "< ${3-960}", valid: "< 1200", test: "< 1440"}
END
    check "prepare $1" "$tft" prepare --schema "$scratch/$1.yaml" "$scratch/${4-A}_load.csv" -o "$scratch/$1.htd"
}
train() {
    out=$1 data=$2
    shift 2
    "$tft" train --data "$scratch/$data.htd" --out "$scratch/$out" --hidden-size 4 --heads 1 --dropout 0 \
        --batch-size 16 --learning-rate 3e-3 --valid-samples 30 --threads 1 --clip-mode global --clip 1 "$@"
}
steps_of() {
    tail -n +2 "$1" | cut -d, -f1 | tr '\n' ' '
}

# ---- formats ----
schema healthy ""
check "train" train run healthy --max-steps 60 --eval-every 20 --log tensorboard,csv
check "resume" train run healthy --max-steps 80 --eval-every 20 --log tensorboard,csv --resume
[ "$(steps_of "$scratch/run/steps.csv")" = "10 20 30 40 50 60 70 80 " ] ||
    wrong "steps.csv: $(cat "$scratch/run/steps.csv")"
[ "$(steps_of "$scratch/run/evaluations.csv")" = "20 40 60 80 " ] ||
    wrong "evaluations.csv: $(cat "$scratch/run/evaluations.csv")"
# From an earlier checkpoint: later rows go, and are written again.
rm "$scratch"/run/checkpoints/manifest-*80.json
check "resume from 60" train run healthy --max-steps 80 --eval-every 20 --log tensorboard,csv --resume
[ "$(steps_of "$scratch/run/steps.csv")" = "10 20 30 40 50 60 70 80 " ] || wrong "steps.csv after a step back"
check "events" "$python" "$top_srcdir/tests/tft/events.py" "$scratch/run"
if "$python" -c 'import tensorboard' 2>/dev/null; then
    check "TensorBoard" "$python" "$top_srcdir/tests/tft/events.py" --tensorboard "$scratch/run"
else
    echo "skipped: no tensorboard"
fi
if ! [ -f "$top_builddir/.libs/libhalay-tft.so.1" ] ||
    ldd "$top_builddir/.libs/libhalay-tft.so.1" 2>/dev/null | grep -q -e libasan -e libtsan; then
    echo "skipped: an interpreter cannot load a sanitizer's library"
else
    for part in "the first" "the second"; do # which renews it
        check "write_mlflow, $part" env PYTHONPATH="$top_srcdir/python" PYTHONDONTWRITEBYTECODE=1 \
            HALAY_LIBRARY="$top_builddir/.libs/libhalay.so.1" "$python" -S -c \
            'import sys; from halay.tft import write_mlflow; print(write_mlflow(sys.argv[1]))' "$scratch/run"
    done
    metrics=$(echo "$scratch"/run/mlflow/0/????????????????????????????????/metrics)
    [ "$(cut -d' ' -f3 "$metrics/loss" | tr '\n' ' ')" = "10 20 30 40 50 60 70 80 " ] ||
        wrong "mlflow: $(cat "$metrics/loss")"
    [ "$(cut -d' ' -f3 "$metrics/valid_loss" | tr '\n' ' ')" = "20 40 60 80 " ] || wrong "mlflow: valid_loss"
    [ "$(cut -d, -f3 "$scratch/run/steps.csv" | tail -n +2)" = "$(cut -d' ' -f2 "$metrics/loss")" ] ||
        wrong "other losses"
    grep -q '^status: 3$' "$metrics/../meta.yaml" || wrong "mlflow: not finished: $(cat "$metrics/../meta.yaml")"
    [ "$(cat "$metrics/../params/hidden_size")" = 4 ] || wrong "mlflow: no parameters"
    if "$python" -c 'import mlflow' 2>/dev/null; then
        check "MLflow" "$python" "$top_srcdir/tests/tft/events.py" --mlflow "$scratch/run"
    else
        echo "skipped: no mlflow"
    fi
fi
refused 2 "'log: mlflow' was removed: write 'csv', of which Python's halay.tft.write_mlflow('RUN')" \
    train bad healthy --log csv,mlflow
refused 2 "'log' must be none, or some of tensorboard,csv" train bad healthy --log tensorboard,xml
check "none" train plain healthy --max-steps 20 --log none
if [ -e "$scratch/plain/steps.csv" ] || [ -e "$scratch/plain/mlflow" ]; then wrong "files nobody asked for"; fi

# ---- health ----
# How many; but for how the time was spent, which other programs on this machine change.
health() {
    grep '^health: ' "$scratch/said" | grep -vc 'is the bottleneck' || :
}
# Its thresholds are numbers, to which sanitizers add nothing.
if [ -z "${TEST_BRIEF-}" ]; then
    check "a healthy training" train well healthy --max-steps 400 --eval-every 100
    [ "$(health)" = 0 ] || wrong "a healthy training was warned of: $(grep '^health' "$scratch/said")"
    check "no progress" train still healthy --max-steps 400 --eval-every 100 --learning-rate 1e-9
    grep -q '^health: the loss does not fall' "$scratch/said" || wrong "nothing said: $(cat "$scratch/said")"
    [ "$(health)" = 1 ] || wrong "said more than once"
    grep -q '"health":\[[^]]*"stalled"' "$scratch/still/metrics.jsonl" || wrong "not in metrics.jsonl"
    check "off" train off healthy --max-steps 400 --learning-rate 1e-9 --health off
    [ "$(health)" = 0 ] || wrong "'health: off' speaks"
    # Noise alone, which can be known by heart and not forecast.
    awk -F, 'BEGIN { x = 11 } { x = (x * 16807) % 2147483647
        print NR == 1 ? $0 : $1 "," 40 + 20 * x / 2147483647 ",3" }' "$scratch/A_load.csv" >"$scratch/N_load.csv"
    schema short "" 64 N
    check "overfitting" train over short --max-steps 600 --eval-every 40 --patience 20 --hidden-size 24 --epochs 2000 \
        --learning-rate 1e-2
    grep -q '^health: overfitting: since step' "$scratch/said" || wrong "overfitting: $(cat "$scratch/said")"
fi
schema dead "  same:  {column: same, role: known}"
check "a dead input" train dead dead --max-steps 60
grep -q "^health: dead input: .* reached 'same'" "$scratch/said" || wrong "dead input: $(cat "$scratch/said")"
[ "$(health)" = 1 ] || wrong "more than the dead input: $(grep '^health' "$scratch/said")"

if [ -z "${TEST_BRIEF-}" ]; then
    # A rank that is held up two thirds of the time: the other waits for it.
    # shellcheck disable=SC2016 # of the ranks' shell
    "$halayrun" -np 2 sh -c 'echo $$ >"$1/rank.$HALAY_RANK"; shift; exec "$@"' sh "$scratch" "$tft" train \
        --data "$scratch/healthy.htd" --out "$scratch/slow" --hidden-size 16 --heads 1 --batch-size 64 --max-steps 150 \
        --valid-samples 30 --threads 1 >"$scratch/said" 2>&1 &
    job=$!
    while kill -0 $job 2>/dev/null; do
        if [ -s "$scratch/rank.1" ]; then
            kill -STOP "$(cat "$scratch/rank.1")" 2>/dev/null || :
            sleep .04
            kill -CONT "$(cat "$scratch/rank.1")" 2>/dev/null || :
        fi
        sleep .02
    done
    wait $job || wrong "a slow rank: $(cat "$scratch/said")"
    grep -q 'health: communication is the bottleneck: [0-9]* % of the time' "$scratch/said" && pass ||
        wrong "a slow rank: $(cat "$scratch/said")"
fi
finish
