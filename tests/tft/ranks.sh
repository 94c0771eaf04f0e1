#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# One, two and four ranks with the same global batch end with the same parameters, bit for bit, whatever the threads;
# their evaluations and forecasts have the same bits too. Batches of every kind: full, the last of an epoch, one smaller
# than the ranks.
. "${top_srcdir:?}/tests/tft/shell.sh"
needs_halayrun
data=$scratch/piece.htd
check "prepare" "$tft" prepare --schema "$top_srcdir/data/pjm.yaml" "$top_srcdir/data/pjm" -o "$data"

# 5 steps of 32, the last of 12 (two granules); validation after each epoch.
train() {
    ranks=$1
    shift
    "$halayrun" -np "$ranks" "$tft" train --data "$data" --hidden-size 8 --heads 2 --batch-size 32 \
        --learning-rate 0.01 --clip 1 --train-samples 140 --valid-samples 50 --epochs 2 --deterministic ranks "$@"
}
for ranks in 1 2 4; do
    check "$ranks ranks" train $ranks --out "$scratch/r$ranks" --threads 1
done
check "2 ranks of 2 threads" train 2 --out "$scratch/r2t2" --threads 2
# Global clipping, with all that goes by tensor: an average, decay.
global() {
    train "$@" --threads 1 --clip-mode global --clip 0.5 --ema 0.9 --optimizer adamw --weight-decay 0.1
}
check "global clipping, 1 rank" global 1 --out "$scratch/g1"
check "global clipping, 4 ranks" global 4 --out "$scratch/g4"
check "1 and 2 ranks" cmp "$scratch/r1/model.safetensors" "$scratch/r2/model.safetensors"
check "1 and 4 ranks" cmp "$scratch/r1/model.safetensors" "$scratch/r4/model.safetensors"
check "2 ranks of 1 and of 2 threads" cmp "$scratch/r1/model.safetensors" "$scratch/r2t2/model.safetensors"
check "global clipping, 1 and 4 ranks" cmp "$scratch/g1/model.safetensors" "$scratch/g4/model.safetensors"
if cmp -s "$scratch/r1/model.safetensors" "$scratch/g1/model.safetensors"; then wrong "clipping made no difference"; fi

# A limit of time, which only rank 0's clock says: all ranks take the same steps at the same rates, or their parameters
# differ and training fails.
# After the first steps they are planned; a busy machine may not come as far within two seconds.
for time in 2 8 32; do
    rm -rf "$scratch/time"
    check "a limit of time" train 2 --out "$scratch/time" --threads 1 --schedule cosine --max-time $time \
        --train-samples 0 --epochs 1000 --patience 1000 --eval-every 10
    ! grep -q "steps are planned for the $time s of 'max_time'" "$scratch/said" || break
done
grep -q "steps are planned for the $time s of 'max_time'" "$scratch/said" ||
    wrong "no steps are planned: $(cat "$scratch/said")"

# The validation losses, too.
for ranks in 1 2 4; do
    sed 's/.*\("train_loss.*\),"learning_rate.*/\1/' "$scratch/r$ranks/metrics.jsonl" >"$scratch/losses$ranks"
done
check "losses of 1 and 2 ranks" cmp "$scratch/losses1" "$scratch/losses2"
check "losses of 1 and 4 ranks" cmp "$scratch/losses1" "$scratch/losses4"

check "evaluate on 1 rank" "$tft" evaluate --checkpoint "$scratch/r1" --data "$data" --stride 240 --json "$scratch/e1"
check "evaluate on 2 ranks" "$halayrun" -np 2 "$tft" evaluate --checkpoint "$scratch/r1" --data "$data" --stride 240 \
    --json "$scratch/e2"
check "evaluations" cmp "$scratch/e1" "$scratch/e2"
check "predict on 1 rank" "$tft" predict --checkpoint "$scratch/r1" "$top_srcdir/data/pjm" -o "$scratch/p1"
check "predict on 2 ranks" "$halayrun" -np 2 "$tft" predict --checkpoint "$scratch/r1" "$top_srcdir/data/pjm" \
    -o "$scratch/p2"
check "forecasts" cmp "$scratch/p1" "$scratch/p2"

