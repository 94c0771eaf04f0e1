#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# halayrun --sagemaker and sm-entry on this machine: two addresses of loopback are two hosts, each with a folder that
# stands for /opt/ml. (tests/lab/test_lab_sagemaker.sh has real ones.)
. "$top_srcdir/tests/launcher/lib.sh" || exit 99
needs pgrep
entry=$top_builddir/sagemaker/sm-entry
case $halayrun in /*) ;; *) halayrun=$PWD/$halayrun ;; esac
# Addresses that no other run of this test has, a port, and one for what is between the hosts.
host1=127.$((64 + ($$ >> 15))).$(($$ >> 7 & 255)).$((($$ & 127) * 2)) host2=${host1%.*}.$((($$ & 127) * 2 + 1))
hold_port port
hold_port way

# host N NAME HYPERPARAMETERS [HOSTS]
host() {
    mkdir -p "$dir/$1/input/config" "$dir/$1/output"
    rm -f "$dir/$1/output/failure"
    echo "{\"current_host\": \"$2\", \"hosts\": [${4-\"$host2\", \"$host1\"}], \"network_interface_name\": \"lo\"}" \
        >"$dir/$1/input/config/resourceconfig.json"
    echo "$3" >"$dir/$1/input/config/hyperparameters.json"
}
both() { host 1 $host1 "$1"; host 2 $host2 "$1"; }
# on N ARGS...: halayrun there, its process is $last.
on() {
    local n=$1
    shift
    HALAY_OPT_ML=$dir/$n "$halayrun" --sagemaker --sagemaker-port $port "$@" >"$dir/out$n" 2>"$dir/err$n" </dev/null &
    last=$!
    eval pid$n=$!
}
# ends CODE: both, with this code.
ends() {
    local n code
    for n in 1 2; do
        eval "wait \$pid$n"
        code=$?
        check "host $n ends with $1, not $code: $(tail -3 "$dir/err$n")" test $code = $1
    done
}
two='{"sagemaker_mpi_num_of_processes_per_host": "2", "sagemaker_program": "\"x\""}'

# --- what works ------------------------------------------------------------------------------------------------------
both "$two"
on 2 "$probe" meet
on 1 "$probe" meet
ends 0
check "all four meet" test "$(grep -c 'met 4' "$dir/out1")" = 4
check "the first host has all output" test ! -s "$dir/out2"
check "no failure" test ! -e "$dir/1/output/failure"
on 2
on 1 sh -c 'echo "$HALAY_RANK/$HALAY_LOCAL_RANK ${HALAY_OPT_ML##*/}"'
ends 0
printf '[%s] %s\n' 0 0/0\ 1 1 1/1\ 1 2 2/0\ 2 3 3/1\ 2 >"$dir/want"
check "who runs where" eval 'sort "$dir/out1" | diff - "$dir/want"'
on 2 --nproc-per-node 1
on 1 --nproc-per-node 1 "$probe" meet
ends 0
check "--nproc-per-node" test "$(grep -c 'met 2' "$dir/out1")" = 2

# --- the program of the hyperparameters, as the toolkit spells them --------------------------------------------------
one='"epochs": "3", "learning-rate": "0.001", "name": "\"hello world; x\"", "opts": "{\"a\": 1}",
    "list": "[1, \"two\", true]", "on": "true", "none": "null", "k": "7"'
host 1 $host1 "{$one, \"sagemaker_program\": \"\\\"mine.sh\\\"\"}" "\"$host1\""
mkdir -p "$dir/1/code"
printf '#!/bin/sh\nfor word; do echo "<$word>"; done; pwd\n' >"$dir/1/code/mine.sh"
on 1
wait $last
check "its exit code" test $? = 0
printf '[0] %s\n' '<-k>' '<7>' '<--epochs>' '<3>' '<--learning-rate>' '<0.001>' '<--list>' "<[1, 'two', True]>" \
    '<--name>' '<hello world; x>' '<--none>' '<>' '<--on>' '<True>' '<--opts>' '<a=1>' "$dir/1/code" | sort >"$dir/want"
check "its words and folder" eval 'sort "$dir/out1" | diff - "$dir/want"'

