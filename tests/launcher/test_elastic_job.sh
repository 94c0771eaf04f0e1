#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Elastic jobs of halayrun: ranks that are lost, stop, fail again and again, join and leave; hosts that come and go.
# Training gives the same result as without losses: examples/elastic.c checks its sum itself.
. "$top_srcdir/tests/launcher/lib.sh"
elastic=$top_builddir/examples/elastic
export HALAY_LOG=error

# begin ARGS...: halayrun in the background, with --verbose so that pids are known.
begin() {
    : >"$dir/pids"
    : >"$dir/out" # or the previous job's messages would be taken for this one's
    : >"$dir/err"
    "$halayrun" --verbose "$@" >"$dir/out" 2>"$dir/err" </dev/null &
    job=$!
    echo $job >>"$dir/pids"
}
# pid WORKER: of the newest process there.
pid() { sed -n "s/^halayrun: rank $1: pid \([0-9]*\),*.*/\1/p" "$dir/err" | tail -1; }
remember() { sed -n 's/^halayrun: rank [0-9]*: pid \([0-9]*\).*/\1/p' "$dir/err" >>"$dir/pids"; }
ranks_begun() { test "$(grep -c 'begins at step' "$dir/out")" -ge "$1"; }
reformed() { test "$(grep -c '^halayrun: re-formed' "$dir/err")" -ge "$1"; }
# ends CODE: the job ends so, and nothing of it is left.
ends() {
    local code
    wait $job
    code=$?
    remember
    check "exit code is $code, not $1" test $code = "$1"
    check "nothing is left" wait_for all_gone
}
right() { test "$(grep -c 'as if nobody had been lost' "$dir/out")" = "$1"; }
members() { grep '^halayrun: re-formed' "$dir/err" | tail -1 | grep -q ": $1 rank"; }

# Errors are reported before anything starts.
run 2 -np 2 --min-np 3 true
check "the least above -np" err_has 'option --min-np: 3 is above -np, which is 2'
run 2 -np 2 --max-np 1 true
check "the most below -np" err_has 'option --max-np: 1 is below -np, which is 2'
run 2 -np 2 --reset-limit 3 true
check "an option of elastic jobs" err_has 'option --reset-limit is for elastic jobs'
run 2 -np 2 --min-np 1 --mpi true
check "not by MPI" err_has 'MPI ends the whole job when a rank is lost'
run 2 --host-discovery-script ./none true
check "how many" err_has 'how many ranks at most?'
run 2 -np 2 --min-np 1 --cooldown 10 true
check "a range" err_has "option --cooldown: '10' is not a range of seconds"
run 2 -np 2 --min-np 1 --blacklist-cooldown-range 100 10 true
check "a range the wrong way round" err_has "'100:10' begins above its end"
run 1 -np 2 --host-discovery-script "$dir/none" true
check "no script" err_has "host discovery script '$dir/none': it ended with exit code 127"
printf '#!/bin/sh\necho good:1\necho bad:x\n' >"$dir/discover"
chmod +x "$dir/discover"
run 1 -np 2 --host-discovery-script "$dir/discover" true
check "a bad line" err_has "line 2 of its output: 'bad:x'"
printf '#!/bin/sh\nsleep 1000 & echo $! >%s\necho localhost:1\n' "$dir/daemon" >"$dir/discover"
run 0 -np 1 --host-discovery-script "$dir/discover" sh -c 'kill -0 $(cat "$0")' "$dir/daemon"
check "what a script leaves behind is not waited for" kill "$(cat "$dir/daemon")"
printf '#!/bin/sh\necho localhost:1\nexec >&-\nsleep 0.2\nexit 9\n' >"$dir/discover"
run 1 -np 1 --host-discovery-script "$dir/discover" true
check "a script that has closed its output is waited for" err_has "it ended with exit code 9"
printf '#!/bin/sh\necho here:1\n' >"$dir/discover"
run 1 -np 2 --host-discovery-script "$dir/discover" --elastic-timeout 0.1 true
check "too few hosts" err_has 'not enough slots after 0.1 s'

# A program that is not elastic: the job ends with the first failure, as always.
run 3 -np 2 --min-np 1 sh -c 'exit 3'
run 0 -np 2 --min-np 1 --max-np 4 sh -c 'echo $HALAY_SIZE'
check "this machine has as many slots as ranks" test "$(tr '\n' ' ' <"$dir/out")" = "[0] 2 [1] 2 " \
    -o "$(tr '\n' ' ' <"$dir/out")" = "[1] 2 [0] 2 "

