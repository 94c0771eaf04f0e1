#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# halayrun on four hosts of a lab, over real ssh: a collective, a training that equals that of one host, and everything
# that can die or not answer: a bounded time, a reason with the host's name, no process left on any host. Needs root and
# an ssh server.
. "$top_srcdir/tests/lab/lib.sh"
make_lab 4

# --- what works ------------------------------------------------------------------------------------------------------
run_on_1 0 -np 5 -H "$name-[1-2]:2,fd77:$lab::3" sh \
    -c 'echo "$(hostname) $HALAY_LOCAL_RANK of $HALAY_LOCAL_SIZE"; hostname >>/tmp/mine'
printf '%s\n' "[0] $name-1 0 of 2" "[1] $name-1 1 of 2" "[2] $name-2 0 of 2" "[3] $name-2 1 of 2" "[4] $name-3 0 of 1" \
    >"$dir/want"
check "who runs where" eval 'sort "$dir/out" | diff - "$dir/want"'
check "each on its own /tmp" test "$(on 2 cat /tmp/mine | sort -u)" = "$name-2"
run_on_1 0 -np 4 --ports 40000-40099 -H "$name-3,$name-1,$name-2:2" sh -c 'echo "at $MASTER_ADDR $MASTER_PORT"'
check "one master for all, at rank 0's host" test "$(cut -d' ' -f2- "$dir/out" | sort -u)" = "at 10.77.$lab.3 40099"
run_on_1 0 -np 3 -H "$name-[1-3]" sh -c 'echo "$RANK of $WORLD_SIZE on $GROUP_RANK at $MASTER_ADDR"'
for r in 0 1 2; do
    check "an address of this host, for rank $r" grep -qE \
        "^\[$r\] $r of 3 on $r at (10\.77\.$lab\.1|fd77:$lab::1)$" "$dir/out"
done
run_on_1 0 -np 4 -H "$name-[1-4]" "$build/perf/halay-perf" allreduce -b 64K -e 1M -f 16 -n 3
check "of four hosts" out_has '4 ranks, 4 hosts'
check "and right" test "$(grep -cE ' 0$' "$dir/out")" = 2
if test -x "$build/halay-tft"; then
    on 1 "$build/halay-tft" prepare --schema "$(realpath "$top_srcdir")/data/pjm.yaml" \
        "$(realpath "$top_srcdir")/data/pjm" -o "$scratch/piece.htd" >"$dir/out" 2>&1
    for hosts in "$name-1:2" "$name-1,$name-2"; do
        run_on_1 0 -np 2 -H $hosts "$build/halay-tft" train --data "$scratch/piece.htd" --hidden-size 8 --heads 2 \
            --batch-size 32 \
            --train-samples 96 --valid-samples 32 --epochs 1 --deterministic ranks --threads 1 \
            --out "$scratch/$hosts"
    done
    check "training on two hosts and on one" cmp "$scratch/$name-1:2/model.safetensors" \
        "$scratch/$name-1,$name-2/model.safetensors"
fi

# --- an address that other hosts have, too, as with containers: somebody else listens there ---------------------------
sysctl_of_1() { on 1 sh -c "echo '$1' >/proc/sys/net/ipv4/ip_local_port_range"; }
usual=$(on 1 cat /proc/sys/net/ipv4/ip_local_port_range)
on 1 sh -c "ip address delete 10.77.$lab.1/24 dev eth0 && ip address add 172.17.0.1/16 dev eth0 &&
    ip address add 10.77.$lab.1/24 dev eth0"
on 2 ip address add 172.17.0.1/16 dev lo
on 2 "$(realpath "$probe")" squat 172.17.0.1 40000 64 "$scratch/squats" &
squatter=$!
check "somebody else listens" wait_for test -s "$scratch/squats"
sysctl_of_1 "40000 40063" # the store will have one of them
run_on_1 0 -np 2 --verbose -H "$name-[1-2]" "$(realpath "$probe")" meet
check "ranks meet all the same" test "$(grep -c 'met 2' "$dir/out")" = 2
check "by the address that only one of them has" grep -qE \
    "host '$name-2': the store is reached at (10.77.$lab.1:|\[fd77)" "$dir/err"
sysctl_of_1 "$usual"
on 1 ip address delete 172.17.0.1/16 dev eth0
on 2 sh -c "kill $(cat "$scratch/squats"); ip address delete 172.17.0.1/16 dev lo"
wait $squatter