# Each host's ranks begin in its own code, and files on the command line are where halayrun was started.
both '{"sagemaker_program": "mine.sh"}'
mkdir -p "$dir/2/code" "$dir/start"
printf '#!/bin/sh\npwd\n' | tee "$dir/1/code/mine.sh" >"$dir/2/code/mine.sh"
on 2
(cd "$dir/start" && HALAY_OPT_ML=$dir/1 exec "$halayrun" --sagemaker --sagemaker-port $port --output-filename out \
    --events events) >"$dir/out1" 2>"$dir/err1" </dev/null &
pid1=$!
ends 0
printf '[%s\n' "0] $dir/1/code" "1] $dir/2/code" >"$dir/want"
check "folders" eval 'sort "$dir/out1" | diff - "$dir/want"'
check "files" test -s "$dir/start/out/rank.1/stdout" -a -s "$dir/start/events" -a ! -e "$dir/1/code/out"
mkdir "$dir/1/code/sub"
HALAY_OPT_ML=$dir/1 run 0 --sagemaker --dry-run --wdir sub
check "--wdir is relative to the code" out_has "-C $dir/1/code/sub "

# As S3 hands it out, for all to read and nobody to run.
host 1 $host1 '{"sagemaker_program": "trainer"}' "\"$host1\""
mkdir -p "$dir/1/input/data/code"
printf '#!/bin/sh\necho trained\n' >"$dir/1/input/data/code/trainer"
on 1
wait $last
check "a program without the right to be run" test $? = 0
check "it runs" grep -qx '\[0\] trained' "$dir/out1"

# --- without --sagemaker, which several hosts imply -------------------------------------------------------------------
both "$two"
HALAY_OPT_ML=$dir/2 "$halayrun" --sagemaker-port $port "$probe" meet >"$dir/out2" 2>"$dir/err2" </dev/null &
pid2=$!
HALAY_OPT_ML=$dir/1 "$halayrun" --sagemaker-port $port "$probe" meet >"$dir/out1" 2>"$dir/err1" </dev/null &
pid1=$!
ends 0
check "all four meet without being told how" test "$(grep -c 'met 4' "$dir/out1")" = 4
HALAY_OPT_ML=$dir/1 run 0 --explain
check "and it is explained" out_has 'start: halayrun on every host'
HALAY_OPT_ML=$dir/1 run 0 -H localhost:2 "$probe" meet
check "-H overrides it" test "$(grep -c 'met 2' "$dir/out")" = 2
HALAY_OPT_ML=$dir/1 HALAY_RANK=0 HALAY_SIZE=1 run 0 -np 2 "$probe" meet
check "a rank's own halayrun has no part in it" test "$(grep -c 'met 2' "$dir/out")" = 2
HALAY_OPT_ML=$dir/1 run 0 --dry-run true
check "a dry run waits for nobody" out_has 'HALAY_RANK=3'
HALAY_OPT_ML=$dir/2 run 0 --dry-run true
check "on the other host neither" out_has "calls '$host1'"

# --- failures --------------------------------------------------------------------------------------------------------
fails() {
    local n
    for n in 1 2; do
        check "host $n knows '$1'" grep -qF -e "$1" "$dir/$n/output/failure"
    done
}
both "$two"
on 2
on 1 sh -c 'test $HALAY_RANK != 3 || { echo "no such file" >&2; exit 7; }; exec sleep 1000'
ends 7
fails 'rank 3 (pid'
fails '  | no such file'
both "$two"
echo "my own words" >"$dir/2/output/failure"
on 2
on 1 sh -c 'test $HALAY_RANK != 2 || { echo "its worker was killed by a timeout" >&2; exit 9; }; exec sleep 1000'
ends 9
check "what the failing rank's host has written stays" grep -qx 'my own words' "$dir/2/output/failure"
check "the other knows" grep -q 'ended with exit code 9' "$dir/1/output/failure"
both "$two"
echo "my own words" >"$dir/2/output/failure"
on 2
on 1 sh -c 'test $HALAY_RANK != 2 || kill -9 $$; exec sleep 1000'
ends 137
fails 'was killed by SIGKILL' # of the other rank there, which only saw it go
both "$two"
on 2
on 1 no-such-program
ends 127
# A host whose ranks have ended long ago stays until the job has: it neither fails nor ends before.
both "$two"
on 2
on 1 sh -c 'echo $$ >>"$0"; test $HALAY_RANK -ge 2 || while test ! -e "$0.go"; do sleep 0.05; done' "$dir/pids"
wait_for has_lines 4 "$dir/pids"
check "ranks of the other host end" wait_for eval \
    'test "$(for p in $(cat "$dir/pids"); do is_gone $p && echo; done | wc -l)" = 2'
