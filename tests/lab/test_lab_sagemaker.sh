#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A SageMaker job on two hosts of a lab, algo-1 and algo-2, each with its own /opt/ml: training as SageMaker's toolkit
# starts it (its mpirun line, tests/lab/sagemaker_node) and as halayrun does without it. sm-entry is process 1 of each
# container. A stop that only one host hears of, and the job that goes on; a rank that is killed; ranks that are
# missing. Needs root and an ssh server. SAGEMAKER_TOOLKIT=FOLDER: also through the toolkit itself, some two minutes,
# most of which it waits. FOLDER is the Python environment that it is in; if there is none yet tests/lab/toolkit makes
# it. The hosts have to see it: not below /tmp.
. "$top_srcdir/tests/lab/lib.sh"

node=$(realpath "$top_srcdir")/tests/lab/sagemaker_node
entry=$build/sagemaker/sm-entry tft=$build/halay-tft
preload=$build/tests/lab/.libs/gethostname.so
if ! test -x "$tft" || ! test -e "$build/.libs/libhalay-ucx.so"; then
    skip "no halay-tft, or nothing that moves data between hosts"
fi
export PATH=$build/launcher:$build:$PATH
export ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0
export TRAINING_JOB_NAME=lab-$$ OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
make_lab 2
export HALAY_OPT_ML=$scratch/ml # one name, a file system of its own on each host
mkdir "$HALAY_OPT_ML"
custom="-x HALAY_MODULE_PATH -x HALAY_OPT_ML -x ASAN_OPTIONS"

"$tft" prepare --schema "$top_srcdir/data/pjm.yaml" "$top_srcdir/data/pjm" -o "$scratch/piece.htd" >"$dir/out" \
    2>"$dir/err" || exit 99
small='"hidden_size": "8", "heads": "2", "batch_size": "32", "learning_rate": "0.01", "train_samples": "1024",
    "valid_samples": "32", "epochs": "2", "threads": "1", "deterministic": "\"ranks\"", "checkpoint_every": "1"'
for h in 1 2; do
    sh "$lab_script" sshd $lab $h stop
    on $h sh -c "printf '10.77.$lab.1 algo-1\n10.77.$lab.2 algo-2\n' >>/etc/hosts
        sed -i 's/^hl$lab-\([12]\),/algo-\1,&/' /etc/ssh/ssh_known_hosts; mount -t tmpfs ml '$HALAY_OPT_ML'"
done