# --- a full disk under the output files, of ranks here and elsewhere
# ---------------------------------------------------
mkdir "$scratch/small" && on 1 mount -t tmpfs -o size=64k halay-lab "$scratch/small"
run_on_1 0 -np 2 -H "$name-[1-2]" --output-filename "$scratch/small" sh \
    -c 'yes | head -c 200000; echo end >&2; touch /tmp/ended'
for r in 0 1; do
    file=$scratch/small/rank.$r/stdout
    check "rank $r's file, and why" err_has \
        "halayrun: cannot write '$file': No space left on device; the file ends here, the job continues"
    check "all that rank $r says is shown" test "$(grep -c "^\[$r\] y$" "$dir/out")" = 100000
    check "and rank $r goes on to its end" on $((r + 1)) test -e /tmp/ended
done
check "the disk is full" test "$(on 1 df --output=avail "$scratch/small" | tail -n 1)" -lt 8
on 1 umount "$scratch/small"

# --- --mpi: ssh's words reach the other hosts ------------------------------------------------------------------------
printf '#!/bin/sh\necho "$*" >>%s/called\nexec ssh "$@"\n' "$scratch" >"$scratch/ssh" && chmod +x "$scratch/ssh"
for flavour in openmpi mpich; do
    write_mpirun "$scratch/$flavour" $flavour || continue
    PATH=$scratch/$flavour:$PATH run_on_1 0 --mpi -np 2 -H "$name-[1-2]" --ssh "$scratch/ssh -o LogLevel=ERROR" -p 22 \
        -i /etc/ssh/lab_key --wdir / sh -c 'echo "$(hostname) in $PWD"; sleep 1'
    check "$flavour: both hosts, in the folder" test "$(grep -oE "$name-[12] in /$" "$dir/out" | sort -u | wc -l)" = 2
    check "$flavour: ssh's words" grep -qE -e '-o LogLevel=ERROR -p 22 -i /etc/ssh/lab_key .*'"$name-2" \
        "$scratch/called"
    rm -f "$scratch/called"
done

# --- strangers at the store's port, from another host ----------------------------------------------------------------
# They send garbage, half a handshake, a byte at a time, and hold more connections open than the store has places for
# strangers.
cat >"$scratch/strangers" <<'END'
#!/bin/bash
host=$1 port=$2 scratch=$3
for i in $(seq 40); do
    { exec 9<>/dev/tcp/$host/$port && head -c $((i * 37)) /dev/urandom >&9; } 2>/dev/null
done
exec 9<>/dev/tcp/$host/$port && { while printf x >&9; do sleep 0.2; done; } 2>/dev/null &
ulimit -n 1024
for fd in $(seq 100 499); do
    eval "exec $fd<>/dev/tcp/$host/$port" || exit 1
done
: >"$scratch/besieged"
until test -e "$scratch/met"; do sleep 0.1; done
kill %1
END
cat >"$scratch/rank" <<END
#!/bin/bash
test \$HALAY_RANK != 1 || echo "\$HALAY_STORE_ADDRESS" >$scratch/address.new &&
    mv $scratch/address.new $scratch/address 2>/dev/null
until test -e $scratch/besieged; do sleep 0.1; done
$(realpath "$probe") meet; code=\$?
: >$scratch/met
exit \$code
END
chmod +x "$scratch/strangers" "$scratch/rank"
on 1 "$halayrun" -np 3 -H "$name-[1-3]" "$scratch/rank" >"$dir/out" 2>"$dir/err" </dev/null &
front=$!
check "the store's address" wait_for test -s "$scratch/address"
address=$(cat "$scratch/address")
on 4 "$scratch/strangers" "${address%:*}" "${address##*:}" "$scratch" 2>"$dir/strangers" &
stranger=$!
check "the strangers are there" wait_for test -e "$scratch/besieged"
check "it ends" wait_for is_gone $front
kill -9 $front 2>/dev/null
wait $front 2>/dev/null
check "well" test $? = 0
check "ranks of three hosts meet in spite of them" test "$(grep -c 'met 3' "$dir/out")" = 3
check "and nobody complains" test ! -s "$dir/err"
: >"$scratch/met" # whatever has happened
wait $stranger

