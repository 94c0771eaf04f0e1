#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A run that is killed and goes on ends with the same bits as one that was never stopped, whatever it was doing when it
# died, and on another number of ranks too; what is damaged is passed over, what does not fit is refused.
. "${top_srcdir:?}/tests/tft/shell.sh"
data=$scratch/piece.htd
check "prepare" "$tft" prepare --schema "$top_srcdir/data/pjm.yaml" "$top_srcdir/data/pjm" -o "$data"

cat >"$scratch/config.yaml" <<'END'
hidden_size: 8
heads: 2
batch_size: 32
learning_rate: 0.01
clip: 1
schedule: cosine
train_samples: 600
valid_samples: 64
eval_every: 12
checkpoint_every: 5
epochs: 3
deterministic: ranks
threads: 1
ema: 0.9
END
train() {
    "$tft" train --data "$data" --config "$scratch/config.yaml" "$@"
}
# The same as a process of its own, for those that are killed.
set -- "$tft" train --data "$data" --config "$scratch/config.yaml"
# What must be equal: the best parameters, where the last checkpoint stands with all its blocks, and the losses.
outcome() {
    cat "$1/model.safetensors" "$1"/checkpoints/step-*.safetensors | cksum
    sed 's/"seconds":[^,]*,//; s/"learning_rate".*//' "$1/metrics.jsonl"
    grep -h '"step"\|"in_vain"\|"lowest"\|"loss_sum"\|"position"' "$1"/checkpoints/manifest-*.json
}
check "never stopped" train --out "$scratch/whole"
outcome "$scratch/whole" >"$scratch/expected"
[ "$(find "$scratch/whole/checkpoints" -name 'manifest-*' | wc -l)" -eq 3 ] || wrong "not three checkpoints are kept"
[ ! -e "$scratch/whole/.checkpoints.stage" ] || wrong "the stage is left"
check "Python's format" grep -q '"dtype":"F32"' "$scratch/whole/model.safetensors"

# Killed at moments that come from the process's number: at least one file is written, or is being written, each time.
kills=6
killed() {
    tries=0
    rm -rf "$scratch/killed"
    while :; do
        tries=$((tries + 1))
        "$@" --out "$scratch/killed" --resume >"$scratch/said" 2>&1 &
        pid=$!
        if [ $tries -le $kills ]; then
            # After so many more checkpoints, or parts of one.
            seen=$(find "$scratch/killed" "$scratch/killed/.checkpoints.stage" -type f 2>/dev/null | cksum)
            changes=$(((pid + tries) % 4 + 1))
            while [ $changes -gt 0 ] && kill -0 $pid 2>/dev/null; do
                now=$(find "$scratch/killed" "$scratch/killed/.checkpoints.stage" -type f 2>/dev/null | cksum)
                [ "$now" = "$seen" ] || changes=$((changes - 1))
                seen=$now
            done
            kill -9 $pid 2>/dev/null || :
        fi
        status=0
        wait $pid || status=$?
        [ $status -ne 0 ] || break
        [ $status -eq 137 ] || { wrong "ended with $status"; tail -n 5 "$scratch/said"; break; }
    done
    outcome "$scratch/killed" >"$scratch/got"
}
killed "$@"
check "killed $tries times" cmp "$scratch/expected" "$scratch/got"
diff "$scratch/expected" "$scratch/got" | head -n 20

