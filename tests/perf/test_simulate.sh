#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The simulated cluster: correct sums with 8 and 13 ranks on each network, plausible times, the same in every run, and
# the choice that the model makes from its own numbers.
. "${top_srcdir:?}/tests/perf/perf.sh"

grep -q '^#define HALAY_HAVE_SIMGRID 1' "$top_builddir/config.h" || skip "halay was configured without SimGrid"
command -v python3 >/dev/null 2>&1 || skip "there is no python3"
[ -f "$top_builddir/perf/halay-simulated.la" ] || skip "no simulated program in a build with sanitizers"
simulate=$top_srcdir/perf/bench/simulate

# Counts 0, 1, n - 1, n, n + 1 of 8 ranks; a prime; one that takes several segments.
sizes=0,4,28,32,36,4036,400012
expect 0 "$simulate" --built --build "$top_builddir" --check --networks flat --ranks 8,13 --sizes $sizes
says out '^flat 8 checked [1-9][0-9]+$'
says out '^flat 13 checked [1-9][0-9]+$'
expect 0 "$simulate" --built --build "$top_builddir" --check --networks fat-tree,nodes --ranks 16 --sizes 4036
says out '^fat-tree 16 checked [1-9]'
says out '^nodes 16 checked [1-9]'

# No all-reduce beats two passes over each link, and a ring does not take much longer.
expect 0 "$simulate" --built --build "$top_builddir" --networks flat --ranks 8 --sizes 8M --algorithms ring \
    --json "$scratch/results"
says out '^\| 8 \| 8 MB \| .* \| (0\.9[5-9]|1\.0[0-9]) \| '
holds "$scratch/results" results.0.seconds.ring=positive results.0.choice=string results.0.alpha=positive
for run in one two; do
    expect 0 "$simulate" --built --build "$top_builddir" --networks flat --ranks 8 --sizes 64,8M \
        --algorithms ring,recursive-doubling --json "$scratch/$run"
done
checks=$((checks + 1))
cmp -s "$scratch/one" "$scratch/two" || wrong "two simulations of the same take different times"
# Few steps win for small data, few bytes for large; the slower algorithm is never chosen.
holds "$scratch/one" 'results.0.seconds.recursive-doubling<=results.0.seconds.ring' \
    results.0.choice=recursive-doubling \
    'results.1.seconds.ring<=results.1.seconds.recursive-doubling' results.1.choice=ring

expect 1 "$simulate" --built --build "$top_builddir" --networks torus
says err "no network 'torus'; there are flat"
expect 1 "$simulate" --built --build "$top_builddir" --algorithms ring,rings
says err "no algorithm 'rings'; there are ring, halving-doubling, "
perf_end
