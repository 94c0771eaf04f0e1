#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tools/test-report on folders made for it: what passed, failed, was skipped and broke is counted and named, and a run
# without a test that passed is no success. In the gate a skip that no list has is a failure, also that of a part.
. "${top_srcdir:?}/tests/build/build.sh"

# add NAME VERDICT LINE: as automake leaves it.
add() {
    mkdir -p "$scratch/build/$(dirname "$1")"
    printf ':test-result: %s\n:recheck: no\n' "$2" >"$scratch/build/$1.trs"
    printf 'first line\n%s\n%s %s (exit status: 1)\n' "$3" "$2" "$1" >"$scratch/build/$1.log"
}

# expect STATUS LAST-LINE PATTERN...
expect() {
    checks=$((checks + 1))
    status=0
    "$top_srcdir/tools/test-report" "$scratch/build" "$scratch/list" >"$scratch/said" || status=$?
    [ "$status" -eq "$1" ] || wrong "exit status $status instead of $1"
    [ "$(tail -n 1 "$scratch/said")" = "$2" ] || wrong "last line '$(tail -n 1 "$scratch/said")' instead of '$2'"
    shift 2
    for pattern; do grep -q "$pattern" "$scratch/said" || wrong "no line matches '$pattern'"; done
}

unset TEST_GATE
mkdir "$scratch/build"
expect 1 '0 passed, 0 failed, 0 skipped'
add tests/a/test_gpu SKIP 'skipped: no device'
expect 1 '0 passed, 0 failed, 1 skipped' '^skipped: tests/a/test_gpu: no device$'
add tests/a/test_good PASS '5 checks passed'
expect 0 '1 passed, 0 failed, 1 skipped'
add tests/b/test_bad.sh FAIL 'x.c:3: failed: 1 == 2'
expect 1 '1 passed, 1 failed, 1 skipped' '^failed: tests/b/test_bad.sh' 'x.c:3: failed'
add tests/b/test_broken ERROR 'broken: memory'
expect 1 '1 passed, 2 failed, 1 skipped' '^failed: tests/b/test_broken'

# In the gate.
rm -r "$scratch/build"
add tests/a/test_good PASS '5 checks passed'
add tests/a/test_gpu SKIP 'skipped: no device'
add tests/b/test_half.sh PASS 'skipped: no torch'
expect 0 '2 passed, 0 failed, 1 skipped' '^skipped a part: tests/b/test_half.sh: no torch$'
TEST_GATE=full
export TEST_GATE
: >"$scratch/list"
expect 1 '1 passed, 2 failed, 0 skipped' '^failed: tests/a/test_gpu was skipped.*no device' \
    '^failed: tests/b/test_half.sh was skipped'
printf '# why\nfull,thread tests/*/test_gpu ^no dev\n\nall tests/b/* (torch|horovod)\n' >"$scratch/list"
expect 0 '2 passed, 0 failed, 1 skipped' '^skipped: tests/a/test_gpu' '^skipped a part: tests/b/test_half.sh'
TEST_GATE=sanitize
expect 1 '2 passed, 1 failed, 0 skipped' '^failed: tests/a/test_gpu'
TEST_GATE=thread
add tests/a/test_gpu SKIP 'skipped: the device is too old'
expect 1 '2 passed, 1 failed, 0 skipped' '^failed: tests/a/test_gpu.*too old'
build_end
