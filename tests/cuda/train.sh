#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# halay-tft --device cuda, with both modules for the emulation: trainings end with the processor's losses, alone, as
# ranks on one device and on two, with a moving average; two ranks have the bits of one where that is asked for; each
# device resumes from the other's checkpoint; evaluate, predict and explain give the same numbers, and in bf16 about the
# same; errors name what is missing.
. "${top_srcdir:?}/tests/tft/shell.sh"
needs_halayrun
modules=${CUDA_MODULES-$top_builddir/tests/cuda/module/.libs} # gpu-check's: a GPU
export HALAY_MODULE_PATH="$modules"
# 12 series, of which a step sees less than a quarter: their embedding's gradient is sparse.
awk 'BEGIN { print "t,id,y,hour"; for (e = 0; e < 12; e++) for (t = 0; t < 40; t++)
    print t ",s" e "," (e % 3 + 1) * (3 + sin(t / 3 + e)) + (e * 7 + t * t % 7) / 50 "," t % 4 }' </dev/null \
    >"$scratch/series.csv"
cat >"$scratch/series.yaml" <<'END'
id: {column: id}
time: {column: t, integer: true}
inputs:
  y: {column: y, role: target}
  hour: {column: hour, role: known}
  id: {column: id, role: static, type: category}
window: {encoder: 4, horizon: 2}
split: {train: "< 28", valid: "< 34", test: "< 40"}
END
data=$scratch/series.htd
check "prepare" "$tft" prepare --schema "$scratch/series.yaml" "$scratch/series.csv" -o "$data"

# train NAME [OPTION...]: two steps of three samples, or of three granules of one.
train() {
    name=$1
    shift
    "$@" train --data "$data" --out "$scratch/$name" --hidden-size 4 --heads 2 --batch-size 3 --learning-rate 0.01 \
        --max-steps 2 --eval-every 1 --valid-samples 6 --threads 1 --schedule constant \
        --clip-mode global --sparse-rows $sparse --calibrate $calibrate $options
}
# close WHAT A B [SQUARE]: the first of two files of numbers has those of the second, within rounding, or to within the
# root of SQUARE.
close() {
    tr -cs '0-9.e\n-' ' ' <"$2" >"$scratch/left"
    tr -cs '0-9.e\n-' ' ' <"$3" | paste -d' ' "$scratch/left" - | awk -v off="${4-1e-8}" '
        { for (i = 1; i <= NF / 2; i++) { d = $i - $(i + NF / 2); n++
            if (d * d > off * (1 + $i * $i)) bad++ } }
        END { exit !(n > 0 && !bad) }' && pass || wrong "$1: $(head -n 3 "$2") and $(head -n 3 "$3")"
}
counted() { awk -v what="$1" '$1 == what { n = $2 } END { print n + 0 }' "$scratch/counts"; }
losses() {
    sed 's/.*"train_loss":\([0-9.e-]*\),.*"valid_loss":\([0-9.e-]*\),.*/\1 \2/' "$scratch/$1/metrics.jsonl" \
        >"$scratch/$1.losses"
    [ "$(wc -l <"$scratch/$1.losses")" -eq 2 ] || wrong "$1 has no two evaluations"
}
same() {
    losses "$1"
    close "losses of $1 and $2" "$scratch/$1.losses" "$scratch/$2.losses" ${3-}
}

options='' sparse=1 calibrate=auto
check "on the processor" train cpu "$tft"
losses cpu
options='--device cuda --deterministic ranks --granule 1'
check "on the device, in granules" train gpu "$tft"
same gpu cpu
check "two ranks on one device" train two "$halayrun" -np 2 "$tft"
check "one rank and two" cmp "$scratch/gpu/model.safetensors" "$scratch/two/model.safetensors"
options="$options --elastic --checkpoint-every 1"
# shellcheck disable=SC2016 # the shell of a rank expands it: one that was lost is not replaced
train lone pause_at manifest-0000000001.json "$halayrun" --verbose -np 2 --min-np 1 --cooldown 60:60 \
    sh -c '[ "$HALAY_ELASTIC" = 0 ] && exec "$0" "$@"' "$tft"
