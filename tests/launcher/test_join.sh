#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# halayrun --join: a halayrun for each node, all on this machine, which is why --node-rank has to say who is node 0.
# (tests/lab/test_lab_join.sh has hosts of their own, and the same command line on each.)
. "$top_srcdir/tests/launcher/lib.sh" || exit 99

hold_port port
meet=127.0.0.1:$port
secret="sixteen characters or more"
# The nodes' secret is that of this home, unless a test says otherwise.
export HOME=$dir/home
unset XDG_CONFIG_HOME
mkdir "$HOME"
own=$HOME/.config/halay/secret

# node NAME ARGS...: halayrun there; its process is $pid_NAME, its output in $dir/out.NAME and err.NAME. few: how many
# descriptors it may have.
node() {
    local name=$1
    shift
    mkdir -p "$dir/$name"
    : >"$dir/out.$name" # now: who waits for a line there must not find the last one's
    : >"$dir/err.$name"
    (
        test -z "${few-}" || ulimit -Sn "$few"
        cd "$dir/$name" && exec env --default-signal=INT "$halayrun" --join $meet "$@"
    ) >"$dir/out.$name" 2>"$dir/err.$name" </dev/null &
    eval pid_$name=$!
}
# ends NAME CODE
ends() {
    local code
    eval "wait \$pid_$1"
    code=$?
    check "node $1 ends with $2, not $code: $(tail -3 "$dir/err.$1")" test $code = $2
}
says() { check "node $1 says '$2': $(tail -4 "$dir/err.$1")" grep -qF -e "$2" "$dir/err.$1"; }
hears() { wait_for grep -qF -e "$2" "$dir/err.$1"; }
# The addresses at which the port is listened on, by the kernel's table.
listens() {
    cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
        sed -nE "s/.* ([0-9A-F]+):$(printf %04X $port) 0+:0000 0A .*/\1/p"
}
case $halayrun in /*) ;; *) halayrun=$PWD/$halayrun ;; esac
case $probe in /*) ;; *) probe=$PWD/$probe ;; esac

# --- the job ---------------------------------------------------------------------------------------------------------
# The second one comes before node 0, and none but node 0 knows the program.
node b
hears b "waiting for host '127.0.0.1'"
says b "start halayrun on every host of the job"
VARIABLE=a node a --nnodes 3 --node-rank 0 --nproc-per-node 2 sh -c \
    'echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE ${PWD##*/}'
check "two are here" hears a "2 of 3 nodes are here; still waiting for 1"
VARIABLE=c node c --nproc-per-node 1
ends a 0
ends b 0
ends c 0
printf '[%s]\n' '0] 0/5 0/2 0/3 a' '1] 1/5 1/2 0/3 a' '2] 2/5 0/2 1/3 b' '3] 3/5 1/2 1/3 b' '4] 4/5 0/1 2/3 c' |
    sed 's/]$//' >"$dir/want"