# A bit of the values flipped: whoever reads them first says so, in any command, and all ranks end.
cp "$data" "$scratch/flipped.htd"
offset=$(od -A n -t u8 -j $((32 + 4 * 24)) -N 8 "$data") # of section 5
for at in 70000 1000000; do
    byte=$(od -A n -t u1 -j $((offset + at)) -N 1 "$data")
    # shellcheck disable=SC2059
    printf "\\$(printf %o $((byte ^ 4)))" | dd of="$scratch/flipped.htd" bs=1 seek=$((offset + at)) conv=notrunc \
        2>"$scratch/said"
done
says="flipped.htd' is damaged: a checksum is wrong, that of part"
flipped() { refused 1 "$says" "$halayrun" -np 2 "$tft" "$@"; grep -q "of its values" "$scratch/said" ||
    wrong "which part is not said"; }
flipped train --data "$scratch/flipped.htd" --out "$scratch/flipped" --hidden-size 8 --heads 2 --threads 2 \
    --max-steps 50 --valid-samples 50
flipped evaluate --checkpoint "$scratch/r1" --data "$scratch/flipped.htd" --stride 240
flipped backtest --data "$scratch/flipped.htd" --out "$scratch/flipped" --hidden-size 8 --heads 2 --stride 240 \
    --max-steps 50
flipped report --run "$scratch/r1" --data "$scratch/flipped.htd" -o "$scratch/flipped.html"

# A signal to one rank ends all, with the same status, and leaves no half file. The wrapper ends well, so that halayrun
# lets both end.
cat >"$scratch/noted.sh" <<'END'
notes=$1
shift
"$@" &
echo $! >"$notes/pid.$HALAY_RANK"
status=0
wait $! || status=$?
echo $status >"$notes/ended.$HALAY_RANK"
END
"$halayrun" -np 2 sh "$scratch/noted.sh" "$scratch" "$tft" predict --checkpoint "$scratch/r1" --split train --stride 1 \
    "$top_srcdir/data/pjm" -o "$scratch/long.csv" >"$scratch/signalled" 2>&1 &
job=$!
# Does rank 0 write? What is not complete has no name, or another one where a file system cannot do that.
is_writing() {
    [ -s "$scratch/pid.0" ] && [ -s "$scratch/pid.1" ] || return 1
    for file in "/proc/$(cat "$scratch/pid.0")/fd"/* "$scratch"/long.csv.tmp.*; do
        case $(readlink "$file" || echo "$file") in
        "$scratch/"*) if [ -s "$file" ]; then return 0; fi ;;
        esac
    done
    return 1
}
until is_writing || ! kill -0 $job 2>/dev/null; do sleep 0.01; done
kill -TERM "$(cat "$scratch/pid.1")" || :
check "a signal to rank 1 ends the job" wait $job
[ "$(cat "$scratch/ended.0" "$scratch/ended.1" | tr '\n' ' ')" = "143 143 " ] ||
    wrong "ended with $(cat "$scratch"/ended.*): $(cat "$scratch/signalled")"
[ -z "$(find "$scratch" -name 'long.csv*')" ] || wrong "a half file is left"

# Three ranks cannot have the tree's order; without it they work.
refused 1 "needs 1, 2, 4, 8" train 3 --out "$scratch/r3"
# The benchmark: one job, one report.
check "bench on 2 ranks" "$halayrun" -np 2 "$top_builddir/perf/halay-tft-bench" --hidden 8 --batch 16 \
    --steps 1 --threads 1 --json "$scratch/bench.json"
grep -q '"ranks": 2' "$scratch/bench.json" || wrong "bench on 2 ranks does not say so"
check "bench on 1 rank" "$top_builddir/perf/halay-tft-bench" --hidden 8 --batch 16 --steps 1 --threads 1 \
    --json "$scratch/alone.json"
grep '"loss_last"' "$scratch/bench.json" "$scratch/alone.json" | awk '{ sub(/,/, "", $NF); l[NR] = $NF }
    END { exit !(NR == 2 && l[1] > 0 && (l[1] - l[2]) ^ 2 < 1e-10) }' ||
        wrong "bench has another loss on 2 ranks than on 1"
finish
