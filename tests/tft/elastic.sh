#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A training whose ranks are killed ends with the same bits as an undisturbed one: rank 0, which writes the
# files; two of four at once; a rank that is not replaced, so that three continue. Nothing is printed or written twice.
. "${top_srcdir:?}/tests/tft/shell.sh"
needs_halayrun
data=$scratch/piece.htd
check "prepare" "$tft" prepare --schema "$top_srcdir/data/pjm.yaml" "$top_srcdir/data/pjm" -o "$data"

samples=$([ -n "${TEST_BRIEF-}" ] && echo 250 || echo 1000)
train="train --data $data --hidden-size 8 --heads 2 --batch-size 32 --learning-rate 0.01 --clip 1 \
    --train-samples $samples --valid-samples 50 --epochs 2 --checkpoint-every 10 --deterministic ranks --threads 1 \
    --ema 0.9"

# What has to be said before anything begins.
refused 1 "this job is not elastic" "$tft" $train --elastic --out "$scratch/none"
refused 2 "prepare the data first" "$tft" train --elastic --schema "$top_srcdir/data/pjm.yaml" --data "$data" \
    --out "$scratch/none"

check "undisturbed" "$tft" $train --out "$scratch/alone"

# takes_over: rank 0 is lost with its files, once it has written a model that nothing later is better than, and is not
# replaced: the run of the rank that takes over has a model all the same.
takes_over() {
    cat >"$scratch/apart" <<END
#!/bin/sh
[ "\$HALAY_ELASTIC" = 0 ] || exit 9
mkdir "$scratch/host.\$HALAY_RANK" && cd "$scratch/host.\$HALAY_RANK" && exec "$(realpath "$tft")" "\$@"
END
    chmod +x "$scratch/apart"
    # shellcheck disable=SC2086 # words
    pause_at model.safetensors "$halayrun" -np 2 --min-np 1 --cooldown 60:60 "$scratch/apart" $train --elastic \
        --out run --eval-every 5 --learning-rate 1e-30 --patience 1000 --epochs 4
    kill -9 "$paused"
    wait $job && pass || wrong "rank 1 does not take over"
    mv "$scratch/said" "$scratch/apart.log"
    [ "$(sed 's/.*"valid_loss":\([^,]*\),.*/\1/' "$scratch"/host.*/run/metrics.jsonl | sort -u | wc -l)" = 1 ] ||
        wrong "the validation losses differ, so that nothing is tested"
    grep -q "continuing after step .* with 1 rank$" "$scratch/apart.log" &&
        [ -e "$scratch/host.1/run/model.safetensors" ] ||
        wrong "rank 1 has no model: $(cat "$scratch/apart.log")"
}
takes_over

# ends_alone: a rank is lost when training is over, between the choice of a blend and the calibration. The resumed run's
# last evaluation was no better, so that the choice is the first to write the model.
ends_alone() {
    sed 's/role: target,/role: target, blend: season,/' "$top_srcdir/data/pjm.yaml" >"$scratch/blend.yaml"
    check "prepare for a blend" "$tft" prepare --schema "$scratch/blend.yaml" "$top_srcdir/data/pjm" \
        -o "$scratch/blend.htd"
    last="train --data $scratch/blend.htd --hidden-size 8 --heads 2 --eval-every 1 --patience 1 --learning-rate 1e-30 \
        --valid-samples 50 --threads 1 --deterministic ranks --refit on --out $scratch/last"
    check "a run with a blend" "$tft" $last
    mv "$scratch/last/calibration.json" "$scratch/factors"
    mv "$scratch/last/refit.safetensors" "$scratch/refit"
    pause_at model.safetensors "$halayrun" --verbose -np 2 --min-np 1 "$tft" $last --elastic --resume
    kill -9 "$(pid_of 1)"
    go_on
    wait $job && pass || wrong "a rank lost at the end ends the job: $(tail -n 30 "$scratch/said")"
    check "which is finished all the same" cmp "$scratch/factors" "$scratch/last/calibration.json"
    check "and refitted" cmp "$scratch/refit" "$scratch/last/refit.safetensors"
    # Rank 0 is lost while it writes the calibration, which the other then makes.
    rm "$scratch/last/calibration.json" "$scratch/last/refit.safetensors"
    pause_at calibration.json "$halayrun" --verbose -np 2 --min-np 1 "$tft" $last --elastic --resume
    rm "$scratch/last/calibration.json"
    kill -9 "$paused"
    wait $job && pass || wrong "rank 0 lost at the end ends the job: $(tail -n 30 "$scratch/said")"
    check "the calibration is made all the same" cmp "$scratch/factors" "$scratch/last/calibration.json"
    check "and the refit" cmp "$scratch/refit" "$scratch/last/refit.safetensors"
}
[ -n "${TEST_BRIEF-}" ] || ends_alone

# disturb NAME RANKS SEATS ARGS...: kill these when there is a checkpoint.
disturb() {
    name=$1 ranks=$2 seats=$3
    shift 3
    # shellcheck disable=SC2086 # words
    pause_at manifest-0000000010.json "$halayrun" --verbose -np "$ranks" --min-np 1 "$@" "$tft" $train --elastic \
        --out "$scratch/$name"
    for seat in $seats; do
        kill -9 "$(pid_of $seat)"
    done
    [ "$seats" = 0 ] || go_on # rank 0, which is not lost
    status=0
    wait $job || status=$?
    mv "$scratch/said" "$scratch/$name.log"
    if [ $status != 0 ] || ! grep -q '^halayrun: re-formed' "$scratch/$name.log"; then
        wrong "$name: exit status $status"
        tail -n 30 "$scratch/$name.log"
        return
    fi
    pass
    check "$name: the same bits" cmp "$scratch/alone/model.safetensors" "$scratch/$name/model.safetensors"
    check "$name: as many evaluations" test "$(wc -l <"$scratch/alone/metrics.jsonl")" \
        = "$(wc -l <"$scratch/$name/metrics.jsonl")"
    for run in alone "$name"; do
        sed 's/.*\("train_loss.*\),"learning_rate.*/\1/' "$scratch/$run/metrics.jsonl" >"$scratch/losses.$run"
    done
    check "$name: the same losses" cmp "$scratch/losses.alone" "$scratch/losses.$name"
    check "$name: no half files" test -z \
        "$(find "$scratch/$name" "$scratch" -maxdepth 1 -name '.*.stage' -o -name '*.part')"
}
disturb first 2 0
if [ -z "${TEST_BRIEF-}" ]; then
    disturb two 4 "1 2"
    # The host is left out for longer than the training takes: three go on, of which two compute.
    cat >"$scratch/once" <<END
#!/bin/sh
[ "\$HALAY_ELASTIC" = 0 ] || exit 9
exec "$tft" "\$@"
END
    chmod +x "$scratch/once"
    whole=$tft
    tft=$scratch/once
    disturb three 4 3 --cooldown 60:60
    tft=$whole
    check "three: one was not replaced" grep -q 're-formed, generation 2: 3 ranks' "$scratch/three.log"
fi
finish
