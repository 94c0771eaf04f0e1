#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Data between two hosts of a lab by TCP, with neither UCX nor MPI, as with a wheel: the same results as on one host,
# and the networks on which users of other libraries get stuck: a bridge with the same address on both hosts, a second
# network that is dead, a host whose name is 127.0.1.1 to itself, IPv6 only, a scanner of ports. Needs root and an ssh
# server.
. "$top_srcdir/tests/lab/lib.sh"

make_lab 2
export HALAY_MODULE_PATH=$scratch
hosts="-H $name-1,$name-2"
group="$build/perf/halay-perf allreduce -b 64K -e 1M -f 16 -n 3"
sums="$build/examples/linear"

# two_hosts WHAT OPTIONS...: collectives and the engine, both without a word of complaint
two_hosts() {
    local what=$1
    shift
    run_on_1 0 $hosts "$@" $group
    check "$what: two hosts" out_has '2 ranks, 2 hosts'
    check "$what: right" test "$(grep -cE ' 0$' "$dir/out")" = 2
    check "$what: collectives without a warning" eval '! grep -hiE "warning|error" "$dir/err"'
    run_on_1 0 $hosts "$@" $sums
    check "$what: the engine without a warning" eval '! grep -hiE "warning|error" "$dir/err"'
}

run_on_1 0 $hosts -x HALAY_LOG=info $group
check "no module is needed" err_has '2 hosts), bootstrap store, data over tcp'
two_hosts "plain"
sort "$dir/out" >"$dir/between"
two_hosts "encrypted" --encrypt 1
sort "$dir/out" >"$dir/encrypted"
check "and the same result" cmp "$dir/encrypted" "$dir/between"
run_on_1 0 -np 2 $sums
check "the engine's result is that of one host" eval 'sort "$dir/out" | cmp - "$dir/between"'

# as a container's bridge: the same address on both hosts, and something in it that is up
for h in 1 2; do
    on $h sh -c "ip link add docker0 type bridge &&
        ip address add 172.17.0.1/16 dev docker0 && ip link set docker0 up &&
        ip link add c0 type veth peer name c1 && ip link set c0 master docker0 up && ip link set c1 up" ||
        skip "bridges cannot be made here"
done
two_hosts "a bridge with the same address"

# a second network of one prefix on both hosts whose cable leads nowhere
for h in 1 2; do
    on $h sh -c "ip link add dead type veth peer name end && ip link set end up &&
        ip address add 10.66.0.$h/24 dev dead && ip link set dead up"
done
two_hosts "a network that is dead"
two_hosts "a network by its prefix" --network-interface 10.99.0.0/16,10.77.$lab.0/24

# Debian's installer writes such a line.
on 1 sh -c "printf '127.0.1.1 $name-1\n' >/dev/shm/hosts && grep -v ' $name-1\$' /etc/hosts >>/dev/shm/hosts &&
    cat /dev/shm/hosts >/etc/hosts"
check "the name is a loopback's" eval 'on 1 getent hosts $name-1 | grep -q 127.0.1.1'
two_hosts "a name that is 127.0.1.1"

# everything that listens on host 1 is called and told nonsense, again and again
on 2 bash -c "while :; do
    for port in \$(seq 21000 21009); do
        { printf 'GET / HTTP/1.0\r\n\r\n' >/dev/tcp/10.77.$lab.1/\$port; } 2>/dev/null
    done
done" &
scanner=$!
echo $scanner >>"$dir/pids"
two_hosts "a scanner of ports" --ports 21000-21009
kill $scanner

for h in 1 2; do on $h ip -4 address flush dev eth0; done
hosts="-H $name-1.v6,$name-2.v6"
two_hosts "IPv6 only"
two_hosts "IPv6 by its prefix" --network-interface fd77::/16
