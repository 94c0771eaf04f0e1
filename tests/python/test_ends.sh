#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Ctrl-C, fork, and ends of programs with things in flight: without a hang, a crash or a complaint of the interpreter's.
. "$top_srcdir/tests/python/lib.sh"
need numpy
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# ends WHAT STATUS
ends() {
    status=0
    job 2 ends.py "$1" >"$dir/out" 2>"$dir/err" || status=$?
    [ "$status" = "$2" ] && ! grep -E 'Exception ignored|Fatal Python|Segmentation' "$dir/err" || {
        echo "$1: status $status, not $2"
        cat "$dir/out" "$dir/err"
        exit 1
    }
    echo "$1: as it should"
}

for what in interrupt start sets fork flight late thread outlived forgotten; do
    ends $what 0
done
STALLED_FILE=$dir/reported
export STALLED_FILE
ends stalled 0
for shown in '^\[1\]! .*stalled: others wait for this rank, process [0-9]*; its stacks:' 'in lost_in_here$'; do
    grep -q "$shown" "$dir/err" || { echo "no '$shown'"; cat "$dir/err"; exit 1; }
done
ends raise 1
grep -q "the program's own" "$dir/err" || { cat "$dir/err"; exit 1; }
