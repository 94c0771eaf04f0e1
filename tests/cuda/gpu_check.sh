#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tools/gpu-check: without a GPU it says so; with the emulation in its place it makes a JSON file and a page.
set -u
: "${top_srcdir:?}" "${top_builddir:?}"
check=$top_srcdir/tools/gpu-check
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
failed=0
wrong() {
    echo "$1"
    cat "$scratch/said"
    failed=1
}
if [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ]; then
    status=0
    "$check" -o "$scratch/none" >"$scratch/said" 2>&1 || status=$?
    if [ $status != 77 ] || ! grep -q 'skipped: there is no GPU' "$scratch/said" || [ -e "$scratch/none" ]; then
        wrong "without a GPU: exit status $status"
    fi
fi
status=0
"$check" -x >"$scratch/said" 2>&1 || status=$?
if [ $status != 2 ] || ! grep -q '^usage: ' "$scratch/said"; then wrong "an unknown option: exit status $status"; fi

GPU_CHECK_EMULATED=1 "$check" -b "$top_builddir" -o "$scratch/out" >"$scratch/said" 2>&1 || wrong "it failed"
grep -q '^3 passed, 0 failed, 1 skipped after' "$scratch/said" || wrong "not three parts"
"$top_builddir/tests/perf/check_json" "$scratch/out/gpu-check.json" gpu=emulated passed=integer \
    parts.0.verdict=passed parts.1.verdict=passed parts.3.verdict=skipped \
    measurements.sums-many-small.step_ms=positive \
    measurements.training-3-f32.samples_per_second=positive >"$scratch/said" 2>&1 || wrong "the JSON"
for want in '^<pre>modelled, not measured: training steps' '<td>training-3-f32<td>[0-9]*<td>[0-9.]*$'; do
    grep -q "$want" "$scratch/out/gpu-check.html" || wrong "the page has no '$want'"
done
# What there is no time for is no success.
GPU_CHECK_EMULATED=1 GPU_CHECK_SECONDS=0 "$check" -b "$top_builddir" -o "$scratch/late" >"$scratch/said" 2>&1 ||
    wrong "it failed for want of time"
grep -q '^0 passed, 0 failed, 4 skipped after' "$scratch/said" || wrong "not all were skipped"
grep -q 'not begun: 0 s are over' "$scratch/late/gpu-check.json" || wrong "the JSON does not say why"
exit $failed
