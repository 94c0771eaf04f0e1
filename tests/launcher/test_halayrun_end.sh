#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# halayrun: signals, and that nothing is left however it ends: neither processes that hide, nor files. $where: options
# for where the ranks run; test_other_hosts_end.sh sets them.
. "$top_srcdir/tests/launcher/lib.sh" || exit 99
where=${where-}
watched=$(realpath "$top_builddir")/tests/launcher/watched

# What the jobs of this test have left: temporary files in a folder of its own; records by their halayruns' numbers.
export TMPDIR=$dir/tmp
mkdir "$TMPDIR"
: >"$dir/fronts"
files() { ls "$TMPDIR" && made_by <"$dir/fronts"; }

# start ARGS...: halayrun in the background as $front; the job's process is its child. A shell's background programs
# ignore SIGINT and SIGQUIT; this one must not.
start() {
    : >"$dir/pids"
    env --default-signal=INT,QUIT "$halayrun" $where "$@" >"$dir/out" 2>"$dir/err" </dev/null &
    front=$!
    echo $front >>"$dir/fronts"
}
job_of() { cat /proc/"$1"/task/*/children 2>/dev/null | awk '{print $1}'; }
# ended CODE TEXT: halayrun has ended like this, and so has every process that wrote its number.
ended() {
    wait $front
    local code=$?
    check "$2: exit code is $code, not $1" test $code = "$1"
    check "$2: all processes are gone" wait_for all_gone
}

# --- a rank fails ----------------------------------------------------------------------------------------------------
stubborn="trap '' TERM; echo \$\$ >>$dir/pids; while :; do sleep 0.1; done"
two_are_there="until test \$(wc -l <$dir/pids) = 2; do sleep 0.05; done"
start -np 3 --grace 0.2 bash -c \
    "if test \$HALAY_RANK = 1; then $two_are_there; echo why >&2; exit 9; fi; $stubborn"
ended 9 "ranks that ignore SIGTERM"
check "who is killed" err_has 'ranks 0, 2 did not end in time: SIGKILL'
check "why" err_has 'halayrun:   | why'
start -np 2 bash -c \
    "echo \$\$ >>$dir/pids; test \$HALAY_RANK = 1 && exec sleep 1000; $two_are_there; kill -9 \$\$"
ended 137 "a rank is killed"
check "by what" err_has 'was killed by SIGKILL'

# --- signals ---------------------------------------------------------------------------------------------------------
for pair in INT:130 TERM:143 HUP:129 QUIT:131; do
    signal=${pair%:*}
    start -np 2 sh -c "echo \$\$ >>$dir/pids; exec sleep 1000"
    wait_for has_lines 2 "$dir/pids"
    kill -$signal $front
    ended "${pair#*:}" "SIG$signal"
    check "SIG$signal is reported" err_has "SIG$signal: passed on to the ranks"
    check "no rank is blamed" test "$(grep -c 'was killed by' "$dir/err")" = 0
done
trap '' HUP
start -np 2 bash -c "trap 'echo one' USR1; echo \$\$ >>$dir/pids; while :; do sleep 0.05; done"
trap - HUP
wait_for has_lines 2 "$dir/pids"
kill -HUP $front
kill -USR1 $front
wait_for eval 'test $(grep -c one "$dir/out") = 2'
check "SIGHUP is ignored where the caller wants it, as under nohup" test "$(grep -c one "$dir/out")" = 2
check "and not a word" test "$(grep -c SIGHUP "$dir/err")" = 0
kill -TERM $front
ended 143 "after a SIGHUP that was ignored"
start -np 2 bash -c "trap 'echo saved; exit 0' TERM; echo \$\$ >>$dir/pids; while :; do sleep 0.05; done"
wait_for has_lines 2 "$dir/pids"
kill -TERM $front
ended 0 "ranks that end well on SIGTERM"
check "both did" test "$(grep -c saved "$dir/out")" = 2
start -np 2 bash -c "trap 'echo heard' TERM; echo \$\$ >>$dir/pids; while :; do sleep 0.05; done"
wait_for has_lines 2 "$dir/pids"
kill -TERM $front
wait_for eval 'test $(grep -c heard "$dir/out") = 2'
check "still there" test "$(grep -c heard "$dir/out")" = 2
kill -TERM $front
ended 143 "told twice"
check "a second signal is reported" err_has 'SIGTERM: SIGKILL to all ranks'
start -np 2 bash -c "trap 'echo heard; sleep 0.3; exit 0' TERM; echo \$\$ >>$dir/pids; while :; do sleep 0.05; done"
wait_for has_lines 2 "$dir/pids"
kill -TERM "$(job_of $front)" $front
ended 0 "all its processes are told, as a batch system does"
check "that is once" eval '! err_has "SIGKILL to all ranks"'
start -np 2 --stop-grace 0.2 bash -c "$stubborn"
wait_for has_lines 2 "$dir/pids"
kill -TERM $front
ended 143 "told once, and the grace is over"
start -np 2 bash \
    -c "trap 'echo one' USR1; trap 'echo two; exit 0' USR2; echo \$\$ >>$dir/pids; while :; do sleep 0.05; done"
wait_for has_lines 2 "$dir/pids"
kill -USR1 $front
wait_for eval 'test $(grep -c one "$dir/out") = 2'
kill -USR2 $front
ended 0 "SIGUSR1 and SIGUSR2"
check "both arrived at both" test "$(grep -c -e one -e two "$dir/out")" = 4

start -np 2 sh -c "echo \$\$ >>$dir/pids; exec sleep 1000"
wait_for has_lines 2 "$dir/pids"
state_is() { local pid; for pid in $(cat "$dir/pids") $2; do grep -q "^State:.$1" "/proc/$pid/status" ||
    return 1; done; }
kill -TSTP $front
check "SIGTSTP stops ranks and halayrun" wait_for state_is T $front
kill -CONT $front
check "SIGCONT continues them" wait_for state_is S $front
kill -TERM $front
ended 143 "stopped and continued"

# --- nothing is left -------------------------------------------------------------------------------------------------
start -np 2 --grace 0.2 "$probe" leave "$dir/pids"
ended 0 "processes that ranks left behind, in sessions of their own"
check "they were there" test "$(wc -l <"$dir/pids")" = 4
start -np 2 --grace 0.2 sh -c "$probe leave $dir/pids; exit 4"
ended 4 "the same, and a rank fails"
start -np 2 "$probe" hide "$dir/pids"
wait_for has_lines 4 "$dir/pids"
job=$(job_of $front)
kill -KILL $front
ended 137 "SIGKILL of halayrun"
check "its job's process too" wait_for is_gone "$job"
start -np 2 "$probe" hide "$dir/pids"
wait_for has_lines 4 "$dir/pids"
kill -KILL "$(job_of $front)"
ended 137 "SIGKILL of the process that runs the job"
check "which is said" err_has 'was killed by SIGKILL: ending the ranks'
HALAY_FLIGHT=$dir/flight-%r start -np 2 "$watched" "$dir/never"
check "both ranks record" wait_for eval 'test -s "$dir/flight-0" && test -s "$dir/flight-1"'
kill -KILL "$(job_of $front)"
ended 137 "the same, with records"
check "they are named" err_has "what its ranks did last: halay-perf flight show $dir/flight-*"
: >"$dir/pids"
"$halayrun" $where -np 2 sh -c "echo \$\$ >>$dir/pids; exec yes" 2>"$dir/err" </dev/null | head -3 >"$dir/out"
check "a reader that goes: the job ends" wait_for all_gone
check "it read" test "$(wc -l <"$dir/out")" = 3
check "ranks met SIGPIPE" err_has 'was killed by SIGPIPE'

# A reader is slower than a rank that writes without pause: the other is read all the same, of which a pipe holds half.
: >"$dir/pids"
"$halayrun" $where -np 2 sh -c 'echo $$ >>"$0"; test $HALAY_RANK = 1 || exec yes
    for i in 1 2 3 4; do printf "%032000d\n" 0; done; >"$0.written"; exec sleep 1000' "$dir/pids" \
    2>"$dir/err" </dev/null | while test "$(head -c 16384 | wc -c)" != 0; do :; done &
reader=$!
wait_for has_lines 2 "$dir/pids"
check "a slow reader starves no rank" wait_for test -e "$dir/pids.written"
xargs kill <"$dir/pids"
wait $reader
check "all are gone" wait_for all_gone

# A process that is not halayrun's keeps a rank's standard output, and writes on and on.
: >"$dir/pids"
"$halayrun" $where -np 1 --grace 60 sh -c 'echo $$ >>"$0"; until test -e "$0.go"; do sleep 0.05; done' "$dir/pids" \
    >/dev/null 2>"$dir/err" </dev/null &
front=$!
wait_for has_lines 1 "$dir/pids"
exec {output}>"/proc/$(cat "$dir/pids")/fd/1"
yes >&"$output" &
writer=$!
exec {output}>&-
touch "$dir/pids.go"
check "it does not keep halayrun" wait_for is_gone $front
kill -9 $writer $front 2>/dev/null
wait $front
check "which ends well" test $? = 0

# --- strangers at the store's port -----------------------------------------------------------------------------------
start -np 4 bash -c '
    host=${HALAY_STORE_ADDRESS%:*} port=${HALAY_STORE_ADDRESS#*:}
    for i in $(seq 30); do
        { exec 9<>/dev/tcp/$host/$port && head -c $((i * 37)) /dev/urandom >&9; } 2>/dev/null
    done
    exec 8<>/dev/tcp/$host/$port
    exec '"$probe"' meet'
ended 0 "a store that strangers call"
check "ranks meet in spite of garbage" test "$(grep -c 'met 4' "$dir/out")" = 4
check "and nobody complains" test ! -s "$dir/err"

# --- files -----------------------------------------------------------------------------------------------------------
if "$halayrun" --check-build | grep -q '\[x\] http'; then # otherwise no job makes any
    start -np 2 --metrics "unix:$dir/socket" "$watched" "$dir/never"
    recorded() { test "$(files | wc -l)" = 2; }
    check "records are seen while the job runs" wait_for recorded
    kill -TERM $front
    ended 143 "a job with records"
fi
check "no file is left: $(files)" test -z "$(files)"