# A rank is killed in mid-step and replaced at once; then rank 0; then two at once.
begin -np 3 --min-np 1 --cooldown 0:1 "$elastic" 100000 2
check "it runs" wait_for ranks_begun 3
kill -9 "$(pid 1)"
check "one is replaced" wait_for reformed 1
check "by as many" wait_for members 3
kill -9 "$(pid 0)"
check "rank 0 is replaced" wait_for reformed 2
check "and has the state, or nobody would" wait_for ranks_begun 5
kill -9 "$(pid 1)" "$(pid 2)"
check "two are replaced" wait_for reformed 3
check "they go on" wait_for ranks_begun 7
kill -TERM $job
ends 143

# Up to the end, only the uncommitted step is lost.
begin -H localhost:3 --min-np 1 --flight "$dir/flight.%r" "$elastic" 1500 2
check "it runs" wait_for ranks_begun 3
kill -9 "$(pid 2)"
ends 0
check "it was re-formed" reformed 1
check "the answer is right" right 3
check "it says who was killed" err_has 'was killed by SIGKILL'
check "what led to the loss is still there" test -s "$dir/flight.2" -a -s "$dir/flight.2-generation2"

# A process that comes later to another host is told which of that host's ranks it is: the one that is free there.
cat >"$dir/tells" <<END
#!/bin/sh
echo "\$HALAY_ELASTIC \$HALAY_LOCAL_RANK/\$HALAY_LOCAL_SIZE \$LOCAL_RANK/\$LOCAL_WORLD_SIZE" >>"$dir/told"
exec "$elastic" "\$@"
END
chmod +x "$dir/tells"
told() { sort "$dir/told" | tr '\n' ,; }
begin -H localhost:1,other:2 --min-np 1 --cooldown 0:1 --ssh "$(realpath "$top_srcdir/tests/launcher/fake_ssh")" \
    "$dir/tells" 100000 2
check "two hosts" wait_for ranks_begun 3
check "ranks of the start" test "$(told)" = "0 0/1 0/1,0 0/2 0/2,0 1/2 1/2,"
kill -9 "$(pid 2)"
check "the second one there is replaced" wait_for ranks_begun 4
check "by the second one" test "$(grep -v ^0 "$dir/told")" = "1 1/2 1/2"
kill -9 "$(pid 1)"
check "the first one there is replaced" wait_for ranks_begun 5
check "by the first one" test "$(grep ^2 "$dir/told")" = "2 0/2 0/2"
kill -9 "$(pid 0)"
check "the one here is replaced" wait_for ranks_begun 6
check "by one that is alone here" test "$(grep ^3 "$dir/told")" = "3 0/1 0/1"
kill -TERM $job
ends 143

test -z "${TEST_BRIEF-}" || exit 0 # what follows waits for seconds; it has run whole in the plain phase

# A stopped rank is lost for the others, and killed.
begin -np 3 --min-np 2 --peer-timeout 2 "$elastic" 1500 2
check "it runs" wait_for ranks_begun 3
kill -STOP "$(pid 1)"
check "without it" wait_for reformed 1
check "it was killed" err_has 'worker 1: SIGKILL: the other ranks have lost it'
ends 0
check "the answer is right" right 3

# All hosts are replaced at once: one process stays until others have the state.
printf '#!/bin/sh\necho localhost:2\n' >"$dir/discover"
begin --max-np 3 --min-np 1 --host-discovery-script "$dir/discover" \
    --ssh "$(realpath "$top_srcdir/tests/launcher/fake_ssh")" "$elastic" 3000 2
check "it begins" wait_for ranks_begun 2
printf '#!/bin/sh\necho other:2\n' >"$dir/discover.new"
chmod +x "$dir/discover.new"
mv "$dir/discover.new" "$dir/discover"
check "the last one goes" wait_for err_has "worker 0 leaves: host 'localhost' has left the job"
ends 0
check "the answer is right" right 2

