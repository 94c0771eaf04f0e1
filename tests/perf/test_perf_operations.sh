#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The operations of halay-perf and the roofline, small: alone, with two and three ranks under halayrun, each kind of
# buffer; the table, the JSON, no wrong elements.
. "${top_srcdir:?}/tests/perf/perf.sh"
small='-b 4 -e 64K -n 5 -w 1'
json=$scratch/report.json

# shellcheck disable=SC2086 # a list of words, here and below
expect 0 "$perf" allreduce $small --json "$json"
says out '^# allreduce f32 sum, 1 rank, 1 host, shared buffers'
says out '^ +65536 '
holds "$json" op=allreduce ranks=1 hosts=1 results.7.bytes=65536 results.8=absent results.0.busbw_gbs=number

for buffers in shared private; do
    expect 0 "$halayrun" -np 2 "$perf" allreduce $small --buffers $buffers --json "$json"
    holds "$json" op=allreduce reduction=sum ranks=2 hosts=1 buffers=$buffers versions.halay=string \
        results=array results.0.bytes=4 results.1.bytes=16 results.0.dtype=f32 results.0.algorithm=string \
        results.0.transport=string results.0.time_us=positive results.0.algbw_gbs=positive \
        results.0.busbw_gbs=positive \
        results.0.wrong=0 results.7.wrong=0 results.0.roofline_percent=number results.0.versus=absent
done

expect 0 "$halayrun" -np 3 "$perf" allreduce -b 1K -e 1K -n 3 -d bf16 -o max --json "$json"
holds "$json" ranks=3 reduction=max results.0.dtype=bf16 results.0.wrong=0 results.1=absent
expect 0 "$halayrun" -np 2 "$perf" allreduce -b 24 -e 200 -f 2 -n 3 -d f64 -o average
says out ' 192 '

# The table shows an algorithm that was forced.
expect 0 "$halayrun" -np 2 "$perf" allreduce -b 64K -e 64K -n 3 --algorithm ring --json "$json"
holds "$json" results.0.algorithm=ring results.0.wrong=0

# The plain loop beside each operation, with its results checked too.
for operation in allreduce reduce reduce-scatter broadcast all-gather alltoall; do
    expect 0 "$halayrun" -np 3 "$perf" $operation -b 4 -e 4K -f 100 -n 3 -w 1 --versus naive --json "$json"
    says out ' naive +ratio$'
    holds "$json" results.1.versus.0.name=naive results.1.versus.0.time_us=positive results.1.versus.0.ratio=positive \
        results.1.versus.0.wrong=0 results.1.versus.1=absent
done
expect 0 "$halayrun" -np 2 "$perf" allreduce -b 4 -e 4K -f 100 -n 3 -w 1 --versus naive --json "$json"
holds "$json" results.1.versus.0.name=naive results.1.versus.0.wrong=0
expect 0 "$halayrun" -np 2 "$perf" barrier -n 3 --versus naive --json "$json"
holds "$json" results.0.versus.0.name=naive

# Standard output has the object and nothing else.
expect 0 "$perf" allreduce -b 4 -e 4 -n 2 --json -
holds "$scratch/out" op=allreduce

# Each operation; where every rank has a block, sizes are whole blocks of all ranks.
for operation in reduce reduce-scatter broadcast all-gather alltoall; do
    first=4 last=4096
    case $operation in reduce-scatter | all-gather | alltoall) first=12 last=4092 ;; esac
    for buffers in shared private; do
        expect 0 "$halayrun" -np 3 "$perf" $operation -b 4 -e 4K -f 32 -n 3 -w 1 --buffers $buffers --json "$json"
        says out "^\[0\] # $operation f32.*, 3 ranks, 1 host, $buffers buffers"
        holds "$json" op=$operation ranks=3 buffers=$buffers results.0.bytes=$first results.2.bytes=$last \
            results.3=absent \
            results.0.wrong=0 results.2.wrong=0 results.2.time_us=positive results.2.algbw_gbs=positive \
            results.2.busbw_gbs=positive results.2.roofline_percent=number results.2.algorithm=string
    done
done
expect 0 "$halayrun" -np 3 "$perf" broadcast --root 2 -e 4 -n 3 -d bf16 --json "$json"
holds "$json" root=2 reduction=absent results.0.wrong=0 results.0.dtype=bf16
expect 0 "$halayrun" -np 3 "$perf" reduce --root 1 -b 4K -e 4K -n 3 -o min --json "$json"
holds "$json" root=1 reduction=min results.0.wrong=0
expect 0 "$halayrun" -np 2 "$perf" barrier -n 10 --json "$json"
holds "$json" op=barrier ranks=2 buffers=absent results.0.bytes=0 results.0.time_us=positive results.0.dtype=absent \
    results.0.roofline_percent=absent results.1=absent

expect 0 "$halayrun" -np 2 "$perf" roofline --of reduce-scatter -b 64K -e 64K -n 3 --json "$json"
says out '^\[0\] # roofline of reduce-scatter f32, 2 ranks'
holds "$json" op=roofline of=reduce-scatter results.0.bytes=65536 results.0.time_us=positive \
    results.0.algbw_gbs=positive results.0.wrong=absent results.0.algorithm=absent results.0.roofline_percent=absent

# Progress is shown on a terminal, under a launcher on the launcher's, and nowhere else.
if command -v script >/dev/null 2>&1; then
    for launcher in '' "$halayrun -np 2"; do
        expect 0 script -qec "$launcher $perf broadcast -b 4K -e 4K -n 3" "$scratch/typescript"
        says typescript 'broadcast 4096 bytes: 0 of 3'
    done
    expect 0 script -qec "$perf broadcast -b 4K -e 4K -n 3 2>/dev/null" "$scratch/typescript"
    checks=$((checks + 1))
    ! grep -q ' of 3' "$scratch/typescript" || wrong "progress where standard error is no terminal"
else
    echo "skipped: no program 'script', which makes a terminal"
fi
perf_end
