#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# halay-perf tune: it writes a table that halay reads; runs add to it and replace only their own rows; a file that
# cannot be written fails before anything is measured, and nothing half-written is left.
. "${top_srcdir:?}/tests/perf/perf.sh"
table=$scratch/new/folder/table

# tune RANKS OPTION...: small and short.
tune() {
    ranks=$1
    shift
    expect 0 "$halayrun" -np "$ranks" "$perf" tune -b 4 -e 64K -f 128 -n 2 -o "$table" "$@"
}
# count N PATTERN: so many lines of the table match.
count() {
    checks=$((checks + 1))
    [ "$(grep -cE -e "$2" "$table")" -eq "$1" ] || { wrong "not $1 lines match '$2':"; cat "$table"; }
}

tune 2
says out "^.*written: $table"
says out 'allreduce: microseconds'
count 1 '^halay-tuning 1$'
for operation in allreduce reduce reduce-scatter broadcast allgather alltoall barrier; do
    # The last row of what was chosen, and if that is not of the tree, of what else may be taken.
    checks=$((checks + 1))
    grep -qE "^use +shm local $operation 2 \* [a-z-]+$" "$table" || wrong "no rule for all sizes of $operation"
done
for operation in allreduce reduce reduce-scatter broadcast allgather alltoall; do
    count 1 "^slot +shm local $operation 2 \\* [0-9]+[KM]\$"
done
count 0 '^slot .* barrier '
count 1 '^cost +shm local latency=.* byte=.* exchange=.* memory='
expect 0 env HALAY_TUNING="$table" "$halayrun" -np 2 "$perf" doctor
says out "allreduce +shared .*because: $table, line [0-9]+, names it"
expect 0 env HALAY_TUNING="$table" "$halayrun" -np 3 "$perf" doctor
says out "allreduce +shared .*by the costs of $table, line [0-9]+"

# Another number of ranks adds rows; the same number again replaces its own; rows that a user wrote stay in their place.
sed -i '1a use * * barrier 64- * dissemination # mine' "$table"
tune 3 --only barrier
count 6 '^slot +shm local [a-z-]+ 2 '
count 1 '^use +shm local barrier 3 '
count 1 '^cost '
tune 2 --only barrier
count 1 '^use +shm local barrier 2 '
count 1 '^use +shm local barrier 3 '
count 1 '^#tune +shm local 2 ranks'
count 1 '^#tune +shm local 3 ranks'
count 1 '^halay-tuning 1$'
checks=$((checks + 1))
[ "$(sed -n 2p "$table")" = 'use * * barrier 64- * dissemination # mine' ] || wrong "the row of somebody's was moved"
expect 0 env HALAY_TUNING="$table" "$halayrun" -np 2 "$perf" doctor
says out "barrier .*because: $table, line"

expect 0 "$halayrun" -np 2 --no-prefix "$perf" tune -b 4 -e 4 -n 1 --only broadcast -o -
says out '^use +shm local broadcast 2 \* '

# Without --output: where halay looks for it.
expect 0 env XDG_CONFIG_HOME="$scratch/config" "$halayrun" -np 2 "$perf" tune -b 4 -e 4 -n 1 --only barrier
expect 0 env XDG_CONFIG_HOME="$scratch/config" "$halayrun" -np 2 "$perf" doctor
says out "barrier .*because: $scratch/config/halay/tuning, line"

echo file >"$scratch/file"
expect 1 "$halayrun" -np 2 "$perf" tune -n 1 -o "$scratch/file/table"
says err "cannot write '$scratch/file/table'"
checks=$((checks + 1))
[ -z "$(find "$scratch" -name '*.tmp')" ] || wrong "a temporary file is left"

# Over messages segments are measured too.
if grep -q '^#define HALAY_HAVE_UCX 1' "$top_builddir/config.h"; then
    export HALAY_MODULE_PATH="$top_builddir/.libs"
    expect 0 "$halayrun" -np 2 "$perf" tune --transport ucx --only allreduce -b 4 -e 256K -f 1024 -n 2 -o "$table"
    count 1 '^segment ucx local [0-9]+$'
    checks=$((checks + 1))
    grep -qE '^use +ucx local allreduce 2 ' "$table" || wrong "no rules for ucx"
    count 1 '^use +shm local barrier 3 '
    expect 0 env HALAY_TUNING="$table" "$halayrun" -np 2 "$perf" doctor --transport ucx
    says out "allreduce .*over ucx, 2 ranks, because: $table, line"
fi
perf_end