# A rank that fails at every start: its host is left out, twice as long each time; the others go on.
cat >"$dir/fails" <<END
#!/bin/sh
test "\$HALAY_ELASTIC" = 0 || exit 9
exec "$elastic" "\$@"
END
chmod +x "$dir/fails"
begin -np 2 --min-np 1 --cooldown 0.2:60 "$dir/fails" 3000 1
check "it runs" wait_for ranks_begun 2
kill -9 "$(pid 1)"
check "it goes on alone" wait_for members 1
check "left out" wait_for err_has "host 'localhost' is left out for 0.4 s: it has failed 3 times"
ends 0
check "the answer is right" right 1

# A stop while a rank waits for a place: it is told, and ends by itself. A stop while a host is called that never
# answers.
begin -np 2 --min-np 2 --cooldown 60:60 sh -c 'trap "" TERM; exec "$@"' sh "$dir/fails" 100000 2
check "it runs" wait_for ranks_begun 2
kill -9 "$(pid 1)"
check "it waits" wait_for err_has "host 'localhost' is left out"
kill -TERM $job
ends 143
check "it was told" err_has 'the job is ending: this process gets no place'
printf '#!/bin/sh\necho localhost:1\n' >"$dir/discover"
begin --stop-grace 600 --start-timeout 600 --max-np 2 --min-np 1 --host-discovery-script "$dir/discover" \
    --ssh "$(realpath "$top_srcdir/tests/launcher/fake_ssh")" "$elastic" 100000 2
check "it begins" wait_for ranks_begun 1
printf '#!/bin/sh\necho localhost:1\necho mute:1\n' >"$dir/discover.new"
chmod +x "$dir/discover.new"
mv "$dir/discover.new" "$dir/discover"
check "a host is called" wait_for err_has "starting a process on host 'mute'"
kill -TERM $job
check "nobody waits for a process that was not started" wait_for is_gone $job
kill -9 $job 2>/dev/null
ends 143

# Too few ranks for too long; none left; too many resets.
begin -np 2 --min-np 2 --cooldown 60:60 --elastic-timeout 1 "$dir/fails" 100000 2
check "it runs" wait_for ranks_begun 2
kill -9 "$(pid 1)"
ends 9
check "why" err_has 'the job ends: only 1 rank can continue, --min-np wants 2; waited 1 s for more'
begin -np 2 --min-np 1 "$elastic" 100000 2
check "it runs" wait_for ranks_begun 2
kill -9 "$(pid 0)" "$(pid 1)"
ends 137
check "why" err_has "the job ends: no rank with the job's state is left"
begin -np 2 --min-np 1 --reset-limit 1 "$elastic" 100000 2
check "it runs" wait_for ranks_begun 2
kill -9 "$(pid 1)"
check "once" wait_for ranks_begun 3
kill -9 "$(pid 1)"
ends 137
check "why" err_has 'the job ends: it was re-formed 1 times, which is the limit (--reset-limit)'

# Hosts that come and go. fake_ssh plays the other one.
echo 'echo localhost:1' >"$dir/discover"
begin --max-np 3 --min-np 1 --host-discovery-script "$dir/discover" \
    --ssh "$(realpath "$top_srcdir/tests/launcher/fake_ssh")" --output-filename "$dir/files" "$elastic" 100000 2
check "it begins alone" wait_for ranks_begun 1
printf 'echo "# two hosts"\necho localhost\necho " other:2 "\n' >"$dir/discover.new"
chmod +x "$dir/discover.new"
mv "$dir/discover.new" "$dir/discover"
check "others join" wait_for members 3
check "on the other host" wait_for ranks_begun 3
kill -9 "$(pid 2)"
check "one of the other host is replaced" wait_for ranks_begun 4
printf '#!/bin/sh\nexit 5\n' >"$dir/discover.new"
chmod +x "$dir/discover.new"
mv "$dir/discover.new" "$dir/discover"
check "a script that fails is named" wait_for err_has 'it ended with exit code 5; the list of hosts stays as it was'
printf '#!/bin/sh\necho other:2\n' >"$dir/discover.new"
chmod +x "$dir/discover.new"
mv "$dir/discover.new" "$dir/discover"
check "the first one goes" wait_for err_has "worker 0 leaves: host 'localhost' has left the job"
check "the other goes on" wait_for members 2
kill -TERM $job
ends 143
check "files of a worker continue" test "$(grep -c 'begins at step' "$dir/files/rank.2/stdout")" = 2
