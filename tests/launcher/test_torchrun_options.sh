#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What torchrun's users look for: --nproc-per-node, --max-restarts, --show-ranks, and its command line's other words.
# fake_ssh plays other hosts.
. "$top_srcdir/tests/launcher/lib.sh" || exit 99

fake=$top_srcdir/tests/launcher/fake_ssh
case $fake in /*) ;; *) fake=$PWD/$fake ;; esac
here=$(hostname)
has_line() { grep -qxF -e "$1" "$dir/out"; }

# --- --nproc-per-node ------------------------------------------------------------------------------------------------
run 0 --nproc-per-node 3 sh -c 'echo $RANK/$WORLD_SIZE'
check "three here" has_line "[2] 2/3"
run 0 --nproc_per_node=auto sh -c 'echo $WORLD_SIZE'
check "auto: at least one" grep -qE '^\[0\] [1-9]' "$dir/out"
run 0 --nproc-per-node 2 --ssh "$fake" -H "$here,one:7" sh -c 'echo $LOCAL_RANK/$LOCAL_WORLD_SIZE of $WORLD_SIZE'
check "two of each host, whatever its slots" test "$(cut -c5- "$dir/out" | sort | tr '\n' ,)" \
    = "0/2 of 4,0/2 of 4,1/2 of 4,1/2 of 4,"
run 0 --nproc-per-node 2 -np 3 --ssh "$fake" -H "$here,one" sh -c 'echo $LOCAL_RANK of $WORLD_SIZE'
check "fewer in all" test "$(cut -c5- "$dir/out" | sort | tr '\n' ,)" = "0 of 3,0 of 3,1 of 3,"
run 2 --nproc-per-node 2 -np 3 true
check "more than one host takes" err_has 'option -np: 3 ranks on one host, and --nproc-per-node allows 2'
run 2 --nproc-per-node few true
check "no number" err_has "option --nproc-per-node: 'few' is neither auto, gpu, cpu nor a whole number"
SLURM_JOB_NODELIST=$here SLURM_TASKS_PER_NODE=5 run 0 --nproc-per-node 2 sh -c 'echo $WORLD_SIZE'
check "in place of a batch job's number" has_line "[0] 2"
run 2 --nproc-per-node 2 --mpi --mpi-flavour openmpi4 --dry-run true
check "not with --mpi" err_has 'option --nproc-per-node: with --mpi give -np'

# --- torchrun's words ------------------------------------------------------------------------------------------------
printf 'import os, sys\nprint(os.environ["RANK"], *sys.argv[1:])\n' >"$dir/train.py"
python=$(command -v python3)
if test -n "$python"; then
    here_run() { # CODE ARGS...: in that folder
        local want=$1 code
        shift
        (cd "$dir" && exec "$launcher" "$@") >"$dir/out" 2>"$dir/err" </dev/null
        code=$?
        check "exit code of halayrun $* is $code, not $want" test $code = "$want"
    }
    launcher=$(realpath "$halayrun")
    here_run 0 --standalone --nnodes=1 --nproc-per-node=2 train.py --epochs 3
    check "a file that ends in .py, in this folder" test "$(sort "$dir/out" | tr '\n' ,)" = \
        '[0] 0 --epochs 3,[1] 1 --epochs 3,'
    here_run 0 -np 1 ./train.py
    check "by its path" has_line "[0] 0"
    run 0 -np 1 --wdir "$dir" train.py
    check "where the ranks start" has_line "[0] 0"
    here_run 0 -np 1 -m train x
    check "a module" has_line "[0] 0 x"
    here_run 127 -np 1 --no-python train.py
    here_run 2 -np 1 --no-python -m train
    check "one of them" err_has '--module and --no-python'
    printf '#!/bin/sh\necho its own\n' >"$dir/run.py"
    chmod +x "$dir/run.py"
    run 0 -np 1 "$dir/run.py"
    check "one that can be run is run" has_line "[0] its own"
    run 0 --standalone --rdzv-backend c10d --rdzv_id=1 --monitor-interval 5 --start-method=spawn -t 3 --log-dir \
        "$dir/logs" -np 1 --tee 3 sh -c 'echo line'
    check "words without effect are accepted in silence" test ! -s "$dir/err"
    check "--log-dir has the lines" grep -qx line "$dir/logs/rank.0/stdout"
    run 0 -np 1 --redirects 3 --log-dir "$dir/hidden" sh -c 'echo line'
    check "only there" eval 'test ! -s "$dir/out" && grep -qx line "$dir/hidden/rank.0/stdout"'
else
    echo "skipped: programs of Python (no python3)"
fi
run 0 -np 1 --rdzv-conf join_timeout=60 --role trainer true
check "what has no effect, and why" err_has '--start-timeout SECONDS is the time that nodes wait'
while read -r words advice; do
    # shellcheck disable=SC2086 # two words
    run 2 -np 1 ${words/=/ } true
    check "$words: what to write" err_has "$advice"
done <<'END'
--redirects=1 write --output-filename DIR
--local-ranks-filter=0 write --show-ranks LIST
--local-addr=a write --network-interface NETWORK
--logs-specs=x write --output-filename DIR
--nnodes=1:4 say where they meet, --join HOST
--nnodes=4:1 a range like 2:4
--nnodes=x nor a range like 2:4
END
run 0 --nnodes 1:1 --nproc-per-node cpu sh -c 'echo $WORLD_SIZE'
check "a range of one, a rank for each core" grep -qE '^\[0\] [1-9]' "$dir/out"
if ! test -e /proc/driver/nvidia && ! test -e /dev/nvidia0; then
    run 2 --nproc-per-node gpu true
    check "no GPU" err_has 'option --nproc-per-node gpu: no GPU is found on this host'
fi

# --- --show-ranks ----------------------------------------------------------------------------------------------------
run 0 -np 5 --show-ranks 0,3-4 --output-filename "$dir/files" sh -c 'echo "out $RANK"; echo "err $RANK" >&2'
check "these, on standard output" test "$(sort "$dir/out" | tr '\n' ,)" = '[0] out 0,[3] out 3,[4] out 4,'
check "and error" test "$(sort "$dir/err" | tr '\n' ,)" = '[0]! err 0,[3]! err 3,[4]! err 4,'
check "the others' files are whole" test "$(cat "$dir/files/rank.2/stdout" "$dir/files/rank.1/stderr")" = "out 2
err 1"
run 0 -np 2 --show-ranks none --output-filename "$dir/files" sh -c 'echo "hidden $RANK"'
check "nothing is shown" test ! -s "$dir/out" -a ! -s "$dir/err"
check "it is in the files" grep -qx 'hidden 1' "$dir/files/rank.1/stdout"
run 4 -np 2 --show-ranks 0 sh -c 'test $RANK = 0 || { echo because >&2; exit 4; }'
check "a failure is explained all the same" err_has 'halayrun:   | because'
for bad in '' x 1- 3-1 0,,1 ',' -1; do
    run 2 -np 4 --show-ranks "$bad" true
    check "'$bad'" err_has "option --show-ranks: '$bad' is not a list of ranks like 0,3-5"
done
run 2 -np 2 --show-ranks 0-2 true
check "a rank that is not there" err_has "option --show-ranks: '0-2' names a rank that is not there; the last one is 1"

# --- --max-restarts --------------------------------------------------------------------------------------------------
cat >"$dir/try" <<'END'
#!/bin/sh
echo "try $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS, rank $RANK at $MASTER_PORT $(cat)"
echo "$HALAY_STORE_ADDRESS" >>"$0.stores"
tail -c +1 "/proc/self/fd/$HALAY_STORE_SECRET_FD" | sha256sum >>"$0.secrets"
: >"$0.$RANK.$TORCHELASTIC_RESTART_COUNT"
until test -e "$0.0.$TORCHELASTIC_RESTART_COUNT"; do sleep 0.05; done # rank 0 has said its line
test "$TORCHELASTIC_RESTART_COUNT" -ge "$1" || test "$RANK" != 1 || exit $((3 + TORCHELASTIC_RESTART_COUNT))
END
chmod +x "$dir/try"
echo typed | "$halayrun" -np 2 --max-restarts 3 --output-filename "$dir/tries" "$dir/try" 2 >"$dir/out" 2>"$dir/err"
check "the third one succeeds" test $? = 0
check "each was said" test "$(grep -c '^halayrun: restart [12] of 3: all ranks are started again in 0\.[12] s$' \
    "$dir/err")" = 2
check "and why" test "$(grep -cE '^halayrun: rank 1 .* ended with exit code [34]$' "$dir/err")" = 2
check "all ranks" test "$(sort "$dir/out" | sed 's/ at.*//' | tr '\n' ,)" = "$(for r in 0 1; do
    for t in 0 1 2; do printf '[%s] try %s of 3, rank %s,' $r $t $r; done
