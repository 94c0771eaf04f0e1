#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A SLURM of four nodes in a lab, with its own munge: examples/slurm/train.sbatch as it stands, the agents' steps for
# longer than the silence that a host is given up after, scancel with all processes told at once, srun as the MPI's
# launcher, and srun alone. Skipped where there is no SLURM (Debian: slurm-wlm munge, from 20.11 on); needs root.
. "$top_srcdir/tests/lab/lib.sh"

PATH=$PATH:/usr/sbin:/sbin
for tool in slurmctld slurmd sbatch munged; do
    command -v $tool >/dev/null || skip "no $tool; Debian's packages slurm-wlm and munge have it"
done
make_lab 4

# --- the cluster -----------------------------------------------------------------------------------------------------
chmod 755 "$scratch"
head -c 128 /dev/urandom >"$scratch/munge.key"
chmod 600 "$scratch/munge.key"
cat >"$scratch/slurm.conf" <<END
ClusterName=$name
SlurmctldHost=$name-1
SlurmUser=root
AuthType=auth/munge
StateSaveLocation=/run/slurm/state
SlurmdSpoolDir=/run/slurm/spool
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
KillWait=20
NodeName=$name-[1-4] CPUs=32 State=UNKNOWN
PartitionName=lab Nodes=ALL Default=YES State=UP
END
cat >"$scratch/node" <<'END'
mkdir -p -m 755 /run/munge /run/slurm/state /run/slurm/spool && chmod 755 /run && cp "$1/munge.key" /run/munge/key &&
    munged --force --key-file=/run/munge/key --pid-file=/run/munge/pid --log-file=/run/munge/log \
        --seed-file=/run/munge/seed || exit
[ "$(hostname)" != "$2" ] || slurmctld || exit
slurmd -N "$(hostname)"
END
export SLURM_CONF=$scratch/slurm.conf
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
for host in 1 2 3 4; do
    sh "$lab_script" enter $lab $host sh "$scratch/node" "$scratch" $name-1 >"$dir/err" 2>&1
    check "a node starts" test $? = 0
done

# halay-tft stands for a program here: it says what it was called with, and ends well when it is told, like the real
# one.
mkdir "$scratch/bin" "$scratch/job" "$scratch/home" && ln -s "$build/launcher/halayrun" "$scratch/bin/halayrun"
cat >"$scratch/bin/halay-tft" <<'END'
#!/bin/sh
trap 'echo "$HALAY_RANK got USR1"; exit 0' USR1
trap 'sleep 0.5; echo "$HALAY_RANK stopped"; exit 0' TERM
echo "$HALAY_RANK of $HALAY_SIZE on $(hostname): $1 $6"
while :; do sleep 0.1; done
END
chmod +x "$scratch/bin/halay-tft"
# on_1 COMMAND...: where users of the cluster are
on_1() { (cd "$scratch/job" && timeout 200 sh "$lab_script" enter $lab 1 env PATH="$scratch/bin:$PATH" \
    HOME="$scratch/home" "$@" </dev/null); }
submit() { on_1 sbatch --parsable "$(realpath "$top_srcdir")/examples/slurm/train.sbatch" 2>"$dir/err"; }
log_has() { test "$(grep -cE "$2" "$scratch/job/tft-$1.log")" = "$3"; }
has_ended() { on_1 scontrol show job "$1" | grep -q "JobState=$2"; }
check "all nodes are there" wait_for eval 'test "$(on_1 sinfo -h -t idle -o %D)" = 4'

# --- the example -----------------------------------------------------------------------------------------------------
job=$(submit)
check "eight ranks" wait_for log_has "$job" " of 8 on $name-[1-4]: train --resume$" 8
began=$(date +%s)
check "on four nodes" test "$(grep -o "on $name-[1-4]" "$scratch/job/tft-$job.log" | sort | uniq -c | tr -d ' \n')" = \
    "2on$name-12on$name-22on$name-32on$name-4"

