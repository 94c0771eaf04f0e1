#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# halay-tft on two hosts without a shared folder: each has its own copy of the data in its /tmp, and only that of rank 0
# gets the run. A copy that differs and one that is missing end the job on all ranks, with the host's name. Needs root
# and an ssh server.
. "$top_srcdir/tests/lab/lib.sh"
test -x "$build/halay-tft" || skip "halay-tft is not built"
make_lab 2
tft=$build/halay-tft
pjm=$(realpath "$top_srcdir")/data/pjm
data=/tmp/piece.htd

on 1 "$tft" prepare --schema "$pjm.yaml" "$pjm" -o $data >"$dir/out" 2>&1
check "prepared" on 1 test -s $data
copy() { on 1 cat $data | on 2 sh -c "cat >$data"; }
copy
# train CODE OPTION...: into host 1's /tmp/run
train() {
    local want=$1
    shift
    run_on_1 "$want" -np 2 -H "$name-[1-2]" "$tft" train --data $data --out /tmp/run --hidden-size 8 --heads 2 \
        --batch-size 32 --train-samples 96 --valid-samples 32 --threads 1 --deterministic ranks "$@"
}

# --- a training, one that resumes, and scores ------------------------------------------------------------------------
train 0 --epochs 1
check "a model on rank 0's host" on 1 test -s /tmp/run/model.safetensors
check "and checkpoints" on 1 sh -c 'ls /tmp/run/checkpoints/manifest-*.json >/dev/null'
check "and nothing of the run on the other" on 2 test ! -e /tmp/run
train 0 --epochs 2 --resume
check "it resumed" eval 'on 1 cat /tmp/run/metrics.jsonl | grep -q "\"epoch\": *2"'
check "and nothing of the run on the other, again" on 2 test ! -e /tmp/run

run_on_1 0 -np 2 -H "$name-[1-2]" "$tft" evaluate --checkpoint /tmp/run --data $data --stride 240 --json /tmp/scores
check "scores" on 1 test -s /tmp/scores
on 1 "$tft" evaluate --checkpoint /tmp/run --data $data --stride 240 --json /tmp/alone >"$dir/out" 2>&1
check "those of one rank" on 1 cmp /tmp/scores /tmp/alone
run_on_1 1 -np 2 -H "$name-[2,1]" "$tft" evaluate --checkpoint /tmp/run --data $data --stride 240
check "no run at rank 0" err_has "rank 0 on host '$name-2': '/tmp/run' holds no trained model"

# --- other data ------------------------------------------------------------------------------------------------------
on 2 sh -c "mkdir /tmp/less && cp $pjm/[CP]*.gz /tmp/less"
on 2 "$tft" prepare --schema "$pjm.yaml" /tmp/less -o $data >"$dir/out" 2>&1
on 1 mv /tmp/run /tmp/before
train 1 --epochs 1
check "other data" err_has "the data of rank 1 on host '$name-2' differ from those of rank 0 on host '$name-1': give"
check "nothing is written" on 1 test ! -e /tmp/run

# --- no data ---------------------------------------------------------------------------------------------------------
on 2 rm $data
train 1 --epochs 1
check "no data" err_has "rank 1 on host '$name-2': cannot open '$data': No such file or directory"
check "nothing is written" on 1 test ! -e /tmp/run
copy
on 1 mv $data /tmp/elsewhere
train 1 --epochs 1
check "no data at rank 0" err_has "rank 0 on host '$name-1': cannot open '$data': No such file or directory"
