#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The device suite: what the emulation runs, on a GPU: each kernel beside the processor's, whole steps, the engine's
# operations on memory of the device, ranks that share it, one that is killed, trainings. tools/gpu-check runs it with
# more around it. One line for each part.
set -u
: "${top_srcdir:?}" "${top_builddir:?}"
[ -e /dev/nvidiactl ] || [ -e /dev/dxg ] || {
    echo "skipped: there is no GPU"
    exit 77
}
programs=$top_builddir/tests/cuda/device
[ -x "$programs/test_kernels" ] || {
    echo "skipped: built without CUDA's libraries"
    exit 77
}
HALAY_MODULE_PATH=$top_builddir/.libs
CUDA_MODULES=$HALAY_MODULE_PATH
export HALAY_MODULE_PATH CUDA_MODULES
said=$(mktemp) || exit 99
trap 'rm -f "$said"' EXIT
trap 'exit 1' HUP INT TERM
failed=0

# part TEXT COMMAND...
part() {
    text=$1
    shift
    if timeout 120 "$@" >"$said" 2>&1; then
        echo "passed: $text: $(tail -n 1 "$said")"
    else
        echo "failed: $text: exit status $?, $*"
        failed=1
        tail -n 30 "$said"
    fi
}
part "kernels" "$programs/test_kernels"
part "whole steps" "$programs/test_model"
for seed in 1 2 3; do
    part "operations of threads, seed $seed" env EMU_SEED=$seed "$programs/test_devices"
done
part "all-reduces of devices, threads" "$programs/test_devices_direct"
part "all-reduces of devices, two ranks share it" "$programs/test_devices_direct" --spawn 2 sums
part "the same, a rank is killed" "$programs/test_devices_direct" --spawn 3 die
part "two ranks share it" "$programs/test_devices" --spawn 2 mixed
part "a rank is killed" "$programs/test_devices" --spawn 3 die
part "trainings" sh "$top_srcdir/tests/cuda/train.sh"
exit $failed