done)"
check "only the first one reads standard input" test "$(grep -c typed "$dir/out")" = 1
check "a secret each" test "$(sort -u "$dir/try.secrets" | wc -l)" = 3
check "files have all tries" test "$(grep -c '^try' "$dir/tries/rank.1/stdout")" = 3
run 5 -np 2 --max-restarts 2 "$dir/try" 9
check "the last one's exit code" test "$(grep -c 'restart' "$dir/err")" = 2
run 3 -np 2 "$dir/try" 9
check "none unless it is asked for" eval '! err_has restart'
run 137 -np 2 --max-restarts 1 sh -c 'test $RANK = 0 || kill -9 $$; exec sleep 100'
check "after a signal, too" err_has 'restart 1 of 1'
rm -f "$dir/try."*
run 0 -np 3 --max-restarts 1 --ssh "$fake" -H "one:1,$here:1,two:1" "$dir/try" 1
check "other hosts again" test "$(grep -c 'try 1 of 1' "$dir/out")" = 3
run 127 -np 2 --max-restarts 3 there-is-no-such-program
check "what never started" eval '! err_has restart'
"$halayrun" -np 2 --max-restarts 3 sh -c 'echo $$ >>"$0"; exec sleep 1000' "$dir/pids" >"$dir/out" 2>"$dir/err" \
    </dev/null &
