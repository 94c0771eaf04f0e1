#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# halayrun --as-rank: a launcher's variables become torchrun's, and the process the program; what cannot be known is an
# error. By hand for each launcher, then under mpirun itself, where `halayrun --mpi` does the same.
. "$top_srcdir/tests/launcher/lib.sh" || exit 99

world=$top_builddir/tests/launcher/world_probe
names='RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK MASTER_ADDR MASTER_PORT'
cat >"$dir/show" <<END
#!/bin/sh
line=''
for name in $names; do eval "line=\"\$line\\\${\$name--} \""; done
echo "\$line"
END
chmod +x "$dir/show"
# as_rank VARIABLE...: what the program finds, in *out*
as_rank() {
    env -i PATH="$PATH" ASAN_OPTIONS="${ASAN_OPTIONS-}" "$@" "$halayrun" --as-rank "$dir/show" >"$dir/out" 2>"$dir/err"
    code=$?
}
# row WHAT VALUES VARIABLE...
row() {
    local what=$1 values=$2
    shift 2
    as_rank "$@"
    check "$what: $(cat "$dir/out" "$dir/err")" eval 'test "$code" = 0 && test "$(cat "$dir/out")" = "$values "'
}
# refused WHAT WHY VARIABLE...
refused() {
    local what=$1 why=$2
    shift 2
    as_rank "$@"
    check "$what: $code" eval 'test "$code" = 2 && err_has "$why"'
}

open_mpi="OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1"
mpich="PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2"
step="SLURM_JOB_ID=7 SLURM_STEP_ID=1 SLURM_STEP_NUM_TASKS=7 SLURM_PROCID=5 SLURM_LOCALID=1 SLURM_NODEID=2"
step="$step SLURM_STEP_NUM_NODES=4 SLURM_STEP_NODELIST=n[08-11]"
row "Open MPI, one host" "3 4 1 4 0 127.0.0.1 29500" $open_mpi OMPI_COMM_WORLD_LOCAL_SIZE=4
row "Open MPI, a given host" "3 4 1 2 - one 1234" $open_mpi OMPI_COMM_WORLD_LOCAL_SIZE=2 MASTER_ADDR=one \
    MASTER_PORT=1234
refused "Open MPI, an unknown host" "on which host rank 0 is; give it, mpirun -x MASTER_ADDR=HOST" $open_mpi \
    OMPI_COMM_WORLD_LOCAL_SIZE=2
row "MPICH" "1 2 1 2 0 127.0.0.1 29500" $mpich
row "MPICH in a step of its helpers" "1 2 1 2 0 127.0.0.1 29500" $mpich $step
row "MVAPICH" "1 2 1 2 0 127.0.0.1 29500" MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=2 MV2_COMM_WORLD_LOCAL_RANK=1 \
    MV2_COMM_WORLD_LOCAL_SIZE=2
row "PALS" "3 4 1 2 1 one 29500" PALS_RANKID=3 PMI_SIZE=4 PMI_RANK=3 PALS_LOCAL_RANKID=1 PALS_LOCAL_SIZE=2 \
    PALS_NODEID=1 MASTER_ADDR=one
row "flux" "1 4 1 - - one 29500" FLUX_TASK_RANK=1 FLUX_JOB_SIZE=4 FLUX_TASK_LOCAL_ID=1 FLUX_JOB_NNODES=2 MASTER_ADDR=one
row "srun" "5 7 1 2 2 n08 20000" $step SLURM_STEP_TASKS_PER_NODE="2(x3),1" MASTER_PORT=20000
row "srun's last node" "6 7 0 1 3 n08 20000" ${step/PROCID=5/PROCID=6} SLURM_LOCALID=0 SLURM_NODEID=3 \
    SLURM_STEP_TASKS_PER_NODE="2(x3),1" MASTER_PORT=20000
as_rank $step SLURM_STEP_TASKS_PER_NODE="2(x3),1"
first=$(cut -d' ' -f7 "$dir/out")
as_rank ${step/STEP_ID=1/STEP_ID=2} SLURM_STEP_TASKS_PER_NODE="2(x3),1"
check "a step's port: $first" eval 'test "$first" -ge 20000 && test "$first" -lt 32000 &&
    test "$first" != "$(cut -d" " -f7 "$dir/out")"'