# --- beside it: by hand ----------------------------------------------------------------------------------------------
# in_job ARGS...: halayrun in an allocation of its own, whose variables would spoil agents' steps
in_job() {
    on_1 env SLURM_LABELIO=1 SRUN_CPUS_PER_TASK=1 salloc --quiet -N 3 -n 5 halayrun "$@" >"$dir/out" 2>"$dir/err"
    check "halayrun $* in salloc" test $? = 0
}
in_job "$build/tests/launcher/world_probe"
check "five ranks make one world" test "$(grep -c 'of 5' "$dir/out")" = 5
# On a busy machine one of twenty MPI_Init of Open MPI 4.1 dies here: its btl_tcp calls the handler of a message before
# there is one, a null pointer; what it prints is that, or that a connection was lost.
if ! third_party "MPI_Init under srun"; then
    :
elif test -e "$build/.libs/libhalay-mpi.so" && on_1 srun --mpi=list 2>&1 | grep -q pmix; then
    in_job --mpi-flavour srun "$build/tests/launcher/world_probe"
    check "srun's ranks make one world" test "$(grep -c 'of 5' "$dir/out")" = 5
else
    echo "skipped: this SLURM has no PMIx, or halay no MPI"
fi
library=$build/.libs/libhalay.so.1
if ldd "$library" | grep -q libasan; then
    echo "skipped: an interpreter cannot load a sanitizer's library"
elif ! /usr/bin/python3 -c 'import importlib.util, sys; sys.exit(not importlib.util.find_spec("torch"))'; then
    echo "skipped: no /usr/bin/python3 has torch"
else
    on_1 env HALAY_LIBRARY="$library" PYTHONPATH="$(realpath "$top_srcdir")/python" srun -N 2 -n 2 /usr/bin/python3 \
        "$(realpath "$top_srcdir")/tests/python/torch_start.py" "$scratch/job/store" >"$dir/out" 2>"$dir/err"
    check "srun starts ranks of torch.distributed" test "$(grep -c 'of 2 met' "$dir/out")" = 2
fi
# --- srun alone ------------------------------------------------------------------------------------------------------
on_1 srun -N 3 -n 4 "$build/tests/launcher/world_probe" 2 >"$dir/out" 2>"$dir/err"
check "tasks of three nodes make one job, twice" test "$?:$(grep -c 'of 4' "$dir/out")" = 0:8
on_1 srun -N 2 -n 4 --distribution=cyclic sh -c 'for i in 1 2 3; do "$0"; done' "$build/tests/launcher/world_probe" \
    >"$dir/out" 2>"$dir/err"
check "and so do three programs of a step: $(cat "$dir/err")" test "$(grep -c 'of 4' "$dir/out")" = 12
on_1 salloc --quiet -N 4 srun -N 2 -n 2 --relative=2 "$build/tests/launcher/world_probe" >"$dir/out" 2>"$dir/err"
check "and a step of an allocation's last nodes: $(cat "$dir/err")" test "$(grep -c 'of 2' "$dir/out")" = 2
on_1 srun -N 2 -n 2 --distribution=arbitrary --nodelist=$name-3,$name-2 "$build/tests/launcher/world_probe" \
    >"$dir/out" 2>"$dir/err"
check "in an order of the user's they are refused" test "$(grep -c "first node, '$name-2'" "$dir/err")" = 2
check "and compute nothing" test ! -s "$dir/out"
on_1 srun -N 2 -n 3 halayrun --as-rank sh -c 'echo "$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK" \
    "$MASTER_ADDR" && exec "$0"' "$build/tests/launcher/world_probe" >"$dir/out" 2>"$dir/err"
check "with torchrun's variables: $(cat "$dir/err")" \
    test "$(grep -c 'of 3' "$dir/out"):$(sort "$dir/out" | grep "$name" | tr '\n' ',')" = \
    "3:0 3 0 2 0 $name-1,1 3 1 2 0 $name-1,2 3 0 1 1 $name-1,"
# Rank 1 is lost: of its step, srun ends nothing by itself.
if ldd "$library" | grep -q libasan || ! /usr/bin/python3 -c 'import numpy'; then
    echo "skipped: no interpreter for halay and numpy"