check "its halayrun has no children" wait_for eval '! pgrep -P $pid2 >/dev/null'
check "it waits" kill -0 $pid2
kill -TERM $pid2
check "told to stop, it goes on waiting" wait_for grep -q 'it waits for the end of the job' "$dir/err2"
touch "$dir/pids.go"
ends 0
rm -f "$dir/pids" "$dir/pids.go"
both "$two"
on 2
on 1 sh -c 'echo $$ >>"$0"; test $HALAY_RANK -ge 2 || exec sleep 1000' "$dir/pids"
wait_for has_lines 4 "$dir/pids"
check "no rank there" wait_for eval '! pgrep -P $pid2 >/dev/null'
kill -9 $pid1
wait $pid1
wait $pid2
check "the first host is lost" test $? = 1
check "and said to be" grep -q "'$host1', is lost" "$dir/2/output/failure"
check "no rank is left" wait_for all_gone
rm -f "$dir/pids"
lose_first() {
    both "$two"
    on 2
    on 1 sh -c 'echo $$ >>"$0"; exec sleep 1000' "$dir/pids"
    wait_for has_lines 4 "$dir/pids"
    check "four run" has_lines 4 "$dir/pids"
    kill -9 $pid1 # the first host's halayrun
    wait $pid1
    wait $pid2
    check "the other one fails" test $? = 1
    check "and says why" grep -q "'$host1', is lost" "$dir/2/output/failure"
    check "no rank is left" wait_for all_gone
    rm -f "$dir/pids"
}
lose_first
both "$two"
on 2
on 1 sh -c 'echo $$ >>"$0"; echo "runs"; exec sleep 1000' "$dir/pids"
wait_for has_lines 4 "$dir/out1" # the first host knows then that they run
kill -9 $pid2
wait $pid2
wait $pid1
check "the first one fails" test $? = 1
check "and says why" grep -q "host '$host2' (ranks 2 to 3) is lost" "$dir/1/output/failure"
check "no rank is left" wait_for all_gone
rm -f "$dir/pids"

# --- stop ------------------------------------------------------------------------------------------------------------
# Told on either host, the ranks of that host hear it; here they end by themselves, as a training does after its
# checkpoint.
both "$two"
on 2
on 1 sh -c 'trap "exit 0" TERM; echo $$ >>"$0"; while test ! -e "$0.go"; do sleep 0.05; done' "$dir/pids"
wait_for has_lines 4 "$dir/pids"
kill -TERM $pid2
check "the ranks of that host end" wait_for eval \
    'for p in $(tail -n +1 "$dir/pids"); do is_gone $p && break; done && is_gone $p'
touch "$dir/pids.go"
ends 0
rm -f "$dir/pids" "$dir/pids.go"
# Ranks that end of it, as before their training has begun.
both "$two"
on 2
on 1 sh -c 'echo $$ >>"$0"; exec sleep 1000' "$dir/pids"
wait_for has_lines 4 "$dir/pids"
kill -TERM $pid1
ends 143
fails 'halayrun was stopped by SIGTERM'
rm -f "$dir/pids"