front=$!
check "two run" wait_for has_lines 2 "$dir/pids"
kill -TERM $front
wait $front
check "told to stop: exit code $?" test $? = 143
check "and nothing begins again" eval '! err_has restart'
"$halayrun" -np 1 --max-restarts 1 sh -c 'echo $$ >>"$0"; test $TORCHELASTIC_RESTART_COUNT = 1 || exit 1
    exec sleep 1000' "$dir/pids" >"$dir/out" 2>"$dir/err" </dev/null &
front=$!
check "a second start runs" wait_for has_lines 4 "$dir/pids"
kill -TERM $front
wait $front
check "and stops like the first" test $? = 143
check "nothing is left" wait_for all_gone
# In a pause: a longer one where the machine is too slow to catch a short one.
for pause in "3 of 9: all ranks are started again in 0.4 s" "5 of 9: all ranks are started again in 1.6 s" \
    "9 of 9: all ranks are started again in 5 s"; do
    "$halayrun" -np 1 --max-restarts 9 sh -c 'exit 3' >"$dir/out" 2>"$dir/err" </dev/null &
    front=$!
    check "restart $pause" wait_for err_has "restart $pause"
    kill -TERM $front
    wait $front
    code=$?
    ! err_has "SIGTERM: no restart" || break
done
check "told to stop between two starts" err_has "SIGTERM: no restart"
check "exit code $code" test $code = 143
run 1 -np 2 --min-np 2 --max-restarts 1 sh -c 'exit 1'
check "an elastic job, too" err_has 'restart 1 of 1'