# Interrupted by SIGTERM: no error.
#   terminated NAME COMMAND...         as soon as a file has this name, before anything else
#   terminated_later NAME COMMAND...   in what comes after that
has() {
    grep -Eq "$1" "/proc/$paused/status"
}
terminated() {
    pause_at "$@"
    kill -STOP "$paused"
    until has '^State:.*T'; do sleep 0.01; done
    kill -TERM $job
    # It waits for SIGCONT, which halayrun sends after it.
    until has '^S(ig|hd)Pnd:.*[4-7c-f][0-9a-f]{3}$' || ! has '^State:.*T'; do sleep 0.01; done
    kill -CONT "$paused"
    go_on
    ended_well
}
terminated_later() {
    pause_at "$@"
    go_on
    kill -TERM $job
    ended_well
}
ended_well() {
    status=0
    wait $job || status=$?
    [ $status -eq 0 ] || wrong "SIGTERM: ended with $status: $(tail -n 3 "$scratch/said")"
}
# In training: a checkpoint, and no evaluation that was not due.
#   interrupted RUN COMMAND...
interrupted() {
    out=$1
    shift
    terminated manifest-0000000005.json "$@" --out "$out"
    grep -q "interrupted after [0-9]* steps and .*use --resume to continue" "$scratch/said" ||
        wrong "SIGTERM: $(tail -n 3 "$scratch/said")"
}
interrupted "$scratch/term" "$@"
refused 1 "use --resume to continue from them" train --out "$scratch/term"
# One process a folder at a time.
"$@" --out "$scratch/term" --resume --epochs 1000 --patience 1000 >"$scratch/other" 2>&1 &
pid=$!
until grep -q "continuing after step" "$scratch/other" || ! kill -0 $pid 2>/dev/null; do sleep 0.05; done
refused 1 "another process is training into '$scratch/term'" train --out "$scratch/term" --resume
kill -9 $pid
wait $pid || :
rm -r "$scratch/term"
interrupted "$scratch/term" "$@"
check "how it ended" grep -q '"end": "stopped"' "$scratch/term/end.json"
check "go on after SIGTERM" train --out "$scratch/term" --resume
grep -q "continuing after step" "$scratch/said" || wrong "it does not say where it goes on"
check "how it ended now" grep -q '"end": "done"' "$scratch/term/end.json"
outcome "$scratch/term" >"$scratch/got"
check "interrupted and gone on" cmp "$scratch/expected" "$scratch/got"
check "a run that is done stays as it is" train --out "$scratch/term" --resume
outcome "$scratch/term" >"$scratch/got"
check "done twice" cmp "$scratch/expected" "$scratch/got"
# Its last evaluation was made once more, with no step before it.
for run in whole term; do grep -o '"learning_rate":[^,]*' "$scratch/$run/metrics.jsonl" >"$scratch/rates.$run"; done
check "learning rates" cmp "$scratch/rates.whole" "$scratch/rates.term"
grep -q '"instruction_set": "' "$scratch/term/run.json" || wrong "the run does not say on what machine it was made"
if grep -q '"matrix_products": "onednn' "$scratch/term/run.json"; then
    check "on another instruction set" env ONEDNN_MAX_CPU_ISA=SSE41 DNNL_MAX_CPU_ISA=SSE41 "$@" --out "$scratch/term" \
        --resume
    grep -q "written with matrix_products 'onednn [^']*', here it is 'onednn [^']*sse41': the bits may differ" \
        "$scratch/said" ||
        wrong "another instruction set is not said: $(cat "$scratch/said")"
fi

# On another number of ranks. Signals reach all ranks.
if [ -x "$halayrun" ]; then
    ranks() {
        n=$1
        shift
        "$halayrun" -np "$n" "$tft" train --data "$data" --config "$scratch/config.yaml" "$@"
    }
    interrupted "$scratch/ranks" "$halayrun" -np 2 "$@"
    check "go on alone" train --out "$scratch/ranks" --resume --max-steps 30
    check "go on with four" ranks 4 --out "$scratch/ranks" --resume
    # It ended once after 30 steps, with an evaluation there that the others do not have.
    [ -e "$scratch/ranks/checkpoints/manifest-0000000057.json" ] || wrong "four ranks did not reach the end"
    # Killed; gone on with by the same two, then by one.
    pause_at manifest-0000000005.json "$halayrun" -np 2 "$@" --out "$scratch/more"
    kill -9 $job
    wait $job || :
    kill -9 "$paused" 2>/dev/null || :
    until ranks 2 --out "$scratch/more" --resume >"$scratch/said" 2>&1; do
        grep -q "another process is training" "$scratch/said" || { wrong "two ranks: $(cat "$scratch/said")"; break; }
        sleep 0.05 # the killed job's rank 0 is not gone yet
    done
    check "two ranks, killed, and two" cmp "$scratch/whole/model.safetensors" "$scratch/more/model.safetensors"
    rm "$scratch/more/checkpoints/manifest-0000000055.json" "$scratch/more/checkpoints/manifest-0000000057.json"
    check "then one" train --out "$scratch/more" --resume
    grep -q "continuing after step 50" "$scratch/said" ||
        wrong "it does not go on from where two were: $(cat "$scratch/said")"
    last() {
        cat "$1/model.safetensors" "$1"/checkpoints/step-0000000057.*.safetensors | cksum
        outcome "$1" | sed -n '2,/^{.*"step":48/p'
    }
    last "$scratch/whole" >"$scratch/last"
    last "$scratch/more" >"$scratch/got"
    check "the same bits on other ranks" cmp "$scratch/last" "$scratch/got"
