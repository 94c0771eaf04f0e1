# SPDX-License-Identifier: Apache-2.0
#
# What the launcher's tests share. Sourced; $halayrun and $probe are the programs, $dir a folder of this test's own.

# Signals as a login shell has them: under nohup SIGHUP is ignored, under some services SIGPIPE, and neither a shell nor
# what it starts takes that back by itself.
if test -z "${halay_test_signals-}"; then
    export halay_test_signals=default
    exec env --default-signal "$0"
fi
set -u
halayrun=$top_builddir/launcher/halayrun
probe=$top_builddir/tests/launcher/probe
dir=$(mktemp -d) && touch "$dir/begin" || exit 99
failed=0 passed=0
# HALAY_HOST_SILENCE: the usual 10 s, since halayrun and its agents share busy processors.
unset NO_COLOR HALAY_RANK HALAY_SIZE HALAY_SECRET HALAY_HOST_SILENCE

# Whatever a failing test leaves behind must not outlive it.
finish() {
    test -f "$dir/pids" && kill -9 $(cat "$dir/pids") 2>/dev/null
    rm -rf "$dir"
    echo "$passed checks passed, $failed failed"
    test $failed = 0 && test $passed -gt 0
    exit $?
}
trap finish EXIT

skip() {
    trap - EXIT
    rm -rf "$dir"
    echo "skipped: $*"
    exit 77
}

# needs PROGRAM...: the test is skipped where one of them is not installed.
needs() {
    local program
    for program; do
        command -v "$program" >/dev/null || skip "no $program"
    done
}

# made_by: the files of processes of this test, whose numbers it reads, by the numbers in their names. Numbers return:
# what is older than the test is not theirs.
made_by() {
    local number
    while read -r number; do
        find /tmp /dev/shm -maxdepth 1 -name "*halay*-$number-*" -newer "$dir/begin"
    done
}

# check TEXT CONDITION...: one check.
check() {
    local text=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "failed: $text: $*"
        test -s "$dir/out" && sed 's/^/  out: /' "$dir/out" | head -20
        test -s "$dir/err" && sed 's/^/  err: /' "$dir/err" | head -20
    fi
}

# run EXPECTED-CODE ARGS...: halayrun with its output in $dir/out and $dir/err.
run() {
    local want=$1
    shift
    "$halayrun" "$@" >"$dir/out" 2>"$dir/err" </dev/null
    local code=$?
    check "exit code of halayrun $* is $code, not $want" test $code = "$want"
}

# third_party WHAT: false, and a part skipped, unless tests run that a program of another project ends now and then
# (tools/check -l third-party)
third_party() {
    [ -n "${TEST_THIRD_PARTY-}" ] || { echo "skipped: $1: in the list third-party only"; return 1; }
}

# write_mpirun FOLDER FLAVOUR: a folder with this MPI's mpirun; false: there is none. MPICH's is now and then ended by
# SIGPIPE when a rank is done at once.
write_mpirun() {
    local real
    real=$(command -v mpirun.$2) || { echo "skipped: no mpirun.$2"; return 1; }
    [ $2 = openmpi ] || third_party mpirun.$2 || return 1
    mkdir "$1" && printf '#!/bin/sh\nexec %s "$@"\n' "$real" >"$1/mpirun" && chmod +x "$1/mpirun"
}

out_has() { grep -qF -e "$1" "$dir/out"; }
err_has() { grep -qF -e "$1" "$dir/err"; }

# wait_for CONDITION...: until it holds; false after a minute, which is a failure, not a measurement.
wait_for() {
    local i
    for i in $(seq 1200); do
        "$@" 2>/dev/null && return 0
        sleep 0.05
    done
    return 1
}

# hold_port VARIABLE: a port of this test's own, for a halayrun that has to be told one. A child holds it, whose output
# stays open here: a plain wait would wait for it, too.
hold_port() {
    local held
    exec {held}< <(exec "$probe" port)
    read -r "$1" <&$held
}

is_gone() { ! test -d "/proc/$1" || grep -q '^State:.[ZX]' "/proc/$1/status" 2>/dev/null; }
all_gone() {
    local pid
    for pid in $(cat "$dir/pids"); do
        is_gone "$pid" || return 1
    done
}
has_lines() { test "$(wc -l <"$2")" -ge "$1"; }
