#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The variables by which Python programs know a job, RANK and its kin: on one host, on several that fake_ssh plays,
# inside other launchers' jobs, and a program that meets by them (with PyTorch, if it is there).
. "$top_srcdir/tests/launcher/lib.sh" || exit 99
needs python3

fake=$top_srcdir/tests/launcher/fake_ssh
case $fake in /*) ;; *) fake=$PWD/$fake ;; esac
here=$(hostname)
has_line() { grep -qxF -e "$1" "$dir/out"; }
tell='echo "$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE $NODE_RANK"'

# --- one host --------------------------------------------------------------------------------------------------------
run 0 -np 2 sh -c "$tell; echo at \$MASTER_ADDR:\$MASTER_PORT"
check "rank 0" has_line "[0] 0/2 0/2 0/1 0"
check "rank 1" has_line "[1] 1/2 1/2 0/1 0"
check "one master for both" test "$(grep -cE '^\[.\] at 127\.0\.0\.1:[0-9]+$' "$dir/out") $(grep at "$dir/out" |
    cut -d' ' -f2- | sort -u | wc -l)" = "2 1"
RANK=3 WORLD_SIZE=4 LOCAL_RANK=3 LOCAL_WORLD_SIZE=4 MASTER_ADDR=10.0.0.9 MASTER_PORT=1 GROUP_RANK=2 ROLE_RANK=1 \
    TORCHELASTIC_RUN_ID=x TORCHELASTIC_USE_AGENT_STORE=True run 0 --nnodes 1 -np 1 sh -c "$tell
    echo \"\$MASTER_ADDR,\$ROLE_RANK\$TORCHELASTIC_RUN_ID\$TORCHELASTIC_USE_AGENT_STORE\"; test \$MASTER_PORT != 1"
check "nothing of an outer torchrun" has_line "[0] 0/1 0/1 0/1 0"
check "none of it" has_line "[0] 127.0.0.1,"
run 0 -np 1 "$halayrun" -np 2 sh -c "$tell"
check "a job in a job" has_line "[0] [1] 1/2 1/2 0/1 0"
check "is no torchrun's" test ! -s "$dir/err"
run 0 -np 1 "$halayrun" --explain
check "nor explained as one" out_has 'recognised: nothing'
run 0 -np 1 -x MASTER_ADDR=node7 -x MASTER_PORT=29500 sh -c 'echo $MASTER_ADDR:$MASTER_PORT'
check "the user's master" has_line "[0] node7:29500"
for name in RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK NODE_RANK; do
    run 2 -np 1 -x $name=3 true
    check "-x $name" err_has "$name differs from rank to rank and is set by halayrun"
done
run 0 -np 1 --ports 40000-40009 sh -c 'echo $MASTER_PORT'
check "a port of the user's" grep -qE '^\[0\] 4000[0-9]$' "$dir/out"
run 0 -np 1 --dry-run true
check "a dry run names them" out_has 'MASTER_ADDR, MASTER_PORT'
HALAY_BOOTSTRAP=auto run 2 -np 2 env -u HALAY_STORE_ADDRESS "$top_builddir/perf/halay-perf" allreduce -e 1K -n 1
check "a rank that lost its store knows whose it is" err_has 'halayrun has started this process as one of 2'

# --- several hosts ---------------------------------------------------------------------------------------------------
own=$(hostname -I 2>/dev/null) # of ours; another host reaches one of them
is_own() { case " $own ::1 127.0.0.1 " in *" $1 "*) ;; *) return 1 ;; esac; }
run 0 -np 4 --ssh "$fake" -H "$here:1,one:1,two:2" sh -c "$tell; echo at \$MASTER_ADDR \$MASTER_PORT"
check "rank 0 here" has_line "[0] 0/4 0/1 0/3 0"
check "rank 1 on the second host" has_line "[1] 1/4 0/1 1/3 1"
check "rank 3 on the third" has_line "[3] 3/4 1/2 2/3 2"
check "an address of this host" is_own "$(sed -n 's/^\[3\] at \(.*\) .*/\1/p' "$dir/out")"
check "one port for all" test "$(awk '$2 == "at" { print $4 }' "$dir/out" | sort | uniq -c | sed 's/ *//;s/ .*//')" = 4
MASTER_ADDR=10.0.0.9 RANK=5 run 0 -np 3 --ssh "$fake" -H "one:1,$here:1,two:1" --ports 40000-40009 \
    sh -c "$tell; echo at \$MASTER_ADDR \$MASTER_PORT"
check "rank 0 there" has_line "[0] 0/3 0/1 0/3 0"
check "rank 1 here" has_line "[1] 1/3 0/1 1/3 1"
check "rank 2 on the third" has_line "[2] 2/3 0/1 2/3 2"
check "all have rank 0's word" test "$(grep at "$dir/out" | cut -d' ' -f2- | sort | uniq -c | sed 's/ *//;s/ .*//')" = 3
check "which names that host" is_own "$(sed -n 's/^\[1\] at \(.*\) .*/\1/p' "$dir/out")"
check "and a port that is allowed" grep -qE ' 4000[0-9]$' "$dir/out"
run 127 -np 2 --ssh "$fake" -H "one:1,$here:1" there-is-no-such-program
run 1 -np 2 --ssh "$fake" -H "one:1,$here:1" --wdir /tmp/there/is/none true
run 0 -np 2 --ssh "$fake" -H "one:1,two:1" -x MASTER_ADDR=node7 sh -c 'echo $MASTER_ADDR'
check "the user's master, everywhere" test "$(grep -c node7 "$dir/out")" = 2

# --- elastic ---------------------------------------------------------------------------------------------------------
run 0 --min-np 1 -np 2 sh -c "test \$HALAY_ELASTIC = 0 && $tell"
check "as in any job, at first" has_line "[1] 1/2 1/2 0/1 0"

# --- programs that meet by them --------------------------------------------------------------------------------------
cat >"$dir/meet.py" <<'END'
import os, socket, sys, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
at = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(("", at[1])) as server:
        for _ in range(size - 1):
            with server.accept()[0] as peer:
                peer.sendall(b"hello")
else:
    end = time.monotonic() + 60
    while True:
        try:
            with socket.create_connection(at, 5) as peer:
                print("met", peer.recv(5).decode())
            break
        except OSError:
            if time.monotonic() > end:
                sys.exit("nobody listens")
            time.sleep(0.05)
END
run 0 -np 3 python3 "$dir/meet.py"
check "on one host" test "$(grep -c 'met hello' "$dir/out")" = 2
run 0 -np 3 --ssh "$fake" -H "one:1,$here:1,two:1" python3 "$dir/meet.py"
check "on three" test "$(grep -c 'met hello' "$dir/out")" = 2
cat >"$dir/gloo.py" <<'END'
import torch, torch.distributed as dist
dist.init_process_group("gloo")
sum = torch.ones(3) * (dist.get_rank() + 1)
dist.all_reduce(sum)
print("sum", sum.tolist())
END
python=
for python in python3 /usr/bin/python3; do
    "$python" -c 'import importlib.util, sys; sys.exit(not importlib.util.find_spec("torch"))' && break
    python=
done
if test -n "$python"; then
    GLOO_SOCKET_IFNAME=lo run 0 -np 2 "$python" "$dir/gloo.py"
    check "init_process_group by env://" test "$(grep -cF 'sum [3.0, 3.0, 3.0]' "$dir/out")" = 2
else
    echo "skipped: no torch"
fi