# --- on the way ------------------------------------------------------------------------------------------------------
# However small this environment is, more than 1000 bytes go to the other host.
padding=$(printf '%2000s' '' | tr ' ' x)
# between HOW...: the second host reaches the first one through the meddler, and what passes is in $dir/wire.
meddler=$top_builddir/tests/launcher/meddler
unmeddle() { kill $meddles; wait $meddles 2>/dev/null; }
between() {
    local how=$1
    shift
    : >"$dir/said"
    "$meddler" $how $host1 $way $port "$dir/wire" "$@" >"$dir/said" &
    meddles=$!
    wait_for grep -q passes "$dir/said"
    both "$two"
    HALAY_OPT_ML=$dir/1 TOKEN=only-for-ranks PADDING=$padding \
        "$halayrun" --sagemaker --sagemaker-port $port -x TOKEN -x PADDING \
        sh -c 'cat; echo "rank $HALAY_RANK says ${TOKEN%-ranks}"; echo "and complains" >&2' >"$dir/out1" 2>"$dir/err1" \
        </dev/null &
    pid1=$!
    on 2 --sagemaker-port $way
}
between pass
ends 0
unmeddle
check "it came through" test "$(grep -c 'says only-for$' "$dir/out1")" = 4
check "something passed" test "$(wc -c <"$dir/wire")" -gt 1000
for word in only-for HALAY_ PATH= "$dir" halayrun-agent says complains; do
    check "'$word' is not to be read on the way" eval '! grep -aqF -e "$word" "$dir/wire"'
done
# refused CODE HOW...: what was changed or cut is not taken for what was said.
refused() {
    local want=$1
    shift
    between "$@"
    wait $pid1
    check "$*: the first host ends with $want" test $? = $want
    wait $pid2
    check "$*: so does the other" test $? = $want
    unmeddle
}
refused 1 flip a -150
check "it is said" grep -q 'altered on their way' "$dir/err2"
refused 1 flip a -1000
refused 1 cut a -1000
refused 1 flip a 150
check "it is said" grep -q 'altered on their way' "$dir/err1"
refused 1 cut a 200
between flip e 125
wait $pid1
wait $pid2
check "complaints that were changed are none" grep -q 'altered on their way' "$dir/err1"
unmeddle
between flip t -150
wait $pid1
wait $pid2
check "an end that was changed is none" grep -q "'$host1', is lost" "$dir/2/output/failure"
unmeddle

# --- keys for ssh ----------------------------------------------------------------------------------------------------
both "$two"
for n in 1 2; do mkdir "$dir/keys$n" && HALAY_OPT_ML=$dir/$n run 0 --ssh-keys "$dir/keys$n"; done
check "all hosts have the same" diff -r "$dir/keys1" "$dir/keys2"
check "nobody else reads them" test "$(stat -c %a "$dir/keys1/id_ed25519")" = 600
check "that there is no secret is said" err_has "WARNING: no --secret-file"
mkdir "$dir/keys3"
HALAY_OPT_ML=$dir/1 TRAINING_JOB_NAME=another run 0 --ssh-keys "$dir/keys3"
for file in id_ed25519 host_ed25519 authorized_keys known_hosts; do
    check "another job has another $file" eval '! cmp -s "$dir/keys1/$file" "$dir/keys3/$file"'
done
if command -v ssh-keygen >/dev/null; then
    for pair in id_ed25519:authorized_keys host_ed25519:known_hosts; do
        ssh-keygen -y -P '' -f "$dir/keys1/${pair%:*}" | cut -d ' ' -f 1-2 >"$dir/public"
        check "ssh reads ${pair%:*}" eval 'grep -qxE "(\* )?$(sed "s/[+]/[+]/g" "$dir/public")" "$dir/keys1/${pair#*:}"'
    done
else
    echo "skipped: no ssh-keygen to read the keys"
fi
HALAY_OPT_ML=$dir/1 run 1 --ssh-keys "$dir/nowhere"
check "no such folder" err_has "cannot write '$dir/nowhere/id_ed25519'"

# --- a flood ---------------------------------------------------------------------------------------------------------
# Silent ones, nonsense, and right hellos that were recorded on the way, more at once than there is room for, from
# before the second host calls until its ranks have ended.
listens() { (exec 3<>"/dev/tcp/$host1/$port") 2>/dev/null; }
both "$two"
on 1 "$probe" meet
check "it listens" wait_for listens
: >"$dir/said"
"$meddler" flood $host1 $port "$dir/wire.hello" >"$dir/said" &
meddles=$!
wait_for grep -q floods "$dir/said"
on 2 --start-timeout 60
ends 0
unmeddle
check "all four meet in a flood" test "$(grep -c 'met 4' "$dir/out1")" = 4

