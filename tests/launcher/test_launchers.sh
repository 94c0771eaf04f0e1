#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Every launcher's variables that we know, and what halayrun and a program of the library do when they find them: one
# job, or a refusal; never a job of each process's own without a word. That is only right where the variables are of one
# process, or of an array of jobs.
. "$top_srcdir/tests/launcher/lib.sh" || exit 99

export HOME=$dir/home # without a secret
unset XDG_CONFIG_HOME
mkdir "$HOME"
world=$top_builddir/tests/launcher/world_probe
case $halayrun in /*) ;; *) halayrun=$PWD/$halayrun ;; esac
clean() { env -i PATH="$PATH" HOME="$HOME" LD_LIBRARY_PATH="${LD_LIBRARY_PATH-}" ASAN_OPTIONS="${ASAN_OPTIONS-}" \
    UBSAN_OPTIONS="${UBSAN_OPTIONS-}" TSAN_OPTIONS="${TSAN_OPTIONS-}" "$@"; }
err_is() { grep -qE -e "$1" "$dir/err"; }

# halayrun's fates: alone (it starts its two ranks here), ranks (refused: started for each rank), hosts (it starts ranks
# on the job's hosts), nodes ARGS (one of several nodes: refused without a secret, with one it joins by these ARGS), or
# else a refusal with that text. The library's: alone, refuses, mpi (it asks the MPI, of which there is none).
row() { # NAME FATE LIBRARY VARIABLE...
    local name=$1 fate=$2 library=$3 code
    shift 3
    clean "$@" "$halayrun" -np 2 echo runs >"$dir/out" 2>"$dir/err" </dev/null
    code=$?
    case $fate in
    alone) check "$name: a job here" test "$code:$(grep -c runs "$dir/out")" = 0:2 ;;
    ranks) check "$name: started $code" eval 'test $code = 2 && err_is "has started halayrun itself [0-9]+ times"' ;;
    hosts)
        clean "$@" "$halayrun" --explain >"$dir/out" 2>"$dir/err" </dev/null
        check "$name: its hosts" out_has 'hosts with slots: one:'
        ;;
    nodes\ *)
        check "$name: refused, not $code" eval 'test $code = 2 && ! test -s "$dir/out"'
        check "$name: by which line" err_has "halayrun ${fate#* } --secret-file FILE PROGRAM"
        clean "$@" HALAY_SECRET="sixteen characters or more" "$halayrun" --dry-run --nproc-per-node 2 true \
            >"$dir/out" 2>"$dir/err"
        code=$?
        check "$name: joins" eval 'test $code = 0 && err_has "part of the job of" && err_has "${fate#* }"'
        clean "$@" "$halayrun" --explain >"$dir/out" 2>"$dir/err"
        check "$name: explained" out_has "start one job: ${fate#* }"
        ;;
    *) check "$name: refused, not $code" eval 'test $code = 2 && err_has "$fate"' ;;
    esac
    case $fate in alone | hosts) ;; *) # what is meant can be said
        clean "$@" "$halayrun" --nnodes 1 -np 2 echo runs >"$dir/out" 2>"$dir/err" </dev/null
        check "$name: --nnodes 1" test "$?:$(grep -c runs "$dir/out")" = 0:2 ;;
    esac
    clean "$@" "$world" >"$dir/out" 2>"$dir/err" </dev/null
    code=$?
    case $library in
    alone) check "$name: a program alone" eval 'test $code = 0 && out_has "rank 0 of 1"' ;;
    refuses) check "$name: a program" eval 'test $code = 1 && err_has "without a way to find the others"' ;;
    mpi) check "$name: a program asks the MPI" eval 'test $code != 0 && ! out_has "rank 0 of 1"' ;;
    esac
}

torch="RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=m MASTER_PORT=29500"
tf='{"cluster": {"chief": ["one:1"], "worker": ["two:1", "three:1"], "ps": ["p:1"]}'
task='"task": {"type": "worker", "index": 1}'
vertex='{"cluster": {"workerpool0": ["one:2222"], "workerpool1": ["two:2222"]}'
row "none" alone alone
row "torchrun" ranks refuses $torch GROUP_RANK=0 ROLE_RANK=1 TORCHELASTIC_RUN_ID=x
row "torchrun of one" alone alone RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 MASTER_ADDR=m MASTER_PORT=29500
row "accelerate launch" ranks refuses $torch ACCELERATE_MIXED_PRECISION=no
row "deepspeed" ranks refuses $torch CROSS_RANK=0 CROSS_SIZE=2
row "Ray Train" ranks refuses $torch NODE_RANK=0 RAY_JOB_ID=1
row "Azure ML, a process each" ranks refuses $torch NODE_RANK=0 AZUREML_RUN_ID=r
row "Azure ML, a node each" ranks refuses WORLD_SIZE=4 NODE_RANK=1 MASTER_ADDR=m MASTER_PORT=6105
row "PyTorchJob's master" "nodes --nnodes 2 --node-rank 0 --join $(hostname):23456" refuses \
    RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=23456 PYTHONUNBUFFERED=1
row "PyTorchJob's worker" "nodes --nnodes 2 --node-rank 1 --join job-master-0:23456" refuses \
    RANK=1 WORLD_SIZE=2 MASTER_ADDR=job-master-0 MASTER_PORT=23456 PET_MASTER_ADDR=job-master-0 PET_MASTER_PORT=23456 \
    PET_NNODES=2 PET_NODE_RANK=1 PET_NPROC_PER_NODE=auto
row "PyTorchJob of one" alone alone RANK=0 WORLD_SIZE=1 MASTER_ADDR=localhost MASTER_PORT=23456 PET_NNODES=1
row "elastic PyTorchJob" "nodes --nnodes 1:4 --max-restarts 3 --join job-worker-0:23456" refuses PET_NNODES=1:4 \
    PET_RDZV_ENDPOINT=job-worker-0:23456 PET_RDZV_ID=job PET_NPROC_PER_NODE=1 PET_MAX_RESTARTS=3 PET_RDZV_BACKEND=c10d
row "PyTorchJob by its endpoint" "nodes --nnodes 3 --join job-worker-0:23456" refuses PET_NNODES=3:3 \
    PET_RDZV_BACKEND=c10d PET_RDZV_ENDPOINT=job-worker-0:23456
row "TrainJob" "nodes --nnodes 4 --node-rank 3 --join job-node-0-0.job:29400" refuses PET_NNODES=4 PET_NODE_RANK=3 \
    PET_NPROC_PER_NODE=gpu PET_MASTER_ADDR=job-node-0-0.job PET_MASTER_PORT=29400 JOB_COMPLETION_INDEX=3
row "TrainJob on IPv6" "nodes --nnodes 2 --node-rank 1 --join [fd00::1]:29400" refuses PET_NNODES=2 PET_NODE_RANK=1 \
    PET_MASTER_ADDR=fd00::1 PET_MASTER_PORT=29400
row "TrainJob, nonsense" "PET_NODE_RANK: '4' is not a whole number from 0 to 3" refuses PET_NNODES=4 PET_NODE_RANK=4
row "Indexed Job" alone alone JOB_COMPLETION_INDEX=2
row "MPIJob's worker" "start halayrun in the launcher's pod" alone K_MPI_JOB_ROLE=worker
row "TFJob" "nodes --nnodes 3 --node-rank 2 --join one:1" refuses TF_CONFIG="$tf, $task}"
row "TFJob's parameter server" "task 'ps' is not on a host that runs ranks" refuses TF_CONFIG="$tf, ${task/worker/ps}}"
row "TF_CONFIG, a list" hosts refuses TF_CONFIG="$tf}"
row "Vertex AI" "nodes --nnodes 2 --node-rank 1 --join one:2222" refuses \
    CLUSTER_SPEC="$vertex, \"task\": {\"type\": \"workerpool1\", \"index\": 0}, \"environment\": \"cloud\"}"
aws="AWS_BATCH_JOB_NUM_NODES=3 AWS_BATCH_JOB_MAIN_NODE_INDEX=1"
row "AWS Batch's main node" "nodes --nnodes 3 --node-rank 0 --join $(hostname)" refuses $aws AWS_BATCH_JOB_NODE_INDEX=1
row "AWS Batch" "nodes --nnodes 3 --node-rank 1 --join 10.0.0.5" refuses $aws AWS_BATCH_JOB_NODE_INDEX=0 \
    AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS=10.0.0.5
row "an array of AWS Batch" alone alone AWS_BATCH_JOB_ARRAY_INDEX=3
row "SkyPilot" "nodes --nnodes 2 --node-rank 1 --join 10.0.0.5" refuses SKYPILOT_NUM_NODES=2 SKYPILOT_NODE_RANK=1 \
    SKYPILOT_NODE_IPS="$(printf '10.0.0.5\n10.0.0.6')" SKYPILOT_NUM_GPUS_PER_NODE=0
row "SkyPilot on one node" alone alone SKYPILOT_NUM_NODES=1 SKYPILOT_NODE_RANK=0 SKYPILOT_NODE_IPS=10.0.0.5
row "dstack" "nodes --nnodes 2 --node-rank 0 --join 10.0.0.5" refuses DSTACK_NODES_NUM=2 DSTACK_NODE_RANK=0 \
    DSTACK_MASTER_NODE_IP=10.0.0.5
row "a LeaderWorkerSet" "nodes --nnodes 2 --node-rank 1 --join set-0.set" refuses LWS_GROUP_SIZE=2 LWS_WORKER_INDEX=1 \
    LWS_LEADER_ADDRESS=set-0.set
row "a JAXJob" "nodes --nnodes 2 --node-rank 1 --join job-worker-0:6666" refuses NUM_PROCESSES=2 PROCESS_ID=1 \
    COORDINATOR_ADDRESS=job-worker-0 COORDINATOR_PORT=6666
row "another program's variables" alone alone NUM_PROCESSES=8 PROCESS_ID=1
row "HTCondor's parallel universe" ranks refuses _CONDOR_NPROCS=2 _CONDOR_PROCNO=1
row "paddle.distributed.launch" ranks refuses PADDLE_TRAINERS_NUM=2 PADDLE_TRAINER_ID=0
row "Open MPI" ranks mpi OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1
row "mpirun -np 1" alone alone OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0
row "MPICH, Intel MPI" ranks mpi PMI_SIZE=2 PMI_RANK=1 PMI_FD=9
row "MVAPICH" ranks mpi MV2_COMM_WORLD_SIZE=2 MV2_COMM_WORLD_RANK=0
row "PMIx alone" ranks refuses PMIX_RANK=1 PMIX_NAMESPACE=n
row "srun" ranks refuses SLURM_JOB_NODELIST=one SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_NTASKS=2 SLURM_PROCID=1 \
    SLURM_LOCALID=1
row "sbatch" hosts alone SLURM_JOB_NODELIST=one,two SLURM_NTASKS=2 SLURM_TASKS_PER_NODE="1(x2)" SLURM_PROCID=0
row "salloc" hosts alone SLURM_JOB_NODELIST=one,two SLURM_NTASKS=2 SLURM_TASKS_PER_NODE="1(x2)"
row "an array of SLURM" alone alone SLURM_ARRAY_TASK_ID=3 SLURM_ARRAY_TASK_COUNT=8
row "LSF" hosts alone LSB_MCPU_HOSTS="one 1 two 1"
row "jsrun" ranks refuses JSM_NAMESPACE_SIZE=2 JSM_NAMESPACE_RANK=1
printf '%s\n' one two >"$dir/nodes"
row "PBS" hosts alone PBS_NODEFILE="$dir/nodes" PBS_NODENUM=0 PBS_TASKNUM=1
row "pbsdsh" ranks refuses PBS_NODEFILE="$dir/nodes" PBS_NODENUM=1 PBS_TASKNUM=2
row "PALS" ranks refuses PALS_RANKID=1
row "an array of SGE" alone alone SGE_TASK_ID=3
row "Flux" ranks refuses FLUX_JOB_SIZE=2 FLUX_TASK_RANK=1
row "horovodrun" ranks refuses HOROVOD_SIZE=2 HOROVOD_RANK=1 HOROVOD_LOCAL_RANK=1
row "Ray's job" alone alone RAY_JOB_ID=1 RAY_ADDRESS=one:6379

clean JOB_COMPLETION_INDEX=2 "$halayrun" -np 1 true 2>"$dir/err"
check "an index is not silent" err_has "halayrun --nnodes N PROGRAM, where N is the Job's 'completions'"
refused() { # NAME TEXT VARIABLE=... -- ARGS...
    local name=$1 text=$2 code variables=()
    shift 2
    while test "$1" != --; do variables+=("$1"); shift; done
    shift
    clean "${variables[@]}" HALAY_SECRET="sixteen characters or more" "$halayrun" "$@" true 2>"$dir/err"
    code=$?
    check "$name: refused, not $code" test $code = 2
    check "$name: why" err_has "$text"
}
refused "an index beyond --nnodes" "'4' is not a whole number from 0 to 3" JOB_COMPLETION_INDEX=4 -- --nnodes 4
refused "a host that is not named as a pod" "this host is not named as the Job's pods are" \
    JOB_COMPLETION_INDEX=99 -- --nnodes 100
refused "another number than the operator's" "--nnodes 3: a PyTorchJob or TrainJob has started halayrun on 4 nodes" \
    PET_NNODES=4 PET_NODE_RANK=3 PET_MASTER_ADDR=a JOB_COMPLETION_INDEX=3 -- --nnodes 3
clean SM_HOSTS='["algo-1","algo-2"]' "$world" >"$dir/out" 2>"$dir/err"
check "a program on SageMaker's hosts" err_has "SageMaker has started this process as one of 2 (SM_HOSTS with 2 hosts)"
clean HALAY_BOOTSTRAP=self $torch "$world" >"$dir/out" 2>"$dir/err"
check "unless it is meant" out_has "rank 0 of 1"
clean $torch "$halayrun" -H localhost:2 echo runs >"$dir/out" 2>"$dir/err"
check "-H says where" test "$(grep -c runs "$dir/out")" = 2

# Two pods, as one job.
hold_port port
head -c 32 /dev/urandom >"$dir/key" && chmod 400 "$dir/key"
pod() { clean PET_NNODES=2 PET_NODE_RANK=$1 PET_NPROC_PER_NODE=2 PET_RDZV_ENDPOINT=127.0.0.1:$port "$halayrun" \
    --secret-file "$dir/key" "$world" >"$dir/out.$1" 2>"$dir/err.$1" </dev/null; }
pod 1 &
pod 0
code=$?
check "both start one job: $(cat "$dir/err.0")" test "$code:$(grep -c 'of 4' "$dir/out.0")" = 0:4
wait $!
check "the other pod ends with it" test $? = 0
# A pod of an elastic one is enough, and its restarts are the operator's.
clean PET_NNODES=1:4 PET_MAX_RESTARTS=1 PET_NPROC_PER_NODE=2 PET_RDZV_ENDPOINT=localhost:$port "$halayrun" \
    --secret-file "$dir/key" sh -c 'test $TORCHELASTIC_RESTART_COUNT = 1 && exec "$0"' "$world" \
    >"$dir/out" 2>"$dir/err" </dev/null
check "one pod of up to four" test "$?:$(grep -c 'of 2' "$dir/out")" = 0:2

# A step of srun's, without PMI: rank 0 serves the start on the first node. task RANK SIZE [VARIABLE...]
step=SLURM_JOB_ID=$((RANDOM + 1))
task() { local rank=$1 size=$2; shift 2; clean "$step" SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=$size SLURM_PROCID=$rank \
    SLURM_STEP_NODELIST="localhost,n[1-3]" HALAY_START_TIMEOUT=${patience:-30} "$@" "$world" ${times-} \
    >"$dir/out.$rank" 2>"$dir/err.$rank" </dev/null; }
# tasks SIZE [VARIABLE...]: all of them; *codes*
tasks() {
    local size=$1 rank pids=()
    shift
    codes=''
    for ((rank = size - 1; rank >= 0; rank--)); do
        task $rank "$size" "$@" &
        pids[rank]=$!
    done
    for ((rank = 0; rank < size; rank++)); do
        wait ${pids[rank]}
        codes=$codes$?
    done
}
times=3
tasks 3
check "tasks of srun make one job, three times: $(cat "$dir"/err.[0-2])" \
    test "$codes:$(cat "$dir"/out.[0-2] | grep -c 'of 3')" = 000:9
times=1
check "with a secret of the user's: $(ls -l "$HOME/.config/halay/secret")" \
    test "$(stat -c %a:%s "$HOME/.config/halay/secret")" = 600:65
tasks 2
check "the next program of the step: $(cat "$dir"/err.[0-1])" \
    test "$codes:$(cat "$dir"/out.[0-1] | grep -c 'of 2')" = 00:2
hold_port port
tasks 2 HALAY_PORTS=$port-$((port + 3))
check "at a port of the user's: $(cat "$dir"/err.[0-1])" test "$codes" = 00
tasks 2 HALAY_BOOTSTRAP=srun PMI_SIZE=2 PMI_RANK=0
check "where srun has a PMI: $(cat "$dir"/err.[0-1])" test "$codes" = 00
mkdir "$dir/home.2"
patience=5 task 0 2 &
first=$!
patience=3 task 1 2 HOME="$dir/home.2"
check "two homes, two secrets" \
    grep -q "does not hold this rank's secret: where nodes do not share the home" "$dir/err.1"
wait $first
check "rank 0 names the one that is missing: $(cat "$dir/err.0")" grep -q 'rank 1' "$dir/err.0"
# Rank 0 ends after a start that the other one does not know of: what counts is the newest look.
patience=2 task 0 2 &
first=$!
patience=4 task 1 2 HOME="$dir/home.2"
wait $first
check "rank 0 has ended meanwhile: $(cat "$dir/err.1")" grep -q "rank 0 has not answered on 'localhost'" "$dir/err.1"
patience=1 task 1 2
check "no rank 0" grep -q "rank 0 has not answered on 'localhost' within 1000 ms" "$dir/err.1"
task 1 2 SLURM_DISTRIBUTION=arbitrary
check "an order of the user's" grep -q "variables do not do: rank 0 need not be on the step's first node" "$dir/err.1"