fi

# Interrupted in an evaluation that would take long: it is broken off, and is still due.
broken_off() {
    rm -rf "$scratch/long"
    terminated_later manifest-0000000002.json "$@" --hidden-size 64 --eval-every 2 --valid-samples 0 \
        --out "$scratch/long"
    check "no evaluation" [ ! -s "$scratch/long/metrics.jsonl" ]
    check "it is due" grep -q '"pending": true' "$scratch/long/checkpoints/manifest-0000000002.json"
}
broken_off "$@"
if [ -x "$halayrun" ]; then broken_off "$halayrun" -np 2 "$@"; fi

# A limit of time: the number of steps is fixed at the beginning, is the same when the run goes on, on any ranks, and
# there the rate has fallen to nothing. A run that a busy machine slows is stopped by its time, at fewer steps; a tenth
# of it may be left for the calibration.
state() {
    sed -n "s/.*\"$1\": \([0-9.]*\).*/\1/p" "$scratch"/timed/checkpoints/manifest-*.json | head -n 1
}
for time in 4 16 64; do # the time may be over before the steps are planned: until one of them is enough
    limited="--train-samples 0 --epochs 1000 --patience 1000 --eval-every 1000000 --ema 0 --keep 1 --max-time $time \
        --out $scratch/timed --resume"
    rm -rf "$scratch/timed"
    # shellcheck disable=SC2086
    "$@" $limited >"$scratch/said" 2>&1 &
    pid=$!
    until grep -q "steps are planned for the $time s of" "$scratch/said" || ! kill -0 $pid 2>/dev/null; do sleep \
        0.05; done
    kill -TERM $pid || :
    wait $pid || :
    planned=$(state planned_steps)
    [ "${planned:-0}" -eq 0 ] || break
done
[ "${planned:-0}" -gt 0 ] || wrong "no number of steps is planned: $(cat "$scratch/said")"
# shellcheck disable=SC2086
check "go on within the time" "$@" $limited
[ "$(state planned_steps)" = "$planned" ] || wrong "$(state planned_steps) steps are planned, were $planned"
rate=$(tail -n 1 "$scratch/timed/metrics.jsonl" | sed 's/.*"learning_rate":\([0-9.e-]*\).*/\1/')
echo "$(state step) $planned $(state seconds) $rate" |
    awk -v time=$time '{ exit !(NF == 4 && ($1 == $2 ? $4 < 0.01 * (3.15 / $2) ^ 2 : $1 < $2 && $3 > 0.89 * time)) }' ||
    wrong "planned $planned steps, ended after $(state step) and $(state seconds) s at a rate of $rate"

# Damage. The newest checkpoint is passed over, with its reason; the one before gives the same end.
damaged() {
    rm -rf "$scratch/damaged"
    cp -r "$scratch/whole" "$scratch/damaged"
    "$@"
    check "go on: $*" train --out "$scratch/damaged" --resume
    grep -q "is not used: $text" "$scratch/said" || wrong "$*: it does not say '$text': $(cat "$scratch/said")"
    outcome "$scratch/damaged" >"$scratch/got"
    check "after: $*" cmp "$scratch/expected" "$scratch/got"
}
newest=$scratch/damaged/checkpoints/step-0000000057.moment1.safetensors
flip() {
    printf '\377' | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}
text="its file '$(basename "$newest")' is damaged" damaged flip "$newest" 3000
text="its file '$(basename "$newest")' has another length" damaged truncate -s 3000 "$newest"
text="its file '$(basename "$newest")' cannot be read" damaged rm "$newest"
text="it cannot be read" damaged truncate -s 100 "$scratch/damaged/checkpoints/manifest-0000000057.json"
text="it is damaged" damaged sed -i 's/"position": [0-9]*/"position": 12/' \
    "$scratch/damaged/checkpoints/manifest-0000000057.json"
for manifest in "$scratch"/damaged/checkpoints/manifest-*; do truncate -s 50 "$manifest"; done
refused 1 "none of the 3 checkpoints in" train --out "$scratch/damaged" --resume