refused "srun, an order of the user's" "rank 0 need not be on the step's first node" $step \
    SLURM_DISTRIBUTION=arbitrary SLURM_STEP_TASKS_PER_NODE="2(x3),1"
refused "no launcher" "has no variables of mpirun, srun or another launcher" A=1
refused "no rank" "has no variables of mpirun, srun or another launcher" $mpich PMI_RANK=2
env -i $mpich "$halayrun" --as-rank 2>"$dir/err"
check "no program: $?" err_has "which program?"
env -i PATH="$PATH" $mpich "$halayrun" --as-rank ./missing 2>"$dir/err"
check "a program that is not there" test $? = 127
env -i PATH="$PATH" $mpich "$halayrun" --as-rank sh -c 'exit 3'
check "the program's status" test $? = 3
env -i PATH="$PATH" $mpich "$halayrun" --as-rank sh -c 'ps -o args= -p $$' >"$dir/out" 2>&1
check "no process stays: $(cat "$dir/out")" eval '! out_has as-rank || ! command -v ps >/dev/null'

# A step of srun's, with torchrun's variables beside SLURM's: one job of the library.
step() { env -i PATH="$PATH" HOME="$dir" LD_LIBRARY_PATH="${LD_LIBRARY_PATH-}" ASAN_OPTIONS="${ASAN_OPTIONS-}" \
    UBSAN_OPTIONS="${UBSAN_OPTIONS-}" TSAN_OPTIONS="${TSAN_OPTIONS-}" SLURM_JOB_ID=$((RANDOM + 1)) SLURM_STEP_ID=0 \
    SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NUM_NODES=1 SLURM_STEP_NODELIST=localhost SLURM_NODEID=0 \
    SLURM_STEP_TASKS_PER_NODE=2 \
    sh -c 'for r in 1 0; do SLURM_PROCID=$r SLURM_LOCALID=$r "$0" --as-rank "$1" & done; wait' \
    "$halayrun" "$world" >"$dir/out" 2>"$dir/err"; }
step
check "halay starts under srun and --as-rank: $(cat "$dir/err")" test "$(grep -c 'of 2' "$dir/out")" = 2

export OMPI_MCA_orte_tmpdir_base="${TMPDIR:-/tmp}" OMPI_MCA_btl_base_warn_component_unused=0
unset $names
for flavour in openmpi mpich; do
    write_mpirun "$dir/$flavour" $flavour || continue
    root=''
    test $flavour = mpich || root="--allow-run-as-root --oversubscribe"
    "$dir/$flavour/mpirun" $root -np 2 "$halayrun" --as-rank "$dir/show" >"$dir/out" 2>"$dir/err"
    check "$flavour: mpirun halayrun --as-rank: $(cat "$dir/out" "$dir/err")" \
        test "$(grep -cE '^[01] 2 [01] 2 0 127.0.0.1 [0-9]+ $' "$dir/out")" = 2
    PATH=$dir/$flavour:$PATH run 0 --mpi --no-prefix -np 2 "$dir/show"
    check "$flavour: halayrun --mpi: $(cat "$dir/out" "$dir/err")" \
        test "$(grep -cE '^[01] 2 [01] 2 0 127.0.0.1 [0-9]+ $' "$dir/out")" = 2
    check "$flavour: one port" test "$(cut -d' ' -f7 "$dir/out" | sort -u | wc -l)" = 1
done
run 0 --mpi-flavour openmpi5 -H user@one:1,two:1 --bind none --dry-run true
check "the first of several hosts" \
    grep -qE '^env MASTER_ADDR=one MASTER_PORT=(2[0-9]{4}|3[01][0-9]{3}) mpirun ' "$dir/out"
check "is passed on" out_has '-x MASTER_ADDR -x MASTER_PORT'
check "by each rank" out_has ' --as-rank true'
run 0 --mpi-flavour mpich -H one:1,two:1 --bind none -x MASTER_ADDR=three --remote-halayrun /far/halayrun --dry-run true
check "one that is given, and halayrun's path" \
    grep -qE '^env MASTER_ADDR=three mpirun .* /far/halayrun --as-rank true$' "$dir/out"
run 0 --mpi-flavour openmpi4 -H localhost:1,two:1 --bind none --dry-run true
check "this host by its name" out_has "MASTER_ADDR=$(hostname) "
