#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A disk that is full while a checkpoint is written: an error that names the file; the checkpoints before are still
# good, and with room again the run goes on to the same end.
. "${top_srcdir:?}/tests/tft/shell.sh"
disk=$scratch/disk
mkdir "$disk"
mount -t tmpfs -o size=1m halay-test "$disk" 2>/dev/null || {
    echo "skipped: a file system of its own (mount -t tmpfs) is not allowed here"
    exit 77
}
trap 'umount "$disk"; rm -rf "$scratch"' EXIT
data=$scratch/piece.htd
check "prepare" "$tft" prepare --schema "$top_srcdir/data/pjm.yaml" "$top_srcdir/data/pjm" -o "$data"
train() {
    "$tft" train --data "$data" --hidden-size 8 --heads 2 --batch-size 32 --train-samples 320 --valid-samples 32 \
        --eval-every 5 --epochs 2 --keep 2 --threads 1 --schedule constant "$@"
}
check "never stopped" train --out "$scratch/whole"
check "some steps" train --out "$disk/run" --max-steps 5
# All but 60 KB of it: room for one block of a checkpoint, and not for three.
dd if=/dev/zero of="$disk/ballast" bs=1k 2>/dev/null || :
truncate -s -60K "$disk/ballast"
refused 1 "cannot write '$disk/run/checkpoints/step-" train --out "$disk/run" --resume
grep -q "No space left on device" "$scratch/said" || wrong "it does not say why: $(cat "$scratch/said")"
[ -e "$disk/run/checkpoints/manifest-0000000005.json" ] || wrong "the checkpoint before is gone"
[ -z "$(find "$disk" -name '*.tmp.*')" ] || wrong "what was half written is left: $(find "$disk" -name '*.tmp.*')"
rm "$disk/ballast"
check "go on with room" train --out "$disk/run" --resume
check "the same in the end" cmp "$scratch/whole/model.safetensors" "$disk/run/model.safetensors"
finish
