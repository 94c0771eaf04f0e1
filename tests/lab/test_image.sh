#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The files of the images of containers/Dockerfile, built without Docker by containers/root, and entered: a training job in each as
# SageMaker starts it. Takes minutes and the network, so it runs only with TEST_IMAGE=1; TEST_IMAGE_FOLDER keeps the files (and
# Debian's, for the next time), TEST_IMAGE=toolkit also makes the image with SageMaker's toolkit.
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

# job IMAGE: an empty /opt/ml with data as tables, and the words that a container begins with.
job() {
    root=$folder/$1
    ml=$root/opt/ml
    rm -rf "$ml/model" "$ml/output" "$ml/input"
    mkdir -p "$ml/input/config" "$ml/input/data/training" "$ml/input/data/schema"
    cp "$top"/data/pjm/*.csv.gz "$ml/input/data/training/"
    cp "$top/data/pjm.yaml" "$ml/input/data/schema/"
    echo '{"hidden_size": "8", "heads": "2", "train_samples": "64", "valid_samples": "32", "epochs": "1", "sagemaker_mpi_num_of_processes_per_host": "2"}' \
        >"$ml/input/config/hyperparameters.json"
    echo '{"current_host": "algo-1", "hosts": ["algo-1"], "network_interface_name": "eth0"}' >"$ml/input/config/resourceconfig.json"
    unshare --mount --pid --uts --ipc --fork --kill-child sh -c '
        mount -t proc proc "$0/proc" && mount --bind /dev "$0/dev" && mount -t tmpfs shm "$0/dev/shm" && mount -t tmpfs tmp "$0/tmp" || exit 99
        exec chroot "$0" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root sm-entry train' "$root"
}
check "a job in the image" job runtime
mv "$folder/said" "$folder/job"
check "its two ranks" grep -q '2 ranks of' "$folder/job"
check "its model" test -s "$folder/runtime/opt/ml/model/model.safetensors"
check "no compiler" test ! -e "$folder/runtime/usr/bin/gcc"
if [ "$TEST_IMAGE" = toolkit ]; then
    check "the toolkit" chroot "$folder/toolkit" /usr/bin/python3 -c 'import sagemaker_training'
    check "its mpirun" chroot "$folder/toolkit" /usr/bin/mpirun --version
    check "its train" test -x "$folder/toolkit/usr/local/bin/train"
fi
du -sh "$folder/runtime"
[ $failed = 0 ]