check "ranks in order of arrival, each in its node's folder" eval 'sort "$dir/out.a" | diff - "$dir/want"'
check "a secret is there, for this user alone" test "$(stat -c %a:%s "$own")" = 600:65
check "and nothing else" test "$(ls "${own%/*}")" = secret
check "node 0 has all output" test ! -s "$dir/out.b" -a ! -s "$dir/out.c"
says b "this is node 1 of 3: '127.0.0.1', node 0, has the output of its ranks"
check "they are told how many are here" grep -q 'still waiting for 1' "$dir/err.b"

check "callers for whom there are no descriptors do not keep it busy" "$probe" pending

node b --node-rank 2
node c --node-rank 1
few=9 node a --nnodes 3 --node-rank 0 -np 4 "$probe" meet
ends a 0
check "all four meet" test "$(grep -c 'met 4' "$dir/out.a")" = 4
ends b 0
ends c 0
says b 'this is node 2 of 3'
# What is a node's own, and what is node 0's.
HALAY_SECRET=$secret MINE=b GIVEN=b HALAY_SPIN_US=1 node b --nproc-per-node 1 another program
HALAY_SECRET=$secret MINE=a GIVEN=a node a --nnodes 2 --node-rank 0 --nproc-per-node 1 -x GIVEN --spin-us 7 sh -c \
    'echo $MINE $GIVEN $HALAY_SPIN_US ${HALAY_SECRET-none}; test -n "$MASTER_PORT" && echo $MASTER_ADDR:$MASTER_PORT'
ends a 0
ends b 0
check "the environment" test "$(grep -v : "$dir/out.a" | sort | tr '\n' ,)" = "[0] a a 7 none,[1] b a 7 none,"
check "one master" test "$(grep : "$dir/out.a" | cut -c5- | sort -u | wc -l)" = 1
says a "was started for another command, 'another program': that of node 0 counts"
# torchrun's words.
node b --nnodes 2 --node_rank 1 --nproc_per_node 1 "$probe" meet
"$halayrun" --nnodes=2 --node_rank=0 --master_addr=127.0.0.1 --master_port=$port --nproc_per_node=1 \
    --secret-file <(echo "another secret") true >"$dir/out" 2>"$dir/err"
check "a secret that is too short" err_has "expected at least 16 that cannot be guessed"
"$halayrun" --nnodes=2 --node_rank=0 --master_addr=127.0.0.1 --master_port=$port --nproc_per_node=1 "$probe" meet \
    >"$dir/out" 2>"$dir/err" </dev/null
check "torchrun's options: $(cat "$dir/err")" test "$(grep -c 'met 2' "$dir/out")" = 2
ends b 0
check "nothing but that" test ! -s "$dir/err" -o "$(grep -vc 'still waiting for' "$dir/err")" = 0
run 0 --nnodes 1 --node-rank 0 --join $meet -np 2 "$probe" meet
check "one node" test "$(grep -c 'met 2' "$dir/out")" = 2
run 0 --nnodes 1 --nproc-per-node 2 "$probe" meet
check "one node needs no address" test "$(grep -c 'met 2' "$dir/out")" = 2

# --- its end ---------------------------------------------------------------------------------------------------------
node b
node a --nnodes 2 --node-rank 0 --nproc-per-node 1 sh -c \
    'test $RANK = 0 || { echo because >&2; exit 7; }; exec sleep 1000'
ends a 7
ends b 7
says b 'rank 1 (pid'
says b '  | because'
# The child of a node that serves the job as agent.
server_of() { tr -d ' ' <"/proc/$1/task/$1/children"; }
running() { # on two nodes, a rank each
    rm -f "$dir/pids"
    node b
    node a --nnodes 2 --node-rank 0 --nproc-per-node 1 sh -c 'echo $$ >>"$0"; echo runs; exec sleep 1000' \
        "$dir/pids"
    wait_for has_lines 2 "$dir/out.a"
    check "both run" has_lines 2 "$dir/pids"
}
running
kill -9 $pid_b
ends b 137
ends a 1
check "node 0 names it" grep -qE "host '[^']* \(node 1\)' \(rank 1\) is lost" "$dir/err.a"
check "no rank is left" wait_for all_gone
running
kill -9 "$(server_of $pid_b)"
ends a 1
ends b 1
says b 'is lost: the connection is closed'
check "no rank is left" wait_for all_gone
running
kill -9 $pid_a
ends a 137
ends b 1
says b "node 0, '127.0.0.1', is lost"
check "no rank is left" wait_for all_gone
running
kill -INT $pid_a
ends a 130
ends b 130
check "no rank is left" wait_for all_gone
running
kill -INT $pid_b
ends b 130
ends a 130
check "node 0 says where it came from" grep -qE "host '.* \(node 1\)': SIGINT: passed on to the ranks" "$dir/err.a"
check "and what became of it" grep -qE "rank 1 \(pid [0-9]* on host .* was killed by SIGINT" "$dir/err.a"
check "no rank is left" wait_for all_gone
running
node c
ends c 2
says c 'node 0 refuses this node: the job of all its 2 nodes has begun'
says a 'is refused: the job of all its 2 nodes has begun'
kill -TERM $pid_a
ends a 143
ends b 143
rm -f "$dir/pids"
node b
node a --nnodes 2 --node-rank 0 --nproc-per-node 1 no-such-program
ends a 127
ends b 127

# --- it begins again -------------------------------------------------------------------------------------------------
# tries N: rank 1 fails in the first N starts, while the others run.
cat >"$dir/tries" <<'END'
#!/bin/sh
echo "try $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS, rank $RANK of $WORLD_SIZE in ${PWD##*/}"
test "$TORCHELASTIC_RESTART_COUNT" -lt "$1" || exit 0
: >"$0.$RANK.$TORCHELASTIC_RESTART_COUNT"
until test -e "$0.0.$TORCHELASTIC_RESTART_COUNT"; do sleep 0.05; done # rank 0 has printed its line
test "$RANK" != 1 || exit $((3 + TORCHELASTIC_RESTART_COUNT))
exec sleep 1000
END
chmod +x "$dir/tries"
node b --nnodes 2 --node-rank 1 --nproc-per-node 1 --max-restarts 3 "$dir/tries" 2
node a --nnodes 2 --node-rank 0 --nproc-per-node 1 --max-restarts 3 "$dir/tries" 2
ends a 0
ends b 0
check "three starts, on both nodes: $(cat "$dir/out.a")" test "$(sort "$dir/out.a" | tr '\n' ,)" = "$(
    for r in 0 1; do for t in 0 1 2; do
        printf '[%s] try %s of 3, rank %s of 2 in %s,' $r $t $r "$(test $r = 0 && echo a || echo b)"
    done; done)"
