#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The tuning table in a job: rank 0's holds for all ranks, whatever the others have; an error in it ends the start on
# all; where halay looks for it; how it explains a choice.
. "${top_srcdir:?}/tests/perf/perf.sh"

printf '%s\n' 'halay-tuning 1' 'use * * allreduce * 32K direct' 'use * * allreduce * * halving-doubling' \
    'segment * * 32K' 'slot * * * * 1M 12K' >"$scratch/table.0"
printf 'halay-tuning 1\nuse * * allreduce * * ring\nsegment * * 8K\n' >"$scratch/table.1"
printf 'this is no table\n' >"$scratch/table.2"

# each COMMAND...: ranks whose environments differ; rank 2's table cannot even be read.
each() {
    # shellcheck disable=SC2016 # the ranks expand it
    expect 0 env HALAY_LOG=debug "$halayrun" -np 3 sh -c \
        'HALAY_TUNING=$0.$HALAY_RANK HALAY_RING_SEGMENT=$((HALAY_RANK * 64))K exec "$@"' "$scratch/table" "$@"
}
each "$perf" allreduce -b 64K -e 64K -n 2
for rank in 0 1 2; do
    says err "halay\[$rank\] debug: allreduce of 65536 bytes over shm, 3 ranks: halving-doubling, because: \
$scratch/table.0, line 3"
done
checks=$((checks + 1))
! grep -qE 'allreduce of 65536 .* (ring|direct),' "$scratch/err" || wrong "a rank chose by a table of its own"
each "$perf" allreduce -b 32K -e 32K -n 2
says err 'allreduce of 32768 bytes .*: direct'

# The sums along the tree: the first rule whose algorithm is allowed.
expect 0 env HALAY_DETERMINISTIC=ranks HALAY_TUNING="$scratch/table.1" "$halayrun" -np 2 "$perf" doctor
says out 'allreduce +shared .*the built-in table'
expect 0 env HALAY_TUNING="$scratch/table.1" "$halayrun" -np 2 "$perf" doctor
says out "allreduce +shared .*ring .*because: $scratch/table.1, line 2, names it"

# Slots: rank 0's, and what the environment says before any table.
expect 0 env HALAY_TUNING="$scratch/table.0" "$halayrun" -np 2 "$perf" doctor
says out 'broadcast +private +2 KiB to 1 MiB .*shared slots of 12288 bytes'
says out 'broadcast +private +2 MiB to any .*shared slots of 262144 bytes'
expect 0 env HALAY_SLOT=8K HALAY_TUNING="$scratch/table.0" "$halayrun" -np 2 "$perf" doctor
says out 'reduce +private .*shared slots of 8192 bytes'

expect 2 env HALAY_TUNING="$scratch/table.2" "$halayrun" -np 2 "$perf" allreduce -b 4 -e 4
says err "table.2:1: not a tuning table"
expect 2 env HALAY_TUNING="$scratch/none" "$halayrun" -np 2 "$perf" allreduce -b 4 -e 4
says err "$scratch/none: cannot be read: No such file"

# Without HALAY_TUNING: below XDG_CONFIG_HOME, else below HOME/.config.
mkdir -p "$scratch/config/halay" "$scratch/.config/halay"
cp "$scratch/table.1" "$scratch/config/halay/tuning"
cp "$scratch/table.0" "$scratch/.config/halay/tuning"
expect 0 env XDG_CONFIG_HOME="$scratch/config" HOME="$scratch" "$halayrun" -np 2 "$perf" doctor
says out "because: $scratch/config/halay/tuning, line 2"
expect 0 env -u XDG_CONFIG_HOME HOME="$scratch" "$halayrun" -np 2 "$perf" doctor
says out "because: $scratch/.config/halay/tuning, line 2"
expect 0 env XDG_CONFIG_HOME="$scratch/config" HALAY_TUNING=builtin "$halayrun" -np 2 "$perf" doctor
says out 'the built-in table'
perf_end
