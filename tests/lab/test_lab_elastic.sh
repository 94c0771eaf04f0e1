#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# An elastic job on two hosts of a lab: one of them is gone at once, with its half of the ranks, and the other goes on.
# Needs root and an ssh server.
. "$top_srcdir/tests/lab/lib.sh"

export HALAY_LOG=error
make_lab 2
begun() { test "$(grep -c 'begins at step' "$dir/out")" = 4; }

timeout 120 sh "$lab_script" enter "$lab" 1 "$halayrun" -H "$name-1:2,$name-2:2" --min-np 2 \
    --host-silence 5 --cooldown 60:60 "$build/examples/elastic" 1000 10 >"$dir/out" 2>"$dir/err" </dev/null &
job=$!
check "four ranks" wait_for begun
sh "$lab_script" kill "$lab" 2
wait $job
check "exit code" test $? = 0
check "the host is named" err_has "host '$name-2' (ranks 2 to 3) is lost"
check "why" grep -qE 'it has been silent for (5 s|3 s, and ranks elsewhere have lost it)$' "$dir/err"
check "and left out" err_has "host '$name-2' is left out for 60 s"
check "two go on" err_has 're-formed, generation 2: 2 ranks, workers 0,1'
check "the answer is right" test "$(grep -c 'of 2: 1000 steps, as if nobody had been lost' "$dir/out")" = 2
