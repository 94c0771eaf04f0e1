#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# halay-tft train in a SageMaker container: a folder stands for /opt/ml. Hyperparameters and both spellings of the
# command line, channels, the model that predict and evaluate read, a job that is interrupted and goes on in another
# container, and the failure file, once.
. "${top_srcdir:?}/tests/tft/shell.sh"
data=$scratch/piece.htd
check "prepare" "$tft" prepare --schema "$top_srcdir/data/pjm.yaml" "$top_srcdir/data/pjm" -o "$data"

# container NAME HYPERPARAMETERS [HOSTS]: an empty one, with the prepared data in a channel.
container() {
    HALAY_OPT_ML=$scratch/$1
    export HALAY_OPT_ML
    mkdir -p "$HALAY_OPT_ML/input/config" "$HALAY_OPT_ML/input/data/training" "$HALAY_OPT_ML/model"
    cp "$data" "$HALAY_OPT_ML/input/data/training/"
    echo "$2" >"$HALAY_OPT_ML/input/config/hyperparameters.json"
    echo "{\"current_host\": \"algo-1\", \"hosts\": [${3-\"algo-1\"}], \"network_interface_name\": \"eth0\"}" \
        >"$HALAY_OPT_ML/input/config/resourceconfig.json"
}
small='"hidden_size": "8", "heads": "2", "batch_size": "32", "learning_rate": "0.01", "train_samples": "160",
    "valid_samples": "32", "epochs": "2", "threads": "1", "deterministic": "\"ranks\""'
train() {
    "$tft" train "$@"
}
# failed TEXT: the failure file has it, and is no longer than what is shown.
failed() {
    if grep -qF -e "$1" "$HALAY_OPT_ML/output/failure" && [ "$(wc -c <"$HALAY_OPT_ML/output/failure")" -le 1025 ]; then
        pass
    else
        wrong "no failure file with '$1': $(cat "$HALAY_OPT_ML/output/failure" 2>&1)"
    fi
}

# --- what works ------------------------------------------------------------------------------------------------------
container plain "{$small, \"quantiles\": \"[0.1, 0.5, 0.9]\", \"seed\": 1, \"optimizer\": \"adam\", \"init_from\": \"\",
    \"max_time\": \"null\", \"max_steps\": \"None\", \"resume\": \"True\", \"sagemaker_program\": \"\\\"x\\\"\",
    \"sagemaker_mpi_enabled\": \"true\", \"_tuning_objective_metric\": \"valid_loss\"}"
check "hyperparameters and a channel" train
cp "$scratch/said" "$scratch/lines"
grep -qE 'valid_loss=[0-9.]+ .*valid_p50=[0-9.]+' "$scratch/said" && pass || wrong "no lines of evaluations"
for example in "$top_srcdir"/examples/sagemaker/*.py; do
    sed -n 's/.*"Regex": "\(.*\)"}.*/\1/p' "$example" >"$scratch/regexes"
    while read -r regex; do
        # As a line looks behind mpirun.
        if sed 's/^/[1,0]<stderr>:/' "$scratch/lines" |
            grep -qE -e "$regex"; then pass; else wrong "${example##*/}: '$regex' fits no line"; fi
    done <"$scratch/regexes"
done
needed="calibration.json model.safetensors run.json "
check "only what predict needs" [ "$(ls "$HALAY_OPT_ML/model" | tr "\n" " ")" = "$needed" ]
check "metrics" [ "$(wc -l <"$HALAY_OPT_ML/output/data/metrics.jsonl")" -eq 2 ]
check "no failure" [ ! -e "$HALAY_OPT_ML/output/failure" ]
(
    unset HALAY_OPT_ML
    "$tft" evaluate --checkpoint "$scratch/plain/model" --data "$data" --split test --stride 24 >"$scratch/said" 2>&1
) && pass || wrong "the model is not evaluated"
same() {
    name=$1
    shift
    check "$name" train "$@"
    cmp -s "$HALAY_OPT_ML/model/model.safetensors" "$scratch/plain/model/model.safetensors" && pass ||
        wrong "$name: other parameters"
}
container v2 '{}'
same v2 --batch_size 32 --deterministic ranks --epochs 2 --heads 2 --hidden_size 8 --init_from '' --learning_rate 0.01 \
    --quantiles '[0.1, 0.5, 0.9]' --resume True --threads 1 --train_samples 160 --valid_samples 32 \
    --find_learning_rate False --max_time None
container v3 '{"sagemaker_job_name": "\"x\""}'
same v3 --quantiles '[0.1, 0.5, 0.9]' --hidden-size 8 --heads 2 --batch-size 32 --learning-rate 0.01 \
    --train-samples 160 \
    --valid-samples 32 --epochs 2 --threads 1 --deterministic ranks --resume true --sagemaker_job_name x