# --- strangers, and the wrong secret ---------------------------------------------------------------------------------
both "$two"
on 1 true
check "it listens" wait_for listens
exec 4<>"/dev/tcp/$host1/$port" # says nothing
# More of them than the patience for one each would leave time for, some with half a word.
silent=
for i in $(seq 50); do
    exec {fd}<>"/dev/tcp/$host1/$port"
    test $((i % 3)) != 0 || printf 'half' >&$fd
    silent="$silent $fd"
done
printf 'GET / HTTP/1.0\r\n\r\n%200s' x 2>/dev/null >"/dev/tcp/$host1/$port"
host 2 $host2 '{"sagemaker_mpi_num_of_processes_per_host": "2", "other": "job"}'
on 2 --start-timeout 60
wait $last
check "another job's host is let go" test $? = 1
check "and told" grep -q 'has another secret' "$dir/err2"
check "the first host says so, too" grep -qE 'a caller from 127[0-9.]* is refused: it has another secret' "$dir/err1"
exec 4<&-
for fd in $silent; do exec {fd}<&-; done
host 2 $host2 "$two"
on 2
ends 0
for n in 1 2; do check "host $n says that there is no secret" grep -q "WARNING: no --secret-file" "$dir/err$n"; done
echo "sixteen bytes of a secret" >"$dir/key"
chmod 600 "$dir/key"
on 2 --secret-file "$dir/key"
on 1 --secret-file "$dir/key" "$probe" meet
ends 0
check "with one nothing is to be said" eval '! grep -q WARNING "$dir/err1" "$dir/err2"'
# The same from a channel; who has only the description is refused.
for n in 1 2; do # the platform's files may be readable by all
    mkdir -p "$dir/$n/input/data/secret" && install -m 644 "$dir/key" "$dir/$n/input/data/secret/any.name"
done
on 2
on 1 "$probe" meet
ends 0
check "nor with a channel" eval '! grep -q WARNING "$dir/err1" "$dir/err2"'
rm -r "$dir/2/input/data/secret"
on 1 --start-timeout 60 true
on 2 --start-timeout 60
wait $last
check "the description alone is not enough" test $? = 1
check "and that is said" grep -q 'has another secret' "$dir/err2"
kill $pid1
wait $pid1
rm "$dir/1/input/data/secret/any.name"
touch "$dir/1/input/data/secret/empty"
HALAY_OPT_ML=$dir/1 run 1 --sagemaker true
check "no secret" err_has "has 0 bytes; expected at least 16"
touch "$dir/1/input/data/secret/another"
HALAY_OPT_ML=$dir/1 run 1 --sagemaker true
check "which one?" err_has "holds 2 files"
rm -r "$dir/1/input/data/secret"
both "$two"
on 1 --start-timeout 0.3 true
wait $last
check "nobody calls" test $? = 1
check "it says so" grep -q "1 of 2 nodes joined within 0.3 s: '$host1'" "$dir/1/output/failure"
on 2 --start-timeout 0.3
wait $last
check "nobody listens" test $? = 1
check "the reason" grep -q "host '$host1' cannot be reached after" "$dir/2/output/failure"
HALAY_OPT_ML=$dir/none run 2 --sagemaker true
check "no container" err_has 'this is not a SageMaker container'
HALAY_OPT_ML=$dir/1 run 2 --sagemaker -H a:1 true
check "hosts are found" err_has 'finds the hosts itself'
HALAY_OPT_ML=$dir/1 run 2 --sagemaker --min-np 2 true
check "not elastic" err_has 'stay the same'
OMPI_COMM_WORLD_SIZE=2 HALAY_OPT_ML=$dir/1 run 2 --sagemaker true
check "not under mpirun" err_has 'start the program itself'
echo "{\"current_host\": \"$host1\", \"hosts\": [" >"$dir/1/input/config/resourceconfig.json"
rm -f "$dir/1/output/failure"
HALAY_OPT_ML=$dir/1 run 2 --sagemaker true
check "a broken file is the reason" grep -q 'resourceconfig.json, line 2, column 0: not JSON' "$dir/1/output/failure"

