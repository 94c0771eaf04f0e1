#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The lines of docs/guides/from-torchrun.md ("Lines from their documentation"), as they stand there, on two hosts of a
# lab that are called node1 and node2; those of SLURM are in test_lab_slurm.sh. Needs root and an ssh server.
. "$top_srcdir/tests/lab/lib.sh"

library=$build/.libs/libhalay.so.1
! ldd "$library" | grep -q libasan || skip "an interpreter cannot load a sanitizer's library"
make_lab 2
tree=$(realpath "$top_srcdir")
for h in 1 2; do
    # An Indexed Job's pods know their own names, and pod 0's by the domain; SageMaker's hosts are in a file.
    on $h sh -c "printf '10.77.$lab.1 node1 algo-1\n10.77.$lab.2 node2 algo-2\n' >>/etc/hosts
        printf '10.77.$lab.1 train-0.train train-0\n10.77.$lab.2 train-1.train train-1\n' >>/etc/hosts
        mkdir -p /run/ml/input/config
        echo '{\"current_host\": \"algo-$h\", \"hosts\": [\"algo-1\", \"algo-2\"],
            \"network_interface_name\": \"eth0\"}' >/run/ml/input/config/resourceconfig.json
        sed -i 's/^hl$lab-\([12]\),/node\1,&/' /etc/ssh/ssh_known_hosts"
done
# All hosts have one home folder, and so a secret; and one folder with the training.
export HOME=$scratch/home PYTHONPATH=$tree/python HALAY_LIBRARY=$library
unset XDG_CONFIG_HOME
mkdir -p "$HOME" "$scratch/work" "$scratch/bin"
ln -s "$halayrun" "$scratch/bin/halayrun"
cp "$tree/tests/lab/train.py" "$scratch/work/"
printf '#!/bin/sh\nexec python3 train.py\n' >"$scratch/work/train"
printf 'node1 slots=2\nnode2 slots=2\n' >"$scratch/work/hosts"
printf '#!/bin/sh\necho node1:2\necho node2:2\n' >"$scratch/work/hosts.sh"
chmod +x "$scratch/work/train" "$scratch/work/hosts.sh"

# give HOST ROW [VARIABLE...]: that row's line there, with these variables; its process is $pid_HOST.
give() {
    local h=$1 line
    line=$(documented $2)
    shift 2
    # The variables may say $N.
    (cd "$scratch/work" && exec timeout 100 sh "$lab_script" enter $lab $h env PATH="$scratch/bin:$PATH" sh -c \
        "export $* && $line") >"$dir/out.$h" 2>"$dir/err.$h" </dev/null &
    eval pid_$h=$!
}
# ends HOST
ends() {
    local code
    eval "wait \$pid_$1"
    code=$?
    check "host $1 ends with $code: $(tail -n 5 "$dir/err.$1")" test $code = 0
}
# met ROW RANKS HOSTS [MASTER]: all of them, with torchrun's variables
met() {
    check "row $1: $2 ranks of $2 have met" test "$(grep -c "of $2 on .* met: .* ${4-master}$" "$dir/out.1")" = $2
    check "row $1: on $3" test "$(grep -o "on hl$lab-[12]" "$dir/out.1" | sort -u | grep -c .)" = $3
}
# here ROW RANKS HOSTS [VARIABLE...]: given on node 1 alone
here() {
    local row=$1 ranks=$2 hosts=$3
    shift 3
    give 1 $row "$@"
    ends 1
    met $row $ranks $hosts
}
# each ROW RANKS [VARIABLE...]: on both nodes; $N is the node's number.
each() {
    local row=$1 ranks=$2
    shift 2
    give 2 $row N=1 "$@"
    give 1 $row N=0 "$@"
    ends 1
    ends 2
    met $row $ranks 2
}

here 1 4 1
give 1 2
ends 1
check "row 2: a rank for each core" grep -q "met: 0 .* master$" "$dir/out.1"
each 3 4
each 4 4
each 5 4
here 6 2 1
check "row 6: files" test -s "$scratch/work/out/rank.1/stdout"
here 7 4 1
here 8 4 2
here 9 4 2
here 10 4 2
here 11 4 2
here 12 4 2
if command -v mpiexec >/dev/null && test -e "$build/.libs/libhalay-mpi.so"; then
    here 13 2 1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
else
    echo "skipped: no MPI"
fi
each 17 4 PET_NNODES=2 PET_NPROC_PER_NODE=2 PET_MASTER_ADDR=node1 PET_MASTER_PORT=29500 MASTER_ADDR=node1 \
    MASTER_PORT=29500 WORLD_SIZE=4 'PET_NODE_RANK=$N'
here 18 4 2 K_MPI_JOB_ROLE=launcher OMPI_MCA_orte_default_hostfile="$scratch/work/hosts"
for h in 1 2; do on $h hostname train-$((h - 1)); done
give 2 19 JOB_COMPLETION_INDEX=1
give 1 19 JOB_COMPLETION_INDEX=0
ends 1
ends 2
check "row 19: four ranks of two pods have met" test \
    "$(grep -o 'of 4 on train-[01] met' "$dir/out.1" | sort | uniq -c | tr -s ' \n' ' ')" = \
    " 2 of 4 on train-0 met 2 of 4 on train-1 met "
for h in 1 2; do on $h hostname $name-$h; done
each 20 2 HALAY_OPT_ML=/run/ml
for row in $(seq 1 20); do
    case $row in 14 | 15 | 16) continue ;; esac # test_lab_slurm.sh
    check "row $row is in this test" grep -qE "^ *(here|each|give 1) $row\b" "$0"
done
