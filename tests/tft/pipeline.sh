#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `strategy: pipeline`: two and three ranks, a stage each, train to the bits of one rank, whatever the model, its type
# and its samples; a checkpoint goes on under another strategy, and back; how long cores waited for neighbours is said;
# a rank that dies ends the others; what cannot be is refused.
. "${top_srcdir:?}/tests/tft/shell.sh"
needs_halayrun
needs python3 pgrep
data=$scratch/piece.htd
check "prepare" "$tft" prepare --schema "$top_srcdir/data/pjm.yaml" "$top_srcdir/data/pjm" -o "$data"
train() {
    ranks=$1 run=$2
    shift 2
    "$halayrun" -np "$ranks" "$tft" train --data "$data" --out "$run" --hidden-size 8 --heads 2 --batch-size 40 \
        --valid-samples 40 --threads 1 "$@"
}
# The same file of parameters, and the same losses.
same() {
    cmp -s "$1/model.safetensors" "$2/model.safetensors" || wrong "$3: other parameters"
    for run in "$1" "$2"; do
        grep -o '"step":[0-9]*\|"train_loss":[^,]*\|"valid_loss":[^,]*' "$run/metrics.jsonl" >"$run/losses"
    done
    cmp -s "$1/losses" "$2/losses" || wrong "$3: other losses"
}
all_ways() {
    name=$1
    shift
    check "$name alone" train 1 "$scratch/$name-1" --max-steps 12 --eval-every 6 "$@"
    for ranks in 2 3; do
        check "$name, $ranks ranks" train $ranks "$scratch/$name-$ranks" --max-steps 12 --eval-every 6 \
            --strategy pipeline "$@"
        same "$scratch/$name-1" "$scratch/$name-$ranks" "$name, $ranks ranks"
    done
}
all_ways plain
grep -q '"train_loss":' "$scratch/plain-1/losses" || wrong "no losses are compared"
all_ways global --clip-mode global --ema 0.9 --optimizer adamw --weight-decay 0.01
all_ways nvidia --conformance nvidia
all_ways distribution --loss gaussian --crossing allow --threads 2
all_ways forecasting --conformance pytorch-forecasting --dropout 0.2

# From one strategy to another in the middle.
check "until it is stopped" train 2 "$scratch/moved" --strategy pipeline --max-steps 6 --eval-every 6
check "on alone" train 1 "$scratch/moved" --resume --max-steps 12 --eval-every 6
check "never stopped" train 1 "$scratch/whole" --max-steps 12 --eval-every 6
same "$scratch/whole" "$scratch/moved" "resumed alone"
check "until it is stopped, shared" train 2 "$scratch/back" --strategy zero2 --max-steps 6 --eval-every 6 \
    --deterministic ranks
check "on by stages" train 2 "$scratch/back" --strategy pipeline --resume --max-steps 12 --eval-every 6 \
    --deterministic ranks
check "stages all the way" train 2 "$scratch/stages" --strategy pipeline --max-steps 12 --eval-every 6 \
    --deterministic ranks
same "$scratch/stages" "$scratch/back" "resumed by stages"
check "until it is stopped, reduced" train 2 "$scratch/reduced" --max-steps 6 --eval-every 6 --deterministic ranks
check "on by stages" train 2 "$scratch/reduced" --strategy pipeline --resume --max-steps 12 --eval-every 6 \
    --deterministic ranks
same "$scratch/stages" "$scratch/reduced" "resumed by stages after all-reduce"
check "until it is stopped, by stages" train 2 "$scratch/onward" --strategy pipeline --max-steps 6 --eval-every 6 \
    --deterministic ranks
check "on with all-reduce" train 2 "$scratch/onward" --resume --max-steps 12 --eval-every 6 --deterministic ranks
same "$scratch/stages" "$scratch/onward" "resumed with all-reduce after stages"

# A stage stands idle while a batch comes in and goes out: here a third of the time. All else for which ranks wait takes
# a five-hundredth.
python3 - "$scratch/stages/metrics.jsonl" <<'END' && pass || wrong "what cores waited is not said"
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
waited = sum(line["comm_seconds"] for line in lines)
assert len(lines) == 2 and lines[-1]["seconds"] / 50 < waited < lines[-1]["seconds"], lines
END

# A rank that dies.
train 3 "$scratch/dies" --strategy pipeline --max-time 60 --eval-every 5 --patience 100000 >"$scratch/said" 2>&1 &
job=$!
until [ -s "$scratch/dies/metrics.jsonl" ] || ! kill -0 $job 2>/dev/null; do sleep 0.01; done
victim=$(pgrep -f "train --data $data --out $scratch/dies" | while read -r pid; do
    tr '\0' '\n' <"/proc/$pid/environ" | grep -qx 'HALAY_RANK=1' && echo "$pid"
done | tail -n 1)
kill -KILL "$victim"
status=0
wait $job || status=$?
[ $status -eq 137 ] || wrong "it ended with $status: $(cat "$scratch/said")"

refused 1 "'strategy: pipeline' has 3 stages, and there are 4 ranks" train 4 "$scratch/none" --strategy pipeline
refused 1 "--elastic needs 'strategy: allreduce'" "$halayrun" -np 2 --min-np 1 "$tft" train --data "$data" \
    --out "$scratch/none" --elastic --strategy pipeline
finish
