# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# What the tests in a lab share, beside what the launcher's do. Sourced. $lab is the lab's number once there is one, its
# hosts are $name-1, $name-2 and so on; $scratch is a folder that all of them see, unlike /tmp.
. "$top_srcdir/tests/launcher/lib.sh" || exit 99

lab_script=$(realpath "$top_srcdir")/tests/lab/lab
build=$(realpath "$top_builddir")
halayrun=$build/launcher/halayrun
export HALAY_MODULE_PATH=$build/.libs ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
lab='' scratch=''

remove_lab() {
    test -z "$lab" || sh "$lab_script" remove "$lab"
    rm -rf "$scratch"
}
trap 'remove_lab; finish' EXIT

# leave CODE: without a verdict on the checks.
leave() {
    trap - EXIT
    remove_lab
    rm -rf "$dir"
    exit "$1"
}
skip() {
    echo "skipped: $*"
    leave 77
}

# make_lab HOSTS: each with an ssh server.
make_lab() {
    needs pgrep pkill ps
    scratch=$(mktemp -d "$build/lab.XXXXXX") || exit 99
    lab=$(sh "$lab_script" make --ssh "$1") || leave $?
    name=hl$lab
}

# on HOST COMMAND...
on() { sh "$lab_script" enter "$lab" "$@"; }
# run_on_1 CODE ARGS...: halayrun on host 1, to its end
run_on_1() {
    local want=$1 code
    shift
    timeout 120 sh "$lab_script" enter "$lab" 1 "$halayrun" "$@" >"$dir/out" 2>"$dir/err" </dev/null
    code=$?
    check "exit code of halayrun $* is $code, not $want" test $code = "$want"
}

# documented ROW: halay's line in that row of the table in docs/guides/from-torchrun.md
documented() {
    awk -F ' [|] ' -v row="| $1" '$1 == row { split($3, part, "`"); print part[2] }' \
        "$top_srcdir/docs/guides/from-torchrun.md"
}
