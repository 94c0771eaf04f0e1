#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# halay-perf engine, small: alone and with two ranks, both kinds of buffers, with and without a model; text and JSON.
. "${top_srcdir:?}/tests/perf/perf.sh"
json=$scratch/report.json

expect 0 "$perf" engine -n 3 --idle 0.1 --json "$json"
says out 'median'
says out '^idle engine:'
holds "$json" op=engine ranks=1 buffers=shared latency_us.p50=positive latency_us.p99=positive \
    driven_latency_us.p50=positive driven_latency_us.p99=positive hot_latency_us.p50=positive floor_us.p50=positive driven_floor_us.p99=positive hot_floor_us.p50=positive idle_cpu_percent=number step_ms=absent model=absent

for buffers in shared private; do
    expect 0 "$halayrun" -np 2 "$perf" engine -n 5 --idle 0.1 --model many-small -s 3 --buffers $buffers --json "$json"
    holds "$json" op=engine ranks=2 buffers=$buffers model=many-small step_ms=positive exposed_ms=positive \
        bytes_per_step=4096000 messages_per_step=positive versus=absent latency_us.p50=positive driven_latency_us.p50=positive idle_cpu_percent=number
done
expect 0 "$halayrun" -np 2 "$perf" engine -n 2 --idle 0.1 --model tft-electricity -s 1 --json "$json"
holds "$json" model=tft-electricity bytes_per_step=9809432 step_ms=positive
expect 0 "$halayrun" -np 2 "$perf" engine -n 2 --idle 0 --model many-small -s 2 --compute 2 --json "$json"
holds "$json" compute_ms=positive overlapped_step_ms=positive overlapped_exposed_ms=positive hidden_percent=number
expect 0 "$perf" engine -n 2 --idle 0 --json -
holds "$scratch/out" op=engine idle_cpu_percent=absent
perf_end
