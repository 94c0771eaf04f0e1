#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# halayrun with other hosts, which fake_ssh plays on this one: placement, what travels, errors when a host
# cannot be reached. (test_halayrun_end.sh runs a second time over it; tests/lab has real hosts.)
. "$top_srcdir/tests/launcher/lib.sh" || exit 99
needs ps

fake=$top_srcdir/tests/launcher/fake_ssh
case $fake in /*) ;; *) fake=$PWD/$fake ;; esac
has_line() { grep -qxF -e "$1" "$dir/out"; }

# --- placement -------------------------------------------------------------------------------------------------------
here=$(hostname)
cat >"$dir/where" <<'END'
#!/bin/bash
ps -o args= $PPID | grep -q -e '--agent$' && there=there || there=here
echo "$HALAY_RANK of $HALAY_SIZE, local $HALAY_LOCAL_RANK of $HALAY_LOCAL_SIZE, $there in $PWD"
END
chmod +x "$dir/where"
run 0 -np 5 --ssh "$fake" -H "one:2,$here:1,noisy2:2" "$dir/where"
check "rank 0 there" has_line "[0] 0 of 5, local 0 of 2, there in $PWD"
check "rank 1 there" has_line "[1] 1 of 5, local 1 of 2, there in $PWD"
check "rank 2 here" has_line "[2] 2 of 5, local 0 of 1, here in $PWD"
check "rank 4 on the third host" has_line "[4] 4 of 5, local 1 of 2, there in $PWD"
check "a login's words are nobody's" test "$(grep -c -e Welcome -e 'Last login' "$dir/out" "$dir/err" |
    grep -v ':0$')" = ""
HALAY_START_TIMEOUT=0 run 1 -np 2 --ssh "$fake" -H one:1,two:1 true
check "a host that there was no time to call" err_has "host 'one': the start timeout passed before it was called"
run 0 -np 4 --ssh "$fake" -H one:2,two:2 "$probe" meet
check "they meet" test "$(grep -c 'met 4' "$dir/out")" = 4
run 1 -np 4 --ssh "$fake" -H one:2,two:2 sh -c \
    'test $HALAY_RANK -ge 2 && exec sleep 1000; HALAY_START_TIMEOUT=1 exec "$0"' \
    "$top_builddir/tests/launcher/world_probe"
check "a missing host is named" err_has \
    "rank 2 has not come within 1 s (HALAY_START_TIMEOUT); nothing is known of host two, ranks 2-3"
# begin_two COMMANDS OPTION...: a rank here, $first, and one on another host, $second, started by $runner and $agent;
# each runs these shell commands.
begin_two() {
    commands=$1
    shift
    rm -f "$dir/rank".?
    "$halayrun" -np 2 "$@" --ssh "$fake" -H "$here:1,one:1" sh -c \
        'echo $$ $PPID >"$0.$HALAY_RANK.new"; mv "$0.$HALAY_RANK.new" "$0.$HALAY_RANK"; '"$commands" "$dir/rank" \
        >"$dir/out" 2>"$dir/err" </dev/null &
    front=$!
    check "two begin" wait_for test -e "$dir/rank.0" -a -e "$dir/rank.1"
    read -r first runner <"$dir/rank.0"
    read -r second agent <"$dir/rank.1"
}
# News of the end that explains the others comes after them. No clock decides that here: the process that runs the job
# is stopped while both happen, and the other host's agent has reported everything when it sleeps again or is gone.
begin_two 'test $HALAY_RANK = 0 || exec sleep 1000; until test -e "$0.go"; do sleep 0.01; done; exit 3'
kill -STOP "$runner"
touch "$dir/rank.go"
check "rank 0 ends" wait_for is_gone "$first"
kill -9 "$second"
check "the agent has said how rank 1 ended" wait_for eval \
    'test ! -d /proc/$second && ! grep -q "^State:.[RD]" "/proc/$agent/status"'
kill -CONT "$runner"
wait $front
check "the exit code is the killed one's" test $? = 137
check "the killed one is blamed" err_has "on host 'one') was killed by SIGKILL"
# After --host-silence the agent gives a halayrun up that sends nothing, ends its ranks, and reports why. (Where the
# whole machine stops for that time, halayrun may give up the agent first.)
begin_two 'exec sleep 1000' --host-silence 3
kill -STOP "$runner"
check "its rank ends, and so does the agent" wait_for eval 'is_gone "$second" && is_gone "$agent"'
kill -CONT "$runner"
wait $front
check "the host is lost" test $? = 1
check "after that time" grep -qE "host 'one' \(rank 1\) is lost: (halayrun|it) has been silent for 3 s$" "$dir/err"
run 3 -np 2 --ssh "$fake" -H "$here:1,one:1" sh -c 'test $HALAY_RANK = 0 || exec sleep 60; exit 3'
check "nobody else is" grep -q "rank 0 (pid [0-9]*) ended with exit code 3" "$dir/err"
printf '# all of them\n\none slots=1\n%s\n' "$here" >"$dir/hosts"
run 0 -np 2 --verbose --ssh "$fake" --hostfile "$dir/hosts" true
check "where, for those who ask" grep -qE "rank 0: pid [0-9]+ on host 'one', processors" "$dir/err"
check "by which address, too" grep -qE "host 'one': the store is reached at [^ ]+:[0-9]+ \(.*reached" "$dir/err"
run 2 -np 4 --ssh "$fake" -H one:2,two:1 true
check "more ranks than slots" err_has 4
run 0 -np 4 --ssh "$fake" -H one:2,two:1 --oversubscribe true
cat >"$dir/words ssh" <<END
#!/bin/sh
printf '%s|' "\$@" >"$dir/words"
exec "$fake" "\$@"
END
chmod +x "$dir/words ssh"
run 0 -np 1 --ssh "'$dir/words ssh' -o 'ProxyCommand=ssh -W %h:%p gw' -o B=\"c d\"" -H one true
check "words of --ssh: $(cat "$dir/words")" grep -qF -e '-o|ProxyCommand=ssh -W %h:%p gw|-o|B=c d|one|' "$dir/words"
for wrong in "ssh -o 'A b" 'ssh "' ''; do
    run 2 -np 1 --ssh "$wrong" -H one true
    check "no command: $wrong" err_has 'option --ssh: '
done
run 2 -np 2 -H one --hostfile "$dir/hosts" true
check "one of both" err_has 'give one of them'
run 2 -np 2 -H 'one:x' true
check "no number" err_has "option --hosts: "
run 2 -np 2 -p 70000 -H one true

# --- the hosts of an allocation --------------------------------------------------------------------------------------
mkdir "$dir/bin" && ln -s "${fake%_ssh}_srun" "$dir/bin/srun"
in_slurm() {
    PATH=$dir/bin:$PATH SLURM_JOB_NODELIST='n[1-2]' SLURM_TASKS_PER_NODE='2(x2)' SLURM_NTASKS=3 SLURMD_NODENAME=n1 \
        SLURM_NODEID=0 SLURM_LABELIO=1 SLURM_STDOUTMODE=none SLURM_EXACT=1 SRUN_CPUS_PER_TASK=8 "$@"
}
in_slurm run 0 "$dir/where"
check "SLURM's first host is this one" has_line "[1] 1 of 3, local 1 of 2, here in $PWD"
check "the second is reached by srun" has_line "[2] 2 of 3, local 0 of 1, there in $PWD"
in_slurm run 0 -np 4 sh -c 'echo "$SLURMD_NODENAME $SLURM_NODEID"'
check "-np overrides its tasks, and each node keeps its name" test "$(sort "$dir/out" | tr '\n' ,)" \
    = "[0] n1 0,[1] n1 0,[2] n2 9,[3] n2 9,"
in_slurm run 0 -np 4 "$probe" meet
check "they meet, too" test "$(grep -c 'met 4' "$dir/out")" = 4
in_slurm run 2 -np 5 true
check "more than it has" err_has 'than there are slots (4) on 2 hosts'
# One task a host, as in the shell of srun --pty, and processors for more ranks.
in_slurm env SLURM_TASKS_PER_NODE='1(x2)' SLURM_NTASKS=2 SLURM_JOB_CPUS_PER_NODE='8(x2)' \
    "$halayrun" -np 4 "$dir/where" >"$dir/out" 2>"$dir/err" </dev/null
check "as many ranks as -np says, evenly: $(cat "$dir/err")" has_line "[3] 3 of 4, local 1 of 2, there in $PWD"
interactive() {
    SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 SLURM_LOCALID=0 in_slurm env SLURM_JOB_NODELIST=n1 \
        SLURM_TASKS_PER_NODE=1 SLURM_NTASKS=1 SLURM_JOB_CPUS_PER_NODE=8 SLURM_CPUS_PER_TASK=8 "$halayrun" "$@" \
        >"$dir/out" 2>"$dir/err" </dev/null
}
interactive -np 4 "$dir/where"
check "on this host alone, too: $(cat "$dir/err")" has_line "[3] 3 of 4, local 3 of 4, here in $PWD"
interactive -np 9 true
check "one for each processor at most" err_has 'than there are slots (8) on 1 host'
interactive "$dir/where"
check "without -np its tasks" has_line "[0] 0 of 1, local 0 of 1, here in $PWD"
in_slurm run 0 -H localhost:1 "$dir/where"
check "-H overrides it" has_line "[0] 0 of 1, local 0 of 1, here in $PWD"
in_slurm run 0 -H n2:1 "$dir/where"
check "-H of a host of its own: by srun" has_line "[0] 0 of 1, local 0 of 1, there in $PWD"
in_slurm run 1 --ssh "$dir/no-ssh" true
check "--ssh overrides srun" err_has "cannot run '$dir/no-ssh'"
in_slurm run 0 --dry-run true
check "srun's line, for those who ask" grep \
    -qE 'by: env -u SLURM_LABELIO .* srun --nodes=1 .* --nodelist n2 /[^ ]*halayrun --agent$' "$dir/out"
in_slurm run 0 --explain
check "and explained" grep -qE \
    '^  start: halayrun starts the ranks on these hosts, through srun .*--nodelist on' "$dir/out"
SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=3 in_slurm run 2 true
check "srun halayrun" err_has 'SLURM has started halayrun itself 3 times'
in_slurm run 0 -np 2 "$halayrun" -np 1 "$dir/where"
check "a rank's own halayrun has no part in it" has_line "[1] [0] 0 of 1, local 0 of 1, here in $PWD"
LSB_MCPU_HOSTS="one 2 $here 1" run 0 --ssh "$fake" "$dir/where"
check "LSF's hosts" has_line "[1] 1 of 3, local 1 of 2, there in $PWD"
check "and this one" has_line "[2] 2 of 3, local 0 of 1, here in $PWD"
printf '%s\n' one "$here" one >"$dir/nodes"
PBS_NODEFILE=$dir/nodes run 0 --ssh "$fake" "$dir/where"
check "PBS's" has_line "[2] 2 of 3, local 0 of 1, here in $PWD"
K_MPI_JOB_ROLE=launcher OMPI_MCA_orte_default_hostfile=$dir/nodes OMPI_MCA_plm_rsh_agent=$fake run 0 -np 3 "$dir/where"
check "the MPI Operator's, by its agent" has_line "[0] 0 of 3, local 0 of 2, there in $PWD"
TF_CONFIG='{"cluster": {"worker": ["one:1", "two:1"]}, "task": {"type": "worker", "index": 1}}' \
    run 0 --ssh "$fake" "$dir/where"
check "TF_CONFIG's, where this host has another name" has_line "[1] 1 of 2, local 0 of 1, here in $PWD"
SM_HOSTS='["algo-1","algo-2"]' SM_CURRENT_HOST=algo-1 SM_NETWORK_INTERFACE_NAME=lo run 0 --verbose --ssh "$fake" \
    "$dir/where"
check "SageMaker's" has_line "[1] 1 of 2, local 0 of 1, there in $PWD"
check "by its interface" grep -q \
    "host 'algo-2': the store is reached at 127.0.0.1:[0-9]* (127.0.0.1:[0-9]* reached" "$dir/err"
run 0 --ssh "$fake" -H one:2,two:1 "$dir/where"
check "without -np as many as there are slots" has_line "[2] 2 of 3, local 0 of 1, there in $PWD"

# --- what travels ----------------------------------------------------------------------------------------------------
EXTRA="a b;'c'" DISPLAY=:7 SECRET=hidden run 0 -np 1 --ssh "$fake" -H one -x MORE=1 bash -c \
    'echo "[$EXTRA] [$MORE] [$DISPLAY]"; for p in $PPID $(ps -o ppid= $PPID); do tr "\0" "\n" </proc/$p/cmdline; done'
check "the environment, but for the screen's" has_line "[0] [a b;'c'] [1] []"
check "and not on a command line" test "$(grep -c hidden "$dir/out")" = 0
DISPLAY=:7 run 0 -np 1 --ssh "$fake" -H one -x DISPLAY sh -c 'echo "[$DISPLAY]"'
check "unless it is asked for" has_line "[0] [:7]"
head -c 3000000 /dev/zero | tr '\0' x | fold -w 99 >"$dir/long"
"$halayrun" -np 2 --no-prefix --ssh "$fake" -H one:2 bash -c 'test $HALAY_RANK = 1 || cat' <"$dir/long" >"$dir/out"
check "rank 0's standard input, three megabytes of it, and its output" cmp "$dir/long" "$dir/out"
# Rank 0 reads nothing until its agent takes no more input.
cat >"$dir/lazy" <<'END'
#!/bin/bash
size() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' /proc/$PPID/status; }
before=-1
while now=$(size); test $now != $before; do before=$now; sleep 0.3; done
echo "agent: $now kB"
tail -c 9
END
chmod +x "$dir/lazy"
head -c 50000000 /dev/zero | { cat; echo 'the end.'; } | "$halayrun" -np 1 --ssh "$fake" -H one "$dir/lazy" \
    >"$dir/out" 2>"$dir/err"
limit=20000 # kB
check "what rank 0 does not read waits here" test "$(sed -n 's/.*agent: \([0-9]*\) kB/\1/p' "$dir/out")" -lt $limit
check "all of it comes" has_line '[0] the end.'
run 0 -np 2 --ssh "$fake" -H one:2 --output-filename "$dir/files" sh -c 'echo to $HALAY_RANK; printf half >&2'
check "files per rank lie here" test "$(cat "$dir/files/rank.1/stdout" "$dir/files/rank.0/stderr")" = "to 1
half"
mkdir -p "$dir/full/rank.1" && ln -s /dev/full "$dir/full/rank.1/stderr"
run 0 -np 2 --ssh "$fake" -H one:2 --output-filename "$dir/full" sh -c 'echo said; echo why >&2'
check "a full disk: which file" err_has \
    "cannot write '$dir/full/rank.1/stderr': No space left on device; the file ends here, the job continues"
check "the other file" test "$(cat "$dir/full/rank.1/stdout")" = said
run 1 -np 2 --ssh "$fake" -H one:2 --output-filename /dev/null/x sh -c 'echo started; exec sleep 1000'
check "no folder: its reason alone" test "$(cat "$dir/err")" \
    = "halayrun: cannot create folder '/dev/null/x': Not a directory"
run 0 -np 2 --ssh "$fake" -H one:1,"$here":1 --wdir / "$dir/where"
check "another folder there" has_line "[0] 0 of 2, local 0 of 1, there in /"
check "and here" has_line "[1] 1 of 2, local 0 of 1, here in /"
run 0 -np 1 --ssh "$fake" -H one:1 --wdir / printenv PWD
check "PWD there" has_line "[0] /"
run 0 -np 3 --dry-run -p 2222 -i key --remote-halayrun /opt/x/halayrun -H "one:2,$here" true
check "the command, for those who ask" out_has "one 'exec /opt/x/halayrun --agent'"
check "ssh's own options" out_has "-o BatchMode=yes -o ConnectTimeout=10 -p 2222 -i key one"

# --- what fails ------------------------------------------------------------------------------------------------------
for time in 1 6 24 96; do # until one of them is enough for this machine: the last host answers
    "$halayrun" -np 4 --start-timeout $time --ssh "$fake" -H refused,old,mute,good true >"$dir/out" 2>"$dir/err" \
        </dev/null
    code=$?
    ! err_has '3 of 4 hosts' || break
done
check "exit code $code" test $code = 1
check "refused" err_has "host 'refused': ssh: connect to host refused port 22: Connection refused"
check "another version" err_has "host 'old': halay 0.0.9 is installed there"
check "no answer" err_has "host 'mute': it does not answer"
check "how many" err_has "3 of 4 hosts cannot be started: no rank was started"
run 1 -np 1 --ssh "$fake" --remote-halayrun /nowhere/halayrun -H one true
check "it is not there" err_has "--remote-halayrun PATH names halayrun"
run 1 -np 1 --ssh "$dir/no-ssh" -H one true
check "no ssh" err_has "cannot run '$dir/no-ssh': No such file or directory"
run 127 -np 2 --ssh "$fake" -H one:2 ./nothing
check "no program there" err_has "host 'one': program './nothing': No such file or directory"
check "which ranks" err_has "host 'one' (ranks 0 to 1) cannot be started"
run 7 -np 4 --ssh "$fake" -H one:2,two:2 --grace 0.5 sh \
    -c 'test $HALAY_RANK != 3 || { echo why >&2; exit 7; }; exec sleep 1000'
check "who, and where" grep -qE "rank 3 \(pid [0-9]+ on host 'two'\) ended with exit code 7" "$dir/err"
check "why" err_has '  | why'
run 1 -np 2 --ssh "$fake" -H one,two sh -c 'echo $$ >>'"$dir"'/pids; test $HALAY_RANK = 1 && exec sleep 1000
    until test $(wc -l <'"$dir"'/pids) = 2; do sleep 0.05; done; kill -KILL $(ps -o ppid= $PPID); exec sleep 1000'
check "a host whose agent dies is lost" err_has "host 'one' (rank 0) is lost"
check "and nothing stays" wait_for all_gone
