#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What is raised: mismatches on every rank, a rank's own mistakes, the death of a rank on all others.
. "$top_srcdir/tests/python/lib.sh"
need numpy
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

for size in 2 3; do
    job "$size" errors.py 2>"$dir/err" || { cat "$dir/err"; exit 1; }
    ! grep "error: tensor" "$dir/err" || { echo "an error that was raised is in the log, too"; exit 1; }
    mkdir "$dir/$size"
    job "$size" errors.py met "$dir/$size" 2>"$dir/err" || { cat "$dir/err"; exit 1; }
    status=0
    job "$size" errors.py killed >"$dir/out" 2>"$dir/err" || status=$?
    [ $status = 137 ] && [ "$(grep -c 'told$' "$dir/out")" = $((size - 1)) ] || {
        echo "$size ranks, one is killed: status $status"
        cat "$dir/out" "$dir/err"
        exit 1
    }
    echo "$size ranks: every rank is told"
done