kill -9 "$(pid_of 1)"
go_on
wait "$job" && pass || wrong "a rank that stays alone fails: $(tail -n 30 "$scratch/said")"
same lone gpu
options='--device cuda' calibrate=none
EMU_DEVICES=2 EMU_COUNTS=$scratch/counts check "three ranks on two devices" train three "$halayrun" -np 3 "$tft"
summed=$(counted bytes_from_devices)
same three cpu
# Dense gradients, also with an average.
sparse=0 options='--ema 0.9'
check "an average on the processor, dense" train average "$tft"
losses average
options='--ema 0.9 --device cuda --max-steps 1'
check "half of it on two" train average.two "$halayrun" -np 2 "$tft"
options='--ema 0.9 --device cuda --resume'
check "the other half on three" train average.two "$halayrun" -np 3 "$tft"
same average.two average
options='--ema 0.9 --log tensorboard --dtype bf16'
HALAY_TFT_DEVICE=cuda check "an average on the device, in bf16" train rounded "$tft"
same rounded average 1e-4
sparse=1
options='--device cuda --max-steps 1'
check "half of it there" train there "$tft"
options='--device cpu --resume'
check "the other half here" train there "$tft"
same there cpu
options='--device cpu --max-steps 1'
check "half of it here" train back "$tft"
options='--device cuda --resume'
check "the other half there" train back "$tft"
same back cpu

: >"$scratch/counts" # no device, no counts
for device in cpu cuda; do
    EMU_COUNTS=$scratch/counts check "evaluate, $device" "$tft" evaluate --checkpoint "$scratch/cpu" \
        --data "$data" --device $device --csv "$scratch/scores.$device"
    evaluated=$(counted bytes_to_devices)
    check "predict, $device" "$tft" predict --checkpoint "$scratch/cpu" --split test "$scratch/series.csv" \
        --device $device -o "$scratch/forecasts.$device.csv"
    check "predict in bf16, $device" "$tft" predict --checkpoint "$scratch/rounded" --split test "$scratch/series.csv" \
        --device $device -o "$scratch/rounded.$device.csv"
    check "evaluate in bf16, $device" "$tft" evaluate --checkpoint "$scratch/rounded" --data "$data" --device $device \
        --csv "$scratch/scores"
    cut -d, -f1-12 "$scratch/scores" >"$scratch/scores.rounded.$device"
    check "explain, $device" env HALAY_TFT_DEVICE=$device "$tft" explain --checkpoint "$scratch/cpu" --data "$data" \
        --stride 3 --no-occlusion --csv "$scratch/why.$device"
done
close "scores" "$scratch/scores.cpu" "$scratch/scores.cuda"
close "forecasts" "$scratch/forecasts.cpu.csv" "$scratch/forecasts.cuda.csv"
close "forecasts in bf16" "$scratch/rounded.cpu.csv" "$scratch/rounded.cuda.csv" 1e-4
cmp -s "$scratch/rounded.cpu.csv" "$scratch/rounded.cuda.csv" && wrong "nothing is rounded on the device"
close "scores in bf16" "$scratch/scores.rounded.cpu" "$scratch/scores.rounded.cuda" 1e-4
close "weights" "$scratch/why.cpu/importance.csv" "$scratch/why.cuda/importance.csv"

# bench NAME [OPTION...]: three steps of the benchmark, two of which warm up.
bench() {
    name=$1
    shift
    EMU_ORDER=0 EMU_COUNTS=$scratch/counts check "bench, $name" "$top_builddir/perf/halay-tft-bench" --hidden 4 \
        --batch 1 --steps 1 --threads 1 --json - "$@"
    sed -n 's/.*"loss_[a-z]*": //p' "$scratch/said" >"$scratch/bench.$name"
}
bench cpu
bench cuda --device cuda
close "losses of the benchmark" "$scratch/bench.cpu" "$scratch/bench.cuda"