# --- what dies -------------------------------------------------------------------------------------------------------
sleeping() { on "$1" pgrep -f '^sleep 100[0]' 2>/dev/null; }
all_sleep() { local h; for h in 1 2 3; do test -n "$(sleeping $h)" || return 1; done; }
none_sleeps() { local h; for h in 1 2 3 4; do test -z "$(sleeping $h)" || return 1; done; }
# lose CODE TEXT COMMAND...: in the middle of a job of hosts 1 to 3, which then ends with CODE and says TEXT
command=(sleep 1000)
lose() {
    local want=$1 text=$2 code
    shift 2
    on 1 "$halayrun" -np 3 --grace 0.5 -H "$name-[1-3]" "${command[@]}" >"$dir/out" 2>"$dir/err" </dev/null &
    local front=$!
    check "$text: it begins" wait_for all_sleep
    check "$text: $*" "$@"
    check "$text: it ends" wait_for is_gone $front
    kill -9 $front 2>/dev/null
    wait $front 2>/dev/null
    code=$?
    check "$text: exit code is $code, not $want" test $code = "$want"
    test "$text" = nothing || check "$text" err_has "$text"
    check "$text: no process is left" wait_for none_sleeps
}
kill_on() { on "$1" sh -c "kill -9 \$($2)"; }
lose 137 "rank 1 (pid" kill_on 2 "pgrep -f '^sleep 100[0]'"
lose 1 "host '$name-2' (rank 1) is lost: the process that runs the job" kill_on 2 "pgrep -f '[-]-agent\$' | tail -n 1"
lose 1 "host '$name-2' (rank 1) is lost: the connection ended" kill_on 2 "pgrep -f '[-]-agent\$' | head -n 1"
lose 137 nothing kill_on 1 "pgrep -x halayrun | head -n 1"
lose 137 "was killed by SIGKILL: ending the ranks" kill_on 1 "pgrep -x halayrun-job"
# Both take ten seconds: a cable; and an agent that is stopped, whose ranks shall not stay for that.
on 1 "$halayrun" -np 1 -H "$name-4" sleep 2000 >"$scratch/stopped" 2>&1 </dev/null &
other=$!
check "it begins on host 4" wait_for eval 'on 4 pgrep -f "^sleep 200[0]" >/dev/null'
on 4 sh -c "kill -STOP \$(pgrep -f '[-]-agent\$' | tail -n 1)"
lose 1 "host '$name-3' (rank 2) is lost: it has been silent for 10 s" sh "$lab_script" link $lab 3 down
wait $other
check "exit code of a job whose agent is stopped" test $? = 1
check "which is said" grep -qF "host '$name-4' (rank 0) is lost: it has been silent for 10 s" \
    "$scratch/stopped"
check "and nothing is left of it" wait_for eval '! on 4 pgrep -f "^sleep 200[0]|[-]-agent\$" >/dev/null'
# Ranks that have lost those of a host end sooner than that; the host is named all the same.
sh "$lab_script" link $lab 3 up
command=(sh \
    -c 'sleep 1000 & test $HALAY_RANK = 2 || { until test -e "$0"; do sleep 0.1; done; sleep 3; exit 5; }; wait' \
    "$scratch/cut")
cut() { sh "$lab_script" link $lab 3 down && : >"$scratch/cut"; }
lose 1 "host '$name-3' (rank 2) is lost: it has been silent for 3 s, and ranks elsewhere have lost it" cut
sh "$lab_script" link $lab 3 up

# --- a key that is not taken -----------------------------------------------------------------------------------------
on 3 sh -c ': >/etc/ssh/lab_key.pub'
run_on_1 1 -np 2 -H "$name-[2-3]" true
check "which host, and ssh's reason" grep -qE "host '$name-3': .*Permission denied \(publickey" "$dir/err"
check "what helps" err_has "install one with ssh-copy-id"
check "the other would have come" err_has "1 of 2 hosts cannot be started: no rank was started"

# --- who does not answer ---------------------------------------------------------------------------------------------
sh "$lab_script" kill $lab 4
sh "$lab_script" sshd $lab 3 stop
on 1 sed -i "/^$name-2,/s/ AAAA[^ ]*/ AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA/" \
    /etc/ssh/ssh_known_hosts
for time in 2 8 32; do # until one of them is enough for this machine: all but the host that is gone have answered
    run_on_1 1 -np 5 --start-timeout $time -H "$name-[1-4],nobody" true
    test "$(grep -c ': it does not answer' "$dir/err")" -gt 1 || break
done
check "another host's key" err_has \
    "host '$name-2': Host key verification failed. (is its key known here, and unchanged?"
check "no server" err_has "host '$name-3': ssh: connect to host $name-3 port 22: Connection refused"
check "a host that is gone" grep -qE "host '$name-4': (it does not answer|ssh: connect to host $name-4 port 22: )" \
    "$dir/err"
check "a name that is none" err_has "host 'nobody': ssh: Could not resolve hostname nobody"
check "how many" err_has "4 of 4 hosts cannot be started: no rank was started"