check "each restart was announced" test "$(grep -c '^halayrun: restart [12] of 3: all ranks are started again' \
    "$dir/err.a")" = 2
check "the other node says so, too" test "$(grep -c 'this is node 1 of 2' "$dir/err.b")" = 3
node b
node a --nnodes 2 --node-rank 0 --nproc-per-node 1 --max-restarts 2 "$dir/tries" 9
ends a 5
ends b 5
says b 'rank 1 (pid'
node b
node a --nnodes 2 --node-rank 0 --nproc-per-node 2 --max-restarts 1 sh -c \
    'test $TORCHELASTIC_RESTART_COUNT = 1 || exit 1; exec "$0" meet' "$probe"
ends a 0
ends b 0
check "they meet after a restart" test "$(grep -c 'met 4' "$dir/out.a")" = 4
run 0 --nnodes 1 --node-rank 0 --join $meet --nproc-per-node 1 --max-restarts 1 "$dir/tries" 0
check "one node, too" out_has 'try 0 of 1, rank 0 of 1'

number=
# starts ARGS...: two nodes, a rank each; started again, the ranks end well once the file is there.
starts() {
    rm -f "$dir/pids" "$dir/enough"
    # shellcheck disable=SC2086 # two words, or none
    node b $number
    node a --nnodes 2 --node-rank 0 --nproc-per-node 1 --max-restarts 2 "$@" sh -c \
        'echo $$ >>"$0"; echo "runs $TORCHELASTIC_RESTART_COUNT"; test ! -e "$1" || exit 0; exec sleep 1000' \
        "$dir/pids" "$dir/enough"
    check "both run" wait_for has_lines 2 "$dir/out.a"
}
misses() { check "node 0 waits for the node" hears a "waiting for node 1, '"; }
for number in "--node-rank 1" ""; do
    starts
    kill -9 $pid_b
    ends b 137
    misses
    : >"$dir/enough"
    # shellcheck disable=SC2086
    node b $number
    ends b 0
    ends a 0
    says a "node 1 is here again: '"
    check "its loss counts as a restart" grep -q 'restart 1 of 2' "$dir/err.a"
    check "both ran again" test "$(grep -c 'runs 1' "$dir/out.a")" = 2