if [ -n "${CUDA_MODULES-}" ]; then # no GPU fails when asked to
    finish
    exit
fi
# Gradients are summed among the devices: what comes to the host are two evaluations and checkpoints, as of one rank.
[ "$summed" -gt 0 ] && [ "$summed" -lt 80000 ] || wrong "2 steps of three ranks bring $summed bytes to the host"
# An evaluation brings the rows once, 2 kB here, not each window, and the parameters once, 15 kB.
[ "$evaluated" -gt 0 ] && [ "$evaluated" -lt 19000 ] || wrong "an evaluation brings $evaluated bytes to the device"
# The benchmark's steps are graphs, as the trainer's, on a batch that the device has; forecasts bring no parameters.
# Parameters are 15 kB here, a batch is 3 kB; three steps bring both once, and 2 kB of values each.
[ "$(counted cudaGraphLaunch)" -eq 2 ] || wrong "3 steps launch $(counted cudaGraphLaunch) graphs, not 2"
[ "$(counted bytes_to_devices)" -lt 38000 ] || wrong "3 steps bring $(counted bytes_to_devices) bytes to the device"
# The host waits for a step once, and twice before the first one.
[ "$(counted cudaStreamSynchronize)" -le 5 ] || wrong "3 steps wait $(counted cudaStreamSynchronize) times"
# Those of two ranks are one graph for each sum of gradients.
EMU_ORDER=0 EMU_COUNTS=$scratch/counts check "bench, two ranks" "$halayrun" -np 2 "$top_builddir/perf/halay-tft-bench" \
    --hidden 4 --batch 2 --steps 1 --threads 1 --device cuda
graphs=$(counted cudaGraphLaunch)
[ "$graphs" -ge 8 ] && [ "$graphs" -le 20 ] || wrong "3 steps of two ranks launch $graphs graphs"
bench forecasts --device cuda --evaluate
[ "$(counted bytes_to_devices)" -lt 40000 ] || wrong "3 forecasts bring $(counted bytes_to_devices) bytes to the device"
check "what fails" "$top_builddir/tests/cuda/test_trainer"
options='--device cuda'
EMU_DEVICES=0 refused 1 "a GPU may be hidden" train none "$tft"
EMU_MEMORY=4000000 refused 1 "'cuda' has failed: cudaErrorMemoryAllocation (" train none "$tft"
options=''
# shellcheck disable=SC2016 # the shell of a rank expands it
refused 1 "'device' is 'cuda' on rank 1 and 'cpu' on rank 0: give all ranks the same" train none "$halayrun" -np 2 \
    sh -c '[ "$HALAY_RANK" = 0 ] || export HALAY_TFT_DEVICE=cuda; exec "$0" "$@"' "$tft"
options='--device cuda --hidden-size 32 --batch-size 1000'
EMU_MEMORY=45360128 refused 1 "samples would fit ('batch_size', or more ranks)" train none "$tft"
# Rows stay on the host where they would take what later allocations need, with the same losses.
options='--device cuda'
EMU_MEMORY=44360128 check "on a device that is nearly full" train full "$tft"
grep -q "halay warning: the data's rows .* the host fills each batch$" "$scratch/said" ||
    wrong "where the rows are is not said: $(cat "$scratch/said")"
same full cpu
HALAY_MODULE_PATH=$scratch/nowhere
[ -e "$top_builddir/.libs/libhalay-tft-cuda.so" ] || refused 1 "no libhalay-tft-cuda.so in" train none "$tft"
HALAY_MODULE_PATH=$modules
[ ! -e "$scratch/none" ] || wrong "a refused training leaves something behind"
finish