# containers [KEEP]: both empty; with KEEP with the first one's checkpoints, as S3 would have them.
containers() {
    local h
    for h in 1 2; do
        on $h sh -c "
            if [ -n '${1-}' ] && [ $h = 1 ]; then
                rm -rf '$scratch/kept'; cp -a '$HALAY_OPT_ML/checkpoints' '$scratch/kept'
            fi
            rm -rf '$HALAY_OPT_ML'/*
            mkdir -p '$HALAY_OPT_ML/input/config' '$HALAY_OPT_ML/input/data/training' '$HALAY_OPT_ML/checkpoints'
            [ -z '${1-}' ] || cp -a '$scratch/kept/.' '$HALAY_OPT_ML/checkpoints/'
            cp '$scratch/piece.htd' '$HALAY_OPT_ML/input/data/training/'
            echo '{\"current_host\": \"algo-$h\", \"hosts\": [\"algo-1\", \"algo-2\"],
                \"network_interface_name\": \"eth0\"}' \
                >'$HALAY_OPT_ML/input/config/resourceconfig.json'"
        echo "{$small, \"sagemaker_mpi_enabled\": \"true\", \"sagemaker_mpi_num_of_processes_per_host\": \"2\"}" |
            on $h tee "$HALAY_OPT_ML/input/config/hyperparameters.json" >/dev/null
    done
}
# start HOST COMMAND...: in a container of its own, where sm-entry is process 1.
start() {
    local h=$1
    shift
    CUSTOM=$custom on $h unshare --mount --pid --fork --kill-child --mount-proc "$entry" "$@" \
        >"$dir/out$h" 2>"$dir/err$h" </dev/null &
    eval pid$h=$!
}
by_mpirun() { # RANKS
    start 2 "$node" algo-2 "$preload" $1
    start 1 "$node" algo-1 "$preload" $1 "$tft" train --epochs 2 --hidden_size 8
}
by_halayrun() { start 2; start 1; }
# ends HOST CODE
ends() {
    eval "wait \$pid$1"
    code=$?
    check "host $1 ends with $2, not $code: $(tail -5 "$dir/err$1")" test $code = $2
}
by_toolkit() {
    local h
    for h in 2 1; do start $h env HOME=/tmp/home PATH="$SAGEMAKER_TOOLKIT/bin:$PATH" train; done
}
gone() { ! on $1 pgrep -x 'halay-tft|orted|mpirun|halayrun' >/dev/null; }
no_orphans() { local h; for h in 1 2; do check "nothing is left on host $h" wait_for gone $h; done; }
equals() { # TEXT
    on 1 cat "$HALAY_OPT_ML/model/model.safetensors" >"$scratch/model" 2>/dev/null
    check "$1: the parameters of one host" cmp "$scratch/model" "$scratch/alone/model/model.safetensors"
}
failure() { on $1 grep -qF -e "$2" "$HALAY_OPT_ML/output/failure"; }
# By the files of that host's first process: to enter it takes as long as some steps.
has_checkpoint() { ls "/proc/$(cat /run/halay-lab/$lab/1)/root$HALAY_OPT_ML"/checkpoints/manifest-* >/dev/null 2>&1; }
# stop HOST: what the platform does.
stop() { on $1 pkill -TERM -x sm-entry; }

# What it has to be: four ranks of one host.
mkdir -p "$scratch/alone/input/config" "$scratch/alone/input/data"
echo "{$small}" >"$scratch/alone/input/config/hyperparameters.json"
HALAY_OPT_ML=$scratch/alone "$halayrun" -np 4 "$tft" train --data "$scratch/piece.htd" >"$dir/out" 2>"$dir/err"
check "training on one host" test $? = 0

# --- without the toolkit ---------------------------------------------------------------------------------------------
containers
by_halayrun
check "a checkpoint comes" wait_for has_checkpoint
stop 1 && stop 2
ends 1 0
ends 2 0
check "it was interrupted" grep -q 'interrupted after' "$dir/err1"
containers keep
by_halayrun
ends 1 0
ends 2 0
equals "halayrun --sagemaker, stopped and gone on"
no_orphans
containers
by_halayrun
wait_for has_checkpoint
on 2 pkill -KILL -o -x halay-tft
# Of the rank that was killed or, on a busy machine, of one that has lost it and whose end was heard of before.
wait $pid1
first=$?
check "a killed rank ends the job" eval 'test $first = 137 || test $first = 1'
ends 2 $first
for h in 1 2; do check "host $h knows why" failure $h "rank "; done
no_orphans

# --- with its mpirun -------------------------------------------------------------------------------------------------
containers
by_mpirun 4
check "a checkpoint comes" wait_for has_checkpoint
stop 2 # one host alone is told
ends 1 0
ends 2 0
check "the ranks were signalled" grep -q 'passed on to 2 ranks of this host' "$dir/err2"
check "it was interrupted" grep -q 'interrupted after' "$dir/err1"
check "no failure" eval '! on 1 test -e "$HALAY_OPT_ML/output/failure"'
containers keep
by_mpirun 4
ends 1 0
ends 2 0
check "it continued" grep -q 'continuing after step' "$dir/err1"
equals "mpirun, stopped and gone on"
check "metrics behind the prefix" grep -qE '^\[1,0\]<stderr>:eval .*valid_loss=[0-9.eE+-]+ ' "$dir/err1"
check "two lines of metrics" test "$(on 1 cat "$HALAY_OPT_ML/output/data/metrics.jsonl" | wc -l)" = 2
check "the model is all there is" test "$(on 1 ls "$HALAY_OPT_ML/model" | tr '\n' ' ')" = \
    "calibration.json model.safetensors run.json "
no_orphans

containers
by_mpirun 4
wait_for has_checkpoint
on 2 pkill -KILL -o -x halay-tft
eval 'wait $pid1'
check "a killed rank ends the job" test $? != 0
wait $pid2
check "host 1 knows which" failure 1 "rank "
no_orphans

# SDK v3 gives mpirun the ranks of one host as those of the job.
containers
by_mpirun 2
eval 'wait $pid1'
check "a host without ranks ends the job" test $? != 0
wait $pid2
check "with what causes it" failure 1 "algo-2: the job has 2 hosts, and no rank runs there (2 in all); SDK v3's MPI"

# --- through the toolkit ---------------------------------------------------------------------------------------------
if test -z "${SAGEMAKER_TOOLKIT-}"; then
    echo "skipped: SageMaker's toolkit itself (SAGEMAKER_TOOLKIT=FOLDER says where it is, or may be installed)"
    exit
fi
if ! test -x "$SAGEMAKER_TOOLKIT/bin/train" && ! "$top_srcdir/tests/lab/toolkit" "$SAGEMAKER_TOOLKIT" >"$dir/out" \
    2>&1; then
    echo "skipped: SageMaker's toolkit cannot be installed in '$SAGEMAKER_TOOLKIT': $(tail -1 "$dir/out")"
    exit
fi
SAGEMAKER_TOOLKIT=$(realpath "$SAGEMAKER_TOOLKIT")
# It knows /opt/ml only, keys in a home only, and writes all variables into /etc/environment.
HALAY_OPT_ML=/opt/ml custom=
export SAGEMAKER_PROGRAM=halay-train.sh
for h in 1 2; do
    on $h sh -c "mount -t tmpfs opt /opt && mkdir /opt/ml && : >/tmp/environment &&
        mount --bind /tmp/environment /etc/environment && mkdir -p -m 700 /tmp/home/.ssh &&
        cp /etc/ssh/lab_key /tmp/home/.ssh/id_ed25519 && chmod 600 /tmp/home/.ssh/id_ed25519"
done
toolkit_containers() {
    local h
    containers "$@"
    for h in 1 2; do
        on $h sh -c "mkdir -p /opt/ml/code /opt/ml/output/data && cd /opt/ml/input/config &&
            echo '{\"training\": {\"TrainingInputMode\": \"File\"}}' >inputdataconfig.json &&
            cat >/opt/ml/code/halay-train.sh" <<END
#!/bin/sh
HALAY_MODULE_PATH='$HALAY_MODULE_PATH' ASAN_OPTIONS='$ASAN_OPTIONS' exec '$tft' train "\$@"
END
    done
}
toolkit_containers
by_toolkit
check "a checkpoint comes" wait_for has_checkpoint
stop 2
ends 1 0
ends 2 0
check "it was interrupted" grep -q 'interrupted after' "$dir/err1"
check "the toolkit calls it a success" on 1 test -e /opt/ml/output/success
toolkit_containers keep
by_toolkit
ends 1 0
ends 2 0
equals "the toolkit, stopped and gone on"
check "its metrics too" grep -qE '^\[1,0\]<stderr>:eval .*valid_loss=[0-9.eE+-]+ ' "$dir/err1"
no_orphans
toolkit_containers
by_toolkit
wait_for has_checkpoint
on 2 pkill -KILL -o -x halay-tft
ends 1 1
check "host 1 knows which" failure 1 "rank "
wait $pid2
no_orphans