done
starts # the agent is lost, and not the node
: >"$dir/enough"
kill -9 "$(server_of $pid_b)"
ends b 0
ends a 0
check "no node was waited for" eval '! grep -q "waiting for node" "$dir/err.a"'
starts # a node that takes over
node c
check "a third one waits for a place" hears c 'this one waits for the place of one that is lost'
: >"$dir/enough"
kill -9 $pid_b
ends b 137
ends a 0
ends c 0
check "which it gets" test "$(grep -c 'runs 1' "$dir/out.a")" = 2
starts
kill -9 $pid_a
ends a 137
ends b 1
says b "node 0, '127.0.0.1', is lost"
check "no rank is left" wait_for all_gone
starts --start-timeout 1
kill -9 $pid_b
ends b 137
ends a 1
check "it names the node" grep -qE "no restart: node 1, '[^']*', did not come again within 1 s" "$dir/err.a"
check "no rank is left" wait_for all_gone
starts
kill -9 $pid_b
ends b 137
misses
HALAY_SECRET="another one of them" node b
ends b 1
says a 'a caller from 127.0.0.1 is refused: it has another secret'
kill -TERM $pid_a
ends a 143
says a 'SIGTERM: no restart'
starts
kill -TERM $pid_b # the node leaves, and node 0 waits for another
ends b 143
says b 'SIGTERM: this node leaves the job'
check "node 0 knows why" hears a 'leaves: it was stopped by SIGTERM'
: >"$dir/enough"
node b
ends b 0
ends a 0
# In the pause between two starts.
for pause in "3 of 9: all ranks are started again in 0.4 s" "5 of 9: all ranks are started again in 1.6 s" \
    "9 of 9: all ranks are started again in 5 s"; do
    node b
    node a --nnodes 2 --node-rank 0 --nproc-per-node 1 --max-restarts 9 sh -c 'exit 3'
    check "restart $pause" hears a "restart $pause"
    kill -TERM $pid_a
    wait $pid_a
    code=$?
    wait $pid_b
    other=$?
    ! grep -q "SIGTERM: no restart" "$dir/err.a" || break
done
check "told to stop between two starts" grep -q "SIGTERM: no restart" "$dir/err.a"
check "exit codes $code and $other" test $code/$other = 143/143
rm -f "$dir/pids"

# --- a range of nodes ------------------------------------------------------------------------------------------------
# range ARGS...: node 0; a rank says who it is, and ends well, once the file is there, if it meets the others.
cat >"$dir/range" <<'END'
#!/bin/sh
echo "$RANK/$WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE $TORCHELASTIC_RESTART_COUNT/$TORCHELASTIC_MAX_RESTARTS"
test ! -e "$0.enough" || exec "$1" meet
exec sleep 1000
END
chmod +x "$dir/range"
range() {
    rm -f "$dir/range.enough"
    node a --node-rank 0 "$@" "$dir/range" "$probe"
}
# ran LINES: until the ranks have printed this number of lines in all.
ran() { check "$1 lines: $(cat "$dir/out.a")" wait_for has_lines $1 "$dir/out.a"; }
last() { tail -n $1 "$dir/out.a" | sed 's/.*\] //' | sort | tr '\n' ,; }

