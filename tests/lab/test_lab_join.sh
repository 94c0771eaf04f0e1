#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# halayrun --join on hosts of their own, without ssh: the same command line on each. Ranks meet over the network, with
# halay and with PyTorch where there is one; a host that dies, and that of node 0. Needs root and namespaces.
. "$top_srcdir/tests/lab/lib.sh"

make_lab 4
for h in 1 2 3 4; do sh "$lab_script" sshd $lab $h stop; done
probe=$build/tests/launcher/probe
# All hosts have one home folder, and so a secret.
export HOME=$scratch/home
unset XDG_CONFIG_HOME
mkdir -p "$HOME"

# start HOST ARGS...: its process is $pid_HOST.
start() {
    local h=$1
    shift
    on $h "$halayrun" --join 10.77.$lab.1 "$@" >"$dir/out.$h" 2>"$dir/err.$h" </dev/null &
    eval pid_$h=$!
}
# ends CODE: all three.
ends() {
    local h code
    for h in 1 2 3; do
        eval "wait \$pid_$h"
        code=$?
        check "host $h ends with $1, not $code: $(tail -3 "$dir/err.$h")" test $code = $1
    done
}
on_all() { local h; for h in 3 2 1; do start $h "$@"; done; }

on_all --nnodes 3 --nproc-per-node 2 "$probe" meet
ends 0
check "all six meet" test "$(grep -c 'met 6' "$dir/out.1")" = 6
check "the host of the address is node 0" test ! -s "$dir/out.2" -a ! -s "$dir/out.3"

start 3 --nnodes 3 --node-rank 1 --nproc-per-node 1 true
start 2 --nnodes 3 --node-rank 2 --nproc-per-node 1 true
start 1 --nnodes 3 --node-rank 0 --nproc-per-node 1 sh -c 'echo "$(hostname) $RANK $NODE_RANK $MASTER_ADDR"'
ends 0
for h in 1-0 3-1 2-2; do
    check "ranks in order of node ranks: host ${h%-*}" grep -qx \
        "\[${h#*-}\] $name-${h%-*} ${h#*-} ${h#*-} \(10.77.$lab.1\|fd77:$lab::1\)" "$dir/out.1"
done

# To import it takes each process two seconds: not for a look, and one rank a host.
if /usr/bin/python3 -c 'import importlib.util, sys; sys.exit(not importlib.util.find_spec("torch"))'; then
    cat >"$scratch/sum.py" <<'END'
import torch, torch.distributed as dist
dist.init_process_group("gloo")
t = torch.ones(1000) * (dist.get_rank() + 1)
dist.all_reduce(t)
print("sum", int(t[0].item()), "of", dist.get_world_size())
dist.destroy_process_group()
END
    on_all --nnodes 3 --nproc-per-node 1 -x GLOO_SOCKET_IFNAME=eth0 /usr/bin/python3 "$scratch/sum.py"
    ends 0
    check "PyTorch meets" test "$(grep -c 'sum 6 of 3' "$dir/out.1")" = 3
else
    echo "skipped: PyTorch over --join (no torch in /usr/bin/python3)"
fi

# Node 0 does not answer host 2's first address: all of its connections, that of --join and its ranks' to the store
# and to the other ranks, have to come from the second one, which the network names.
on 2 ip address add 10.77.$lab.102/24 dev eth0 && on 1 ip route add blackhole 10.77.$lab.2/32 ||
    skip "addresses, which cannot be added here"
network="--network-interface 10.77.$lab.1/32,10.77.$lab.102/32 --start-timeout 30"
# shellcheck disable=SC2086 # several words
for h in 2 1; do
    start $h $network --nnodes 2 --nproc-per-node 2 "$build/perf/halay-perf" allreduce -b 64K -e 64K -n 1
done
for h in 1 2; do
    eval "wait \$pid_$h"
    code=$?
    check "host $h of two addresses ends with $code: $(tail -n 3 "$dir/err.$h")" test $code = 0
done
check "they meet by the second address: $(head -n 3 "$dir/out.1")" grep -q '4 ranks.* 2 hosts' "$dir/out.1"
on 1 ip route del blackhole 10.77.$lab.2/32

gone() {
    ! on $1 pgrep -x "halayrun|halayrun-job|halayrun-relay|halayrun-door" >/dev/null &&
        ! on $1 pgrep -fx "sleep 1000" >/dev/null
}
have_begun() { test "$(grep -c runs "$dir/out.1")" = 3; }
on_all --nnodes 3 --nproc-per-node 1 sh -c 'echo runs; exec sleep 1000'
check "they run" wait_for have_begun
on 2 pkill -INT -o -x halayrun
ends 130
check "node 0 says where the signal came" grep -q "host '$name-2': SIGINT: passed on to the ranks" "$dir/err.1"
for h in 1 2 3; do check "nothing is left on host $h" wait_for gone $h; done

on_all --nnodes 3 --nproc-per-node 1 sh -c 'echo runs; exec sleep 1000'
check "they run" wait_for have_begun
sh "$lab_script" kill $lab 3
wait $pid_1
check "a host that is gone ends the job" test $? = 1
check "node 0 names it" grep -qE "host '$name-3' \(rank [12]\) is lost" "$dir/err.1"
wait $pid_2
check "the other node ends, too" test $? = 1
check "and knows why" grep -qE "host '$name-3' \(rank [12]\) is lost" "$dir/err.2"
wait $pid_3

# A pod that comes again has another address and name.
start 4 --nnodes 2 true
start 1 --nnodes 2 --nproc-per-node 1 --max-restarts 1 sh -c \
    'echo runs; test $TORCHELASTIC_RESTART_COUNT = 0 || exec "$0" meet; exec sleep 1000' "$probe"
check "they run" wait_for eval 'test "$(grep -c runs "$dir/out.1")" = 2'
sh "$lab_script" kill $lab 4
start 2 --nnodes 2 true
for h in 1 2; do
    eval "wait \$pid_$h"
    code=$?
    check "host $h ends with $code: $(tail -3 "$dir/err.$h")" test $code = 0
done
check "another host takes the place" grep -q "node 1 is here again: '$name-2'" "$dir/err.1"
check "both meet" test "$(grep -c 'met 2' "$dir/out.1")" = 2
wait $pid_4

start 2 --nnodes 2 true
start 1 --nnodes 2 --nproc-per-node 1 sh -c 'echo runs; exec sleep 1000'
check "they run" wait_for eval 'test "$(grep -c runs "$dir/out.1")" = 2'
sh "$lab_script" kill $lab 1
wait $pid_2
check "node 0's host is gone" test $? = 1
check "and that is said" grep -q "node 0, '10.77.$lab.1', is lost" "$dir/err.2"
check "nothing is left there" wait_for gone 2
wait $pid_1
