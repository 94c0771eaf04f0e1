#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The files of the images of containers/Dockerfile, built without Docker by containers/root, and entered: a training job
# in each as SageMaker starts it. Takes minutes and the network, so it runs only with TEST_IMAGE=1; TEST_IMAGE_FOLDER
# keeps the files (and Debian's, for the next time), TEST_IMAGE=toolkit also makes the image with SageMaker's toolkit.
top=${top_srcdir:?}
skip() { echo "skipped: $*"; exit 77; }
[ -n "${TEST_IMAGE-}" ] || skip "the images take minutes; TEST_IMAGE=1 builds them"
[ "$(id -u)" = 0 ] || skip "only root can build a file system of its own"
command -v debootstrap >/dev/null || skip "debootstrap is not installed"
unshare --mount --pid --fork true 2>/dev/null || skip "namespaces are forbidden here"
folder=${TEST_IMAGE_FOLDER-}
if [ -z "$folder" ]; then
    folder=$(mktemp -d) || exit 99
    trap 'rm -rf "$folder"' EXIT
    trap 'exit 99' HUP INT TERM
fi
failed=0
check() {
    what=$1
    shift
    "$@" >"$folder/said" 2>&1 || { failed=1; echo "failed: $what"; tail -n 20 "$folder/said"; }
}

"$top/containers/root" "$folder" "${TEST_IMAGE#1}" >"$folder/log" 2>&1 ||
    { tail -n 30 "$folder/log"; echo "the image cannot be built"; exit 1; }

# job IMAGE [WORD]: an empty /opt/ml with data as tables, and the image started as its Dockerfile says.
hyperparameters='"hidden_size": "8", "heads": "2", "train_samples": "64", "valid_samples": "32", "epochs": "1",
    "sagemaker_mpi_num_of_processes_per_host": "2"'
job() {
    root=$folder/$1
    ml=$root/opt/ml
    shift
    rm -rf "$ml/model" "$ml/output" "$ml/input"
    mkdir -p "$ml/input/config" "$ml/input/data/training" "$ml/input/data/schema"
    cp "$top"/data/pjm/*.csv.gz "$ml/input/data/training/"
    cp "$top/data/pjm.yaml" "$ml/input/data/schema/"
    echo "{$hyperparameters}" >"$ml/input/config/hyperparameters.json"
    echo '{"current_host": "algo-1", "hosts": ["algo-1"], "network_interface_name": "lo"}' \
        >"$ml/input/config/resourceconfig.json"
    echo '{"training": {"TrainingInputMode": "File"}}' >"$ml/input/config/inputdataconfig.json"
    echo '127.0.0.1 localhost algo-1' >"$root/etc/hosts"
    "$top/containers/start" "$root" "$@"
}
check "a job in the image" job runtime train
mv "$folder/said" "$folder/job"
check "its two ranks" grep -q '2 ranks of' "$folder/job"
check "its model" test -s "$folder/runtime/opt/ml/model/model.safetensors"
check "the same without a word" job runtime
check "its model then" test -s "$folder/runtime/opt/ml/model/model.safetensors"
plain() { "$top/containers/start" "$folder/plain" "$@"; }
health=$(sed -n 's/^HEALTHCHECK .*CMD //p' "$top/containers/Dockerfile" | tr -d '[]",')
check "the plain image's help" plain
check "a job of two ranks in it" plain -np 2 sh -c 'id -u; touch "$HOME/written"'
check "not as root" test "$(grep -c ' 10001$' "$folder/said")" = 2
check "its health" plain -np 1 sh -c "sleep 1; $health"
sick() { ! env --chdir=/ chroot --userspec=10001:10001 "$folder/plain" sh -c "$health"; }
check "no health without a job" sick
library=$(realpath "$(find "$folder/runtime/usr/lib" -name libucp.so.0)")
mv "$library" "$folder/away"
lacks() { ! chroot "$folder/runtime" sh -s check <"$top/containers/stage" && grep -q "$1 => not found" "$folder/said"; }
check "a library that is missing" lacks libucp.so.0
mv "$folder/away" "$library"
chroot "$folder/runtime" ldconfig
check "no compiler" test ! -e "$folder/runtime/usr/bin/gcc"
if [ "$TEST_IMAGE" = toolkit ]; then
    hyperparameters="$hyperparameters, \"sagemaker_mpi_enabled\": \"True\""
    check "a job by the toolkit" job toolkit train
    mv "$folder/said" "$folder/job"
    check "its mpirun" grep -q 'mpirun --host algo-1:2 -np 2 ' "$folder/job"
    check "its two ranks" grep -q '2 ranks of' "$folder/job"
    check "its metrics" grep -q '^\[1,0\]<stderr>:eval step=' "$folder/job"
    check "its model" test -s "$folder/toolkit/opt/ml/model/model.safetensors"
fi
du -sh "$folder/runtime"
[ $failed = 0 ]