else
    began_lost=$(date +%s)
    on_1 env HALAY_LIBRARY="$library" PYTHONPATH="$(realpath "$top_srcdir")/python" srun -N 2 -n 3 /usr/bin/python3 -c '
import halay, numpy, os, signal
job = halay.Context()
print("the sum is %g" % job.allreduce(numpy.ones(1), name="first")[0], flush=True)
if job.rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
job.allreduce(numpy.ones(1), name="second")' >"$dir/out" 2>"$dir/err"
    # The lost rank may take what it has not sent of the first sum with it.
    check "python3 in srun: $(cat "$dir/err")" test "$(grep -c 'the sum is 3' "$dir/out")" -ge 1
    check "the others end when one is lost" test $(($(date +%s) - began_lost)) -lt 25
    check "and name it: $(cat "$dir/err")" test "$(grep -c 'rank 1' "$dir/err")" -ge 2
fi
# The lines of docs/guides/from-torchrun.md, with what they start.
if ! ldd "$library" | grep -q libasan; then
    cp "$(realpath "$top_srcdir")/tests/lab/train.py" "$scratch/job/"
    printf '#!/bin/sh\nexec /usr/bin/python3 train.py\n' >"$scratch/job/train" && chmod +x "$scratch/job/train"
    for row in 14 15 16; do
        line=$(documented $row)
        [ $row != 16 ] || line="sbatch --quiet --wait -N 2 --ntasks-per-node=2 -o line.log --wrap '$line'; cat line.log"
        on_1 env HALAY_LIBRARY="$library" PYTHONPATH="$(realpath "$top_srcdir")/python" sh -c "$line" \
            >"$dir/out" 2>"$dir/err"
        check "row $row: four ranks on two nodes have met: $(cat "$dir/err")" test \
            "$(grep -c 'of 4 on .* met' "$dir/out"):$(grep -oE "on $name-[12] met" "$dir/out" | sort -u | wc -l)" = 4:2
    done
fi
on_1 srun -n 1 "$build/tests/launcher/world_probe" >"$dir/out" 2>"$dir/err"
check "one task is a job of one rank" test "$(grep -c 'rank 0 of 1' "$dir/out")" = 1
on_1 salloc --quiet -n 4 "$build/tests/launcher/world_probe" >"$dir/out" 2>"$dir/err"
check "and so is what an allocation of four tasks starts itself" test "$(grep -c 'rank 0 of 1' "$dir/out")" = 1
on_1 sbatch --quiet --wait -n 4 -o batch.log --wrap "$build/tests/launcher/world_probe; env | grep ^SLURM_" \
    >"$dir/out" 2>"$dir/err"
check "or its batch script" test "$(grep -c 'rank 0 of 1' "$scratch/job/batch.log")" = 1
on_1 srun -n 2 halayrun true >"$dir/out" 2>"$dir/err"
check "srun halayrun is refused" err_has 'start it once'

# --- signals ---------------------------------------------------------------------------------------------------------
# A host that is silent for 10 s is given up: signs of life must come through srun.
while test $(($(date +%s) - began)) -lt 12; do sleep 0.2; done
on_1 scancel --batch --signal=USR1 "$job"
check "told before the time is over, all ranks end well" wait_for has_ended "$job" COMPLETED
check "eight of them" log_has "$job" ' got USR1$' 8
job=$(submit)
check "the next" wait_for log_has "$job" ' of 8 on ' 8
on_1 scancel "$job"
check "scancel" wait_for has_ended "$job" CANCELLED
check "this node's ranks had their time" wait_for log_has "$job" '[01] stopped$' 2
check "and were not killed" log_has "$job" 'SIGKILL to all' 0
for host in 1 2 3 4; do
    check "nothing is left on a node" wait_for eval \
        'test -z "$(sh "$lab_script" enter $lab $host ps -e -o args | grep -E "[h]alayrun|[h]alay-tft")"'
done