node b
range --nnodes 1:3 --nproc-per-node 2 --max-restarts 2
ran 4
says a '2 of 1 to 3 nodes are here; the job begins when no more have come for 3 s'
check "it begins with two: $(last 4)" test "$(last 4)" = "0/4 0/2 0/2,1/4 0/2 0/2,2/4 1/2 0/2,3/4 1/2 0/2,"
node c --node-rank 1 # a number that means nothing here
ran 10
says c 'all its ranks are started again to let this node in'
check "it says so" grep -qE "^halayrun: node '.*' has come: all ranks are started again" "$dir/err.a"
check "three nodes: $(last 6)" test "$(last 6 | cut -d, -f5,6)" = "4/6 2/3 0/2,5/6 2/3 0/2"
check "which is not counted" eval '! grep -q "halayrun: restart" "$dir/err.a"'
kill -9 $pid_b
ends b 137
ran 14
check "the third is the second now: $(last 4)" test "$(last 4)" = "0/4 0/2 1/2,1/4 0/2 1/2,2/4 1/2 1/2,3/4 1/2 1/2,"
says a 'restart 1 of 2'
kill -TERM $pid_c
ends c 143
ran 16
check "one node: $(last 2)" test "$(last 2)" = "0/2 0/1 2/2,1/2 0/1 2/2,"
says a 'leaves: it was stopped by SIGTERM'
node b
node c
ran 22
check "two that come together cost one start: $(last 6)" test "$(last 6 | cut -c1-8)" = "0/6 0/3 "
kill -9 $pid_c
ends c 137
ends a 1
ends b 1
check "all restarts are used up" test "$(grep -c 'halayrun: restart' "$dir/err.a")" = 2
check "no rank is left" wait_for all_gone

node b
node c
range --nnodes 1:2 --nproc-per-node 1 --max-restarts 1
check "one too many" wait_for grep -q "this one waits for one that is lost" "$dir/err.b" "$dir/err.c"
ran 2
: >"$dir/range.enough"
lost=b spare=c
! grep -q 'this one waits' "$dir/err.b" || lost=c spare=b
eval "kill -9 \$pid_$lost"
ends $lost 137
ends a 0
ends $spare 0
check "it takes the place: $(cat "$dir/out.a")" test "$(grep -c 'met 2' "$dir/out.a")" = 2

node b
range --nnodes 2:3 --nproc-per-node 1 --max-restarts 1
ran 2
kill -9 $pid_b
ends b 137
check "too few are left" hears a '1 of at least 2 nodes is left; waiting for others: start halayrun there'
: >"$dir/range.enough"
node b
ends a 0
ends b 0
check "and enough again: $(cat "$dir/out.a")" test "$(grep -c 'met 2' "$dir/out.a")" = 2
node b
range --nnodes 2:3 --nproc-per-node 1 --max-restarts 1 --start-timeout 5
ran 2
kill -9 $pid_b
ends b 137
ends a 1
says a 'no restart: 1 of at least 2 nodes is left, and no other joined within 5 s (--start-timeout)'
range --nnodes 1:2 --nproc-per-node 1 # restarts are for failures
ran 1
node b
ran 3
: >"$dir/range.enough"
kill -9 $pid_b
ends b 137
ends a 1
range --nnodes 2:3 --nproc-per-node 1 --start-timeout 0.2
ends a 1
says a '1 of 2 nodes joined within 0.2 s'
run 2 --join $meet --nnodes 1:2 --node-rank 0 -np 2 true
check "-np does not fit" err_has 'with --nnodes 1:2 the number of ranks follows the nodes: give --nproc-per-node'
run 0 --join $meet --nnodes 1:2 --node-rank 0 --nproc-per-node 1 --dry-run true
check "a dry run has all" out_has 'HALAY_RANK=1 HALAY_SIZE=2'

