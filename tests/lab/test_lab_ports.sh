#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# halayrun on three hosts of a lab whose firewalls let through ssh and twenty ports of one network: with
# --network-interface and --ports a job of several hosts starts and computes; nothing of it listens anywhere else. Then
# one port a host, and one more for the store. Needs root, an ssh server and nftables.
. "$top_srcdir/tests/lab/lib.sh"

PATH=$PATH:/usr/sbin:/sbin
command -v nft >/dev/null || skip "no nft (nftables), which makes firewalls"
make_lab 3

# No state is kept: what begins a connection elsewhere is dropped, what belongs to one passes.
cat >"$dir/rules" <<'END'
table inet firewall {
    chain in {
        type filter hook input priority 0; policy drop;
        iifname "lo" accept
        meta l4proto ipv6-icmp accept
        tcp flags & (syn | ack) != syn accept
        tcp dport 22 accept
        iifname "eth0" tcp dport 21000-21019 accept
    }
}
END
for h in 1 2 3; do
    on $h sh -c "ip link add other type bridge && ip address add 10.78.$lab.$h/24 dev other && ip link set other up"
    on $h nft -f /dev/stdin <"$dir/rules" ||
        skip "firewalls cannot be made in namespaces here"
done

hosts="-H $name-1:2,$name-2:2,$name-3"
run_on_1 1 $hosts "$(realpath "$probe")" meet
check "the firewall holds" err_has "cannot reach halayrun's store"
allowed="--network-interface eth0 --ports 21000-21019"
run_on_1 0 $hosts $allowed "$(realpath "$probe")" meet
check "all meet" test "$(grep -c 'met 5' "$dir/out")" = 5
run_on_1 0 $hosts $allowed "$build/perf/halay-perf" allreduce -b 64K -e 1M -f 16 -n 3
check "five ranks on three hosts" out_has '5 ranks, 3 hosts'
check "and right" test "$(grep -cE ' 0$' "$dir/out")" = 2
run_on_1 0 $hosts $allowed "$build/examples/linear"
check "the engine, too" test -s "$dir/out"
# What listens while a job runs: the store, on host 1.
run_on_1 0 $hosts $allowed sh \
    -c 'test $HALAY_RANK != 0 || ss -Hltn | while read -r state one two address rest; do echo "at $address"; done'
check "the store listens there" grep -qE "at 10\.77\.$lab\.1:210[01][0-9]\$" "$dir/out"
check "nothing else does" eval '! grep -vE " at (10\.77\.$lab\.1:210[01][0-9]|.*:22)\$" "$dir/out"'
run_on_1 1 $hosts --network-interface nothing "$(realpath "$probe")" meet
check "there is no such network" err_has \
    "this host has no address in network 'nothing'; it has: lo 127.0.0.1, eth0 10.77.$lab.1"
run_on_1 1 $hosts --network-interface 10.9.0.0/16 "$(realpath "$probe")" meet
check "there is no such address" err_has \
    "this host has no address in network '10.9.0.0/16'; it has: lo 127.0.0.1, eth0 10.77.$lab.1"
run_on_1 2 $hosts --network-interface 10.9.0.0/33 true
check "no prefix" err_has "'10.9.0.0/33' is not a list of networks"
run_on_1 1 $hosts --network-interface eth0 --ports 22 "$(realpath "$probe")" meet
check "no port is free" err_has 'none of the ports 22-22 is free'
run_on_1 2 $hosts --ports 21019-21000 true
check "no range" err_has "'21019-21000' is not a range of ports from 1 to 65535"

# The ranks of a host share a port: one is enough on each, and the store's on the first. Each rank has something for
# each other one.
sed -i 's/21000-21019/21000/' "$dir/rules"
for h in 2 3; do on $h sh -c 'nft flush ruleset; nft -f /dev/stdin' <"$dir/rules"; done
sed -i 's/21000/21000-21001/' "$dir/rules"
on 1 sh -c 'nft flush ruleset; nft -f /dev/stdin' <"$dir/rules"
one="-H $name-1:2,$name-2:2,$name-3:2 --network-interface eth0 --ports 21000-21001 --transport tcp"
run_on_1 0 $one "$build/perf/halay-perf" alltoall -b 64K -e 1M -f 16 -n 3
check "six ranks by one port a host" out_has '6 ranks, 3 hosts'
check "and right" test "$(grep -cE ' 0$' "$dir/out")" = 2
run_on_1 0 $one "$build/examples/linear"
check "the engine by one port a host" test -s "$dir/out"
run_on_1 1 ${one/21001/21000} "$build/examples/linear"
check "the first host needs two" err_has 'none of the ports 21000-21000 is free'
