#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Two hosts of a lab that each have networks which the other can't reach: a bridge with a running container, of the same
# address on both, and a second card on a network of its own. Data over UCX take the network that the ranks' connections
# take, however the job was started, and no line warns of another one. Needs root, an ssh server and UCX.
. "$top_srcdir/tests/lab/lib.sh"

test -e "$build/.libs/libhalay-ucx.so" || skip "built without UCX"
export HALAY_TRANSPORT=ucx
make_lab 2

# add_networks HOST: the bridge is up because something is in it that is up. UCX looks for networks in /sys, which must
# be this host's.
add_networks() {
    on "$1" sh -c "
        mount -t sysfs halay-lab /sys &&
        ip link add docker0 type bridge && ip address add 172.17.0.1/16 dev docker0 && ip link set docker0 up &&
        ip link add c0 type veth peer name c1 && ip link set c0 master docker0 up && ip link set c1 up &&
        ip link add eth9 type veth peer name far && ip link set far up &&
        ip address add 10.$1.0.$1/24 dev eth9 && ip link set eth9 up" || skip "bridges cannot be made here"
}
add_networks 1
add_networks 2

# all_ranks HOSTS VARIABLES... -- COMMAND...: started with halay's variables alone
all_ranks() {
    local hosts=$1 code=0 variables=()
    shift
    while test "$1" != --; do
        variables+=("$1")
        shift
    done
    shift
    timeout 200 env "${variables[@]}" "$build/tests/lab/start" $lab $hosts "$@" >"$dir/out" 2>"$dir/err" || code=$?
    check "exit code of $* with ${variables[*]} is $code" test $code = 0
}
quiet() { check "nothing is said" eval '! grep -hE "WARN|ERROR|warning|error" "$dir/out" "$dir/err"'; }
group="$build/perf/halay-perf allreduce -b 64K -e 64K -n 1"

all_ranks 1,1,2 -- "$build/examples/linear"
quiet
all_ranks 1,2,2 -- $group
check "two hosts" out_has '3 ranks, 2 hosts'
quiet
# A list names the network of each host, and may name others.
on 2 ip link set eth0 down && on 2 ip link set eth0 name net2 && on 2 ip link set net2 up
all_ranks 1,2 HALAY_NETWORK_INTERFACE=eth0,net2 HALAY_PORTS=21000-21009 -- $group
quiet
run_on_1 0 -H "$name-1,$name-2" "$build/examples/linear"
quiet
# A network that the others can't reach: the text says what to do.
all_ranks 1,2 -- sh -c "UCX_NET_DEVICES=eth9 $group || test \$? = 1"
check "what to do" err_has 'HALAY_NETWORK_INTERFACE'