# Keys that a run has from its beginning, and those that it may change.
refused 1 "'hidden_size' was 8 when the run began and is 16 now" train --out "$scratch/whole" --resume --hidden-size 16
sed 's/encoder: 72/encoder: 48/' "$top_srcdir/data/pjm.yaml" >"$scratch/other.yaml"
check "prepare otherwise" "$tft" prepare --schema "$scratch/other.yaml" "$top_srcdir/data/pjm" -o "$scratch/other.htd"
refused 1 "the run began with data of another schema" \
    "$tft" train --data "$scratch/other.htd" --config "$scratch/config.yaml" --out "$scratch/whole" --resume
cat >"$scratch/n.yaml" <<'END'
id: {column: id}
time: {column: t, integer: true}
inputs:
  y: {column: y, role: target, scale: none}
  m: {calendar: steps, role: known, scale: none}
window: {encoder: 5, horizon: 2}
split: {train: "< 1000"}
END
for rows in 300 60; do
    awk -v n="$rows" 'BEGIN { print "id,t,y"; for (i = 0; i < n; i++) print "a," i "," i % 7 }' >"$scratch/n.csv"
    check "prepare $rows" "$tft" prepare --schema "$scratch/n.yaml" "$scratch/n.csv" -o "$scratch/n$rows.htd"
done
n() {
    timeout 200 "$tft" train --out "$scratch/n" --hidden-size 8 --heads 2 --batch-size 16 --threads 1 "$@"
}
check "a longer table" n --data "$scratch/n300.htd" --max-steps 10 --refit on
grep -q "^no refit: no rows follow those of training" "$scratch/said" ||
    wrong "a refit without rows is not named: $(cat "$scratch/said")"
refused 1 "the run began with other data: they had 294 training windows, these have 54" \
    n --data "$scratch/n60.htd" --max-steps 12 --resume
check "one epoch more" train --out "$scratch/whole" --resume --epochs 4 --keep 1 --patience 100
[ "$(find "$scratch/whole/checkpoints" -name 'manifest-*' | wc -l)" -eq 1 ] || wrong "not one checkpoint is kept"
check "without checkpoints" train --out "$scratch/none" --keep 0 --max-steps 2 --resume
grep -q "no checkpoint in .*: beginning anew" "$scratch/said" || wrong "it does not say that it begins anew"
[ ! -e "$scratch/none/checkpoints" ] || wrong "keep 0 made checkpoints"

# A folder of checkpoints alone is enough for forecasts; so is it for another machine.
check "forecast from a checkpoint" "$tft" predict --checkpoint "$scratch/killed/checkpoints" "$top_srcdir/data/pjm" \
    -o "$scratch/a.csv"
check "forecast from the run" "$tft" predict --checkpoint "$scratch/killed" "$top_srcdir/data/pjm" --calibrate none \
    -o "$scratch/b.csv"
check "the same forecasts" cmp "$scratch/a.csv" "$scratch/b.csv"
interrupted "$scratch/elsewhere" "$@" --checkpoint-dir "$scratch/kept"
check "on a new machine" train --out "$scratch/machine" --checkpoint-dir "$scratch/kept" --resume
check "the same run" cmp "$scratch/machine/model.safetensors" "$scratch/killed/model.safetensors"

# Fine-tuning: from another run's parameters, and as far as they fit.
check "fine-tuning" train --out "$scratch/tuned" --init-from "$scratch/killed" --max-steps 1 --learning-rate 1e-9
first() {
    head -n 1 "$1/metrics.jsonl" | sed 's/.*"valid_loss":\([0-9.e-]*\),.*/\1/'
}
best=$(sed 's/.*"valid_loss":\([0-9.e-]*\),.*/\1/' "$scratch/killed/metrics.jsonl" | sort -g | head -n 1)
echo "$(first "$scratch/tuned") $best" | awk '{ exit !($1 - $2 < 1e-4 && $2 - $1 < 1e-4) }' ||
    wrong "fine-tuning begins at $(first "$scratch/tuned"), not at $best"
check "fine-tuning with other quantiles" train --out "$scratch/median" --init-from "$scratch/killed" --max-steps 1 \
    --quantiles 0.5
grep -q "0 begin at random; other quantiles" "$scratch/said" || wrong "other quantiles: $(cat "$scratch/said")"
refused 1 "init_from: tensor 'input.zone.table' is [4, 8] in '$scratch/killed', this model's is [4, 16]" \
    train --out "$scratch/quantiles" --init-from "$scratch/killed" --max-steps 1 --hidden-size 16
[ ! -e "$scratch/quantiles/run.json" ] || wrong "a training that cannot begin leaves files"
refused 1 "holds no trained model" train --out "$scratch/nowhere" --init-from "$scratch/nothing"
finish