# --- sm-entry --------------------------------------------------------------------------------------------------------
host 1 $host1 '{}' "\"$host1\""
export HALAY_OPT_ML=$dir/1
# enter CODE WORDS...
enter() {
    local want=$1 code
    shift
    "$entry" "$@" >"$dir/out" 2>"$dir/err" </dev/null
    code=$?
    check "exit code of sm-entry $* is $code, not $want" test $code = "$want"
}
enter 0 true
check "no failure" test ! -e "$dir/1/output/failure"
enter 3 sh -c 'exit 3'
check "the failure file" grep -q "'sh' ended with exit code 3" "$dir/1/output/failure"
rm "$dir/1/output/failure"
enter 5 sh -c 'echo better >$HALAY_OPT_ML/output/failure; exit 5'
check "who knew more" grep -qx better "$dir/1/output/failure"
rm "$dir/1/output/failure"
enter 137 sh -c 'kill -9 $$'
check "killed" grep -q "was killed by SIGKILL" "$dir/1/output/failure"
enter 127 no-such-program
mkdir -m 0 "$dir/closed"
PATH=$dir/closed:$PATH enter 127 no-such-program
check "nor is it there for who may not read a folder of PATH" err_has "'no-such-program': No such file"
: >"$dir/text"
PATH=$dir:$PATH enter 126 text
enter 2 --no-such-option
enter 0 sh -c 'setsid sh -c "echo \$\$ >>$0; exec sleep 1000" & while ! test -s "$0"; do sleep 0.02; done' "$dir/pids"
check "what it left behind" all_gone
rm -f "$dir/pids"
mkdir "$dir/bin"
printf '#!/bin/sh\necho toolkit "$@"\n' >"$dir/bin/train"
printf '#!/bin/sh\necho own "$@"\n' >"$dir/bin/halayrun"
chmod +x "$dir/bin/train" "$dir/bin/halayrun"
PATH=$dir/bin:$PATH enter 0 train
check "the toolkit's train" out_has toolkit
rm "$dir/bin/train"
PATH=$dir/bin:$PATH enter 0 train
check "our own" out_has 'own --sagemaker'
PATH=$dir/bin:$PATH enter 0
check "without a word too" out_has 'own --sagemaker'
printf '#!/bin/sh\necho own "$@"\n' >"$dir/bin/halay-tft"
chmod +x "$dir/bin/halay-tft"
PATH=$dir/bin:$PATH enter 0 serve
check "the model's server" out_has "own serve $dir/1/model --listen 0.0.0.0:8080 --insecure"
SAGEMAKER_BIND_TO_PORT=9000 PATH=$dir/bin:$PATH enter 0 serve
check "its port" out_has '0.0.0.0:9000'

# A job of an MPI: mpirun, a shell, the rank. Neither of the first two is to be signalled.
cat >"$dir/mpirun" <<'END'
#!/bin/bash
trap 'echo "mpirun was told" >&2; exit 1' TERM USR1
OMPI_COMM_WORLD_RANK=0 sh -c "$1; true" &
wait $!
END
cat >"$dir/rank" <<'END'
#!/bin/bash
trap 'echo "saved by $1"; exit 0' "$1"
echo $$ >>"$2"
while :; do sleep 0.05; done
END
chmod +x "$dir/mpirun" "$dir/rank"
for signal in USR1 TERM; do
    "$entry" "$dir/mpirun" "$dir/rank $signal $dir/pids" >"$dir/out" 2>"$dir/err" &
    last=$!
    wait_for has_lines 1 "$dir/pids"
    kill -TERM $last
    wait $last
    check "it ends well by $signal" test $? = 0
    check "the rank was told" out_has "saved by $signal"
    check "nobody else" eval '! err_has "mpirun was told"'
    rm "$dir/pids"
done
# A rank of another job, which is none of ours, is left alone.
HALAY_RANK=0 sh -c 'trap "exit 5" USR1 TERM; echo $$ >>"$0"; while :; do sleep 0.05; done' "$dir/others" &
other=$!
wait_for has_lines 1 "$dir/others"
"$entry" sh -c 'trap "exit 4" TERM; echo $$ >>"$0"; while :; do sleep 0.05; done' "$dir/pids" >"$dir/out" 2>"$dir/err" &
last=$!
wait_for has_lines 1 "$dir/pids"
kill -TERM $last
wait $last
check "no ranks: the command is told" test $? = 4
check "another job's rank hears nothing" kill -0 $other
kill -9 $other