# --- who may not come ------------------------------------------------------------------------------------------------
node a --nnodes 3 --node-rank 0 --nproc-per-node 1 --start-timeout 60 "$probe" meet
check "it waits" hears a '1 of 3 nodes is here; still waiting for 2'
check "on the address of --join, and no other: $(listens)" test "$(listens)" = 0100007F
HALAY_SECRET="another one of them" node b --start-timeout 60
ends b 1
says b 'has another secret: another job, or another --secret-file, HALAY_SECRET'
says a 'a caller from 127.0.0.1 is refused: it has another secret'
node b --node-rank 3
ends b 2
says b 'node 0 refuses this node: node rank 3 is not from 1 to 2'
says a 'is refused: node rank 3 is not from 1 to 2'
node b --nnodes 2 --node-rank 1
ends b 2
says b 'it was started for 2 nodes, and node 0 for 3'
node c --node-rank 2
check "two are here" hears a '2 of 3 nodes are here; still waiting for 1'
node b --node-rank 2
ends b 2
says b "node rank 2 is taken by '"
says a "is refused: node rank 2 is taken by '"
kill -9 $pid_c # one that came and went
ends c 137
check "its end is seen" hears a 'is gone again'
node c --node-rank 2
node b --node-rank 1
ends a 0
ends b 0
ends c 0
check "all three meet" test "$(grep -c 'met 3' "$dir/out.a")" = 3
for time in 1.5 6 24 96; do # until one of them is enough for this machine
    node b
    node a --nnodes 3 --node-rank 0 --start-timeout $time true
    ends a 1
    wait $pid_b
    code=$?
    ! grep -q '2 of 3 nodes joined' "$dir/err.a" || break
done
check "it names those that joined: $(cat "$dir/err.a")" \
    grep -qE "2 of 3 nodes joined within $time s: '[^']*', '[^']*'" "$dir/err.a"
check "the other ends with $code" test $code = 1
says b "2 of 3 nodes joined within $time s"
node b --start-timeout 0.2
ends b 1
says b "host '127.0.0.1' cannot be reached after"
node a --nnodes 2 --node-rank 0 true
check "it waits" hears a 'still waiting for 1'
kill -INT $pid_a
ends a 130

# --- the secret ------------------------------------------------------------------------------------------------------
# Two homes have two secrets: both ends say so, and which file to copy.
mkdir "$dir/other"
node a --nnodes 2 --node-rank 0 --nproc-per-node 1 --start-timeout 60 "$probe" meet
check "it waits" hears a 'still waiting for 1'
HOME=$dir/other node b
ends b 1
says b 'has another secret'
says b "the secret here is in '$dir/other/.config/halay/secret'"
check "node 0 says so, too" hears a "the secret here is in '$own'"
says b "copy node 0's to the others"
cp "$own" "$dir/other/.config/halay/secret"
HOME=$dir/other node b
ends a 0
ends b 0
check "copied, it lets them meet" test "$(grep -c 'met 2' "$dir/out.a")" = 2
# Nodes that make one at once: a single one comes out, whole.
rm "$own"
for n in 1 2 3 4 5 6; do
    "$halayrun" --join $meet --nnodes 2 --node-rank 1 --start-timeout 0 true >/dev/null 2>&1 &
    makers[n]=$!