container tables "{$small, \"schema\": \"pjm.yaml\"}"
rm "$HALAY_OPT_ML/input/data/training/piece.htd"
cp "$top_srcdir"/data/pjm/*.csv.gz "$HALAY_OPT_ML/input/data/training/"
mkdir "$HALAY_OPT_ML/input/data/schema"
cp "$top_srcdir/data/pjm.yaml" "$HALAY_OPT_ML/input/data/schema/"
same tables
rm -rf "${HALAY_OPT_ML:?}/model/"*
sed -i 's/, "schema".*/}/' "$HALAY_OPT_ML/input/config/hyperparameters.json"
TMPDIR=$scratch
export TMPDIR
check "two ranks prepare one file" "$halayrun" -H localhost:2 "$tft" train
cmp -s "$HALAY_OPT_ML/model/model.safetensors" "$scratch/plain/model/model.safetensors" && pass ||
    wrong "other parameters on two ranks"
[ -z "$(find "$scratch" -maxdepth 1 -name 'halay-tft.*')" ] || wrong "the prepared file is left"

# --- interrupted, and on in a new container --------------------------------------------------------------------------
# interrupted SIGNAL: the job ends well after it, with its checkpoints and what is known of it.
longer=$(echo "$small" | sed 's/"160"/"640"/')
interrupted() {
    container "first-$1" "{$longer, \"checkpoint_every\": \"1\"}"
    mkdir "$HALAY_OPT_ML/checkpoints"
    pause_at manifest-0000000001.json "$tft" train
    kill -s "$1" $job
    go_on
    wait $job && pass || wrong "$1 does not end it well"
    grep -q 'interrupted after' "$scratch/said" && pass || wrong "$1 does not interrupt it"
    [ ! -e "$HALAY_OPT_ML/output/failure" ] || wrong "an interruption is no failure"
    container "second-$1" "{$longer, \"checkpoint_every\": \"1\"}"
    mv "$scratch/first-$1/checkpoints" "$HALAY_OPT_ML/"
    check "it goes on after $1" train
    cmp -s "$HALAY_OPT_ML/model/model.safetensors" "$scratch/whole/model/model.safetensors" && pass ||
        wrong "$1: not what it would have been"
    [ "$(wc -l <"$HALAY_OPT_ML/output/data/metrics.jsonl")" -eq 2 ] || wrong "$1: not all lines of both"
}
container whole "{$longer}"
check "never interrupted" train
for signal in USR1 TERM CONT; do
    interrupted $signal
done

# --- failures --------------------------------------------------------------------------------------------------------
container unknown "{$small, \"learning_rat\": \"0.1\"}"
refused 2 "did you mean 'learning_rate'" train
failed "unknown key 'learning_rat'"
echo "earlier" >"$HALAY_OPT_ML/output/failure"
refused 2 "did you mean" train
failed earlier
container value "{\"hidden_size\": \"many\"}"
refused 2 "'hidden_size' must be" train
failed "'hidden_size' must be"
container broken "{"
refused 1 "hyperparameters.json" train
failed "hyperparameters.json"
container nowhere "{$small}"
rm -r "$HALAY_OPT_ML/input/data/training"
refused 2 "no channel 'training'" train
container bare "{$small}"
rm "$HALAY_OPT_ML/input/data/training/piece.htd"
refused 2 "no schema says" train
container sharded "{$small}" '"algo-1", "algo-2"'
echo '{"training": {"S3DistributionType": "ShardedByS3Key", "TrainingInputMode": "File"}}' \
    >"$HALAY_OPT_ML/input/config/inputdataconfig.json"
refused 2 "ask for FullyReplicated" train
echo '{"training": {"TrainingInputMode": "Pipe"}}' >"$HALAY_OPT_ML/input/config/inputdataconfig.json"
refused 2 "ask for File or FastFile" train

# --- traps -----------------------------------------------------------------------------------------------------------
container alone "{$small}" '"algo-1", "algo-2"'
refused 1 "algo-2: the job has 2 hosts, and no rank runs there (1 in all)" train
failed "mpi_additional_options=['-np'"
rm "$HALAY_OPT_ML/output/failure"
refused 1 "algo-2: the job has 2 hosts" "$halayrun" -H localhost:2 "$tft" train
mkdir -p "$scratch/none"
HALAY_OPT_ML=$scratch/none
refused 1 "unset LD_PRELOAD" env LD_PRELOAD="$scratch/gethostname.cpython-311.so" "$tft" train --data "$data" \
    --out "$scratch/none/run"
finish
