# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
#
# What the scripts that test halay-tft share: where things are, a scratch folder, and a counter of checks.
#   check NAME COMMAND...         the command succeeds
#   refused STATUS TEXT COMMAND...  the command exits with STATUS, says TEXT and writes nothing
#   needs PROGRAM...              the test is skipped where one of them is not installed
#   needs_halayrun                the test is skipped where halayrun is not built
#   apart RANKS PROGRAM ARGS...   as ranks that each work in a folder of their own, $scratch/host.RANK, as if on hosts
#                                 that share no files
#   pause_at NAME COMMAND...      the command runs in the background ($job) until one of its processes ($paused) has
#                                 given a file NAME: that one waits there until `go_on`, or until it is killed
#   pid_of RANK                   the process of a rank of such a `halayrun --verbose`
set -eu
: "${top_srcdir:?}" "${top_builddir:?}"
tft=${TFT_PROGRAM:-$top_builddir/halay-tft}
# What libtool's script starts, without it: it takes as long as the program, and some tests start hundreds.
if [ -z "${TFT_PROGRAM-}" ] && [ -x "$top_builddir/.libs/halay-tft" ]; then
    tft=$top_builddir/.libs/halay-tft
    LD_LIBRARY_PATH=$(cd "$top_builddir/.libs" && pwd)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
fi
export tft
halayrun=$top_builddir/launcher/halayrun
[ -x "$halayrun" ] || halayrun=$top_builddir/halayrun
scratch=$(mktemp -d "${TMPDIR:-/tmp}/halay-test.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 99' HUP INT TERM
passed=0 failed=0

pass() {
    passed=$((passed + 1))
}

wrong() {
    failed=$((failed + 1))
    echo "failed: $*"
}

check() {
    what=$1
    shift
    if "$@" >"$scratch/said" 2>&1; then
        pass
    else
        wrong "$what"
        tail -n 20 "$scratch/said"
    fi
}

refused() {
    expected=$1 text=$2
    shift 2
    status=0
    "$@" >"$scratch/said" 2>&1 || status=$?
    if [ "$status" -eq "$expected" ] && grep -qF -e "$text" "$scratch/said"; then
        pass
    else
        wrong "$* ended with $status, expected $expected and '$text'"
        tail -n 5 "$scratch/said"
    fi
}

needs() {
    for program; do
        command -v "$program" >/dev/null || {
            echo "skipped: no $program"
            exit 77
        }
    done
}

needs_halayrun() {
    [ -x "$halayrun" ] || {
        echo "skipped: halayrun is not built"
        exit 77
    }
}

apart() {
    ranks=$1 program=$(realpath "$2")
    shift 2
    # shellcheck disable=SC2016 # each rank's
    "$halayrun" -np "$ranks" sh -c 'mkdir -p "$0.$HALAY_RANK" && cd "$0.$HALAY_RANK" && exec "$@"' "$scratch/host" \
        "$program" "$@"
}

pause_at() {
    pause_name=$1
    shift
    [ -e "$top_builddir/tests/tft/.libs/pause.so" ] || { echo "failed: tests/tft/pause.la is not built"; exit 1; }
    rm -rf "$scratch/pause"
    mkdir "$scratch/pause"
    mkfifo "$scratch/pause/on"
    LD_PRELOAD=$(realpath "$top_builddir/tests/tft/.libs/pause.so") PAUSE_AT=$pause_name PAUSE_IN=$scratch/pause \
        ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0" "$@" >"$scratch/said" 2>&1 &
    job=$!
    until [ -e "$scratch/pause/pid" ]; do
        kill -0 $job 2>/dev/null || { echo "failed: '$*' ended without '$pause_name'"; cat "$scratch/said"; exit 1; }
        sleep 0.01
    done
    paused=$(cat "$scratch/pause/pid")
}

go_on() {
    # This does not wait for a process that has ended, and stays open for one that is not there yet.
    exec 7<>"$scratch/pause/on"
}

pid_of() {
    until grep -q "^halayrun: rank $1: pid" "$scratch/said"; do sleep 0.01; done
    sed -n "s/^halayrun: rank $1: pid \([0-9]*\),.*/\1/p" "$scratch/said"
}

finish() {
    echo "$passed checks passed, $failed failed"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}

# drawn PAGE: have Chromium draw a page, for `shows`. Without Chromium nothing is drawn, and `shows` accepts anything;
# nor with sanitizers (TEST_BRIEF), which it does not have.
drawn() {
    rm -f "$scratch/drawn"
    [ -z "${TEST_BRIEF-}" ] && command -v chromium >/dev/null || return 0
    chromium --headless --no-sandbox --disable-gpu --user-data-dir="$scratch/chromium" --virtual-time-budget=10000 \
        --dump-dom "file://$1" 2>/dev/null | sed '/<script/,/<\/script>/d; s/></>\n</g' >"$scratch/drawn"
    grep -q '<summary>All numbers' "$scratch/drawn" || wrong "Chromium does not draw $1"
}

# shows PATTERN: the page that was drawn last has a line that matches.
shows() {
    [ ! -e "$scratch/drawn" ] || grep -q "$1" "$scratch/drawn" || wrong "the page does not show '$1'"
}