done
wait "${makers[@]}"
check "one secret, and no drafts" test "$(ls "${own%/*}")/$(stat -c %a:%s "$own")" = secret/600:65
refused() { # COMMAND...: what changes the environment of a node, so that it refuses
    local code
    "$@" "$halayrun" --join $meet --nnodes 2 --node-rank 0 --start-timeout 0.1 true >"$dir/out" 2>"$dir/err"
    code=$?
    check "exit code $code is not 2" test $code = 2
    check "no node is waited for" eval '! err_has "still waiting"'
}
refused env -u HOME
check "no home" err_has 'HOME is not set, where one would be kept: give all nodes the same --secret-file FILE'
: >"$dir/file"
refused env HOME="$dir/file"
check "a home that is a file" err_has "'$dir/file/.config/halay/secret' cannot be made: Not a directory; give all nodes"
chmod 644 "$own"
refused env
check "others can read it" err_has "other users can read or change '$own' (mode 0644): chmod 600 it"
rm "$own"
mkdir -p "$dir/xdg"
run 1 --join $meet --nnodes 2 --node-rank 1 --start-timeout 0 true
XDG_CONFIG_HOME=$dir/xdg run 1 --join $meet --nnodes 2 --node-rank 1 --start-timeout 0 true
check "one for XDG_CONFIG_HOME, another for HOME" test -s "$dir/xdg/halay/secret" -a -s "$own"
head -c 32 /dev/urandom >"$dir/key"
for mode in 640 604 666; do
    chmod $mode "$dir/key"
    run 2 --join $meet --nnodes 2 --node-rank 0 --secret-file "$dir/key" true
    check "a file for others, too" err_has "other users can read or change '$dir/key' (mode 0$mode): chmod 600 it"
done
chmod 400 "$dir/key"
node b --secret-file "$dir/key"
node a --nnodes 2 --node-rank 0 --nproc-per-node 1 --start-timeout 60 --secret-file "$dir/key" "$probe" meet
ends a 0
ends b 0
check "one of our own lets them meet" test "$(grep -c 'met 2' "$dir/out.a")" = 2
home=$HOME
unset HOME
node b --insecure
node a --nnodes 2 --node-rank 0 --nproc-per-node 1 --start-timeout 60 --insecure "$probe" meet
export HOME=$home
ends a 0
ends b 0
for n in a b; do says $n 'WARNING: --insecure: anyone who can reach these nodes can run programs on them'; done
run 2 --insecure --secret-file "$dir/key" --join $meet --nnodes 2 --node-rank 0 true
check "either" err_has '--insecure: there is a secret, --secret-file'
# It is for halayrun alone.
HALAY_SECRET=$secret run 0 -np 2 sh -c 'echo "${HALAY_SECRET-none}"'
check "no rank has it" test "$(grep -c none "$dir/out")" = 2
HALAY_SECRET=$secret run 2 -x HALAY_SECRET -np 1 true
check "on no account" err_has 'option -x: HALAY_SECRET is for halayrun alone'

# --- the command line ------------------------------------------------------------------------------------------------
run 2 --nnodes 2 true
check "where?" err_has 'say where they meet'
run 2 --node-rank 1 true
check "of what?" err_has 'say where they meet'
run 2 --join $meet --node-rank 0 true
check "of how many?" err_has 'of how many nodes? give --nnodes N'
run 2 --join $meet --nnodes 2
check "which program?" err_has 'which program? node 0 gives it'
run 2 --join $meet --nnodes 2 --node-rank 2 true
check "which one?" err_has '--node-rank 2: 2 nodes have numbers from 0 to 1'
run 2 --join 127.0.0.1:x --nnodes 2 true
check "no port" err_has "option --join: '127.0.0.1:x' is not HOST or HOST:PORT"
run 2 --join $meet --nnodes 2 -H a:1 true
check "either" err_has 'needs none of -H'
run 2 --join $meet --nnodes 2 --min-np 1 true
check "not elastic" err_has 'not with --min-np, --max-np'
run 2 --join $meet --nnodes 2 --node-rank 0 -np 1 --dry-run true
check "a node without a rank" err_has 'option -np: 1 ranks on 2 nodes leave some without a rank'
run 0 --join $meet --nnodes 2 --nproc-per-node 2 --dry-run true
check "this is node 0, since the address is here" out_has "# 2 ranks on host 'node 1', in its own folder, which joins"
check "all ranks" out_has 'HALAY_RANK=3'
run 0 --join $meet --dry-run
check "a follower" out_has "this node joins the job of '127.0.0.1', port $port"
HALAY_SECRET=short run 2 --join $meet --nnodes 2 true
check "a short secret" err_has 'HALAY_SECRET has 5 characters; expected at least 16'
HALAY_SECRET=$secret run 0 --dry-run --verbose -np 1 true
check "a secret is not shown" eval 'out_has "HALAY_SECRET=(not shown)" && ! out_has sixteen'
