#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Wrong use of halay-perf: exit status 2, one line with the error and its cure, nothing half-written.
. "${top_srcdir:?}/tests/perf/perf.sh"

expect 2 "$perf"
says err '^usage: halay-perf'
expect 0 "$perf" --help
says out 'allreduce'
says out 'doctor'
expect 0 "$perf" --version
says out '^halay-perf [0-9]+\.[0-9]+\.[0-9]+$'
for words in --help --version 'allreduce --help' 'allreduce -b 4 -e 8 -n 1'; do
    expect 1 sh -c '"$0" $1 >/dev/full' "$perf" "$words"
    says err '^halay-perf: cannot write to standard output$'
done
expect 2 "$perf" alreduce
says err "unknown command 'alreduce'; did you mean 'allreduce'\?"
expect 2 "$perf" --verion
says err "did you mean '--version'\?"

for command in allreduce broadcast barrier roofline engine tune doctor; do
    expect 0 "$perf" $command --help
    says out "^usage: halay-perf $command"
    expect 2 "$perf" $command --transprot shm
    says err "halay-perf $command: unknown option '--transprot'; did you mean '--transport'\?"
done

expect 2 "$perf" allreduce --bufers shared
says err "did you mean '--buffers'\?"
expect 2 "$perf" allreduce --buffers=both
says err "option --buffers: 'both' is not one of shared, private"
expect 2 "$perf" allreduce -b 64M -e 4
says err 'the last size, 4, is less than the first'
expect 2 "$perf" allreduce -d f64 -b 4
says err 'less than one element of f64'
expect 2 "$perf" allreduce -d i32 -o average
says err 'no average of i32'
expect 2 "$perf" tune
says err 'one rank has nothing to choose'
expect 2 "$perf" tune -b 64M
says err 'the last size, 16777216, is less than the first'
expect 2 "$perf" tune --only allgather
says err "no operation 'allgather'"
expect 2 "$perf" allreduce -n 0
says err "option -n: '0' is not a whole number from 1"
expect 2 "$perf" allreduce --algorithm no-such
says err "no-such"
expect 2 "$perf" allreduce --transport no-such
says err "no-such"
expect 2 "$perf" all-gather -o sum
says err "unknown option '-o'"
expect 2 "$perf" barrier -b 4
says err "unknown option '-b'"
expect 2 "$perf" roofline --of barrier
says err 'not one of allreduce, reduce, reduce-scatter, broadcast, all-gather, alltoall$'
expect 2 "$halayrun" -np 2 "$perf" broadcast --root 2
says err 'root 2 is no rank: there are 2, from 0 on'
# One of several processes of another launcher is no job of one rank. A program that a batch script starts is one, and
# so is one that halayrun, told that it is on its own, starts below torchrun.
for command in 1:doctor 2:allreduce 1:engine; do
    expect "${command%:*}" env WORLD_SIZE=2 RANK=1 LOCAL_RANK=1 MASTER_ADDR=localhost "$perf" "${command#*:}"
    says err \
        'one of 2 \(WORLD_SIZE=2, RANK=1, MASTER_ADDR=localhost\).*start the program by halayrun.*HALAY_BOOTSTRAP=self'
done
expect 0 env SLURM_NTASKS=4 SLURM_PROCID=0 "$perf" allreduce -b 4 -e 4 -n 1
expect 0 env WORLD_SIZE=1 RANK=0 LOCAL_RANK=0 MASTER_ADDR=localhost "$perf" allreduce -b 4 -e 4 -n 1
expect 0 env WORLD_SIZE=2 RANK=1 LOCAL_RANK=1 MASTER_ADDR=localhost "$halayrun" --nnodes 1 -np 2 \
    "$perf" allreduce -b 4 -e 4 -n 1
expect 2 "$perf" allgather
says err "did you mean 'all-gather'"
expect 2 "$perf" allreduce --versus mpi
says err 'mpirun -np 2 halay-perf allreduce --versus mpi'
expect 2 "$halayrun" -np 2 "$perf" allreduce --versus mpi
says err 'mpirun -np 2 halay-perf allreduce --versus mpi'
expect 2 "$halayrun" -np 2 "$perf" allreduce -d f64 -b 8 -e 8 --versus naive
says err 'cannot compare with the naive loop: the naive loop adds only f32'
expect 2 env HALAY_RING_SEGMENT=much "$perf" allreduce
says err 'HALAY_RING_SEGMENT'

# A file that cannot be written fails before anything is measured, and leaves nothing behind.
expect 1 "$perf" allreduce -n 1 -e 4 --json "$scratch/absent/report.json"
says err "cannot write '$scratch/absent/report.json'"
expect 1 "$halayrun" -np 2 "$perf" engine -n 1 --idle 0 --json "$scratch/absent/report.json"
says err "cannot write"

# In a job too, whichever rank gives up first.
expect 2 "$halayrun" -np 2 "$perf" allreduce --bufers shared
says err "did you mean '--buffers'"
perf_end
