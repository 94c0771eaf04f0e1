#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# halay-perf engine, small: alone and with two ranks, both kinds of buffers, with and without a model; text and JSON. It
# compares every sum itself. No test can tell how long its times must be, but they must be consistent: a part of a step
# is not longer than the step, and a high percentile is not below a low one.
. "${top_srcdir:?}/tests/perf/perf.sh"
json=$scratch/report.json

ordered() {
    for name in latency_us driven_latency_us hot_latency_us floor_us driven_floor_us hot_floor_us; do
        holds "$json" $name.p50=positive "$name.p50<=$name.p99"
    done
}

expect 0 "$perf" engine -n 3 --idle 0.1 --json "$json"
says out 'median'
says out '^idle engine:'
ordered
holds "$json" op=engine ranks=1 buffers=shared idle_cpu_percent=number step_ms=absent model=absent

for buffers in shared private; do
    expect 0 "$halayrun" -np 2 "$perf" engine -n 5 --idle 0.1 --model many-small -s 3 --buffers $buffers --json "$json"
    holds "$json" op=engine ranks=2 buffers=$buffers model=many-small step_ms=positive 'exposed_ms<=step_ms' \
        bytes_per_step=4096000 messages_per_step=number versus=absent idle_cpu_percent=number \
        submit_us=positive complete_us=positive named_submit_us=positive callback_us=positive
    ordered
done
expect 0 "$halayrun" -np 2 "$perf" engine -n 2 --idle 0.1 --model tft-electricity -s 1 --json "$json"
holds "$json" model=tft-electricity bytes_per_step=9809432 step_ms=positive
expect 0 "$halayrun" -np 2 "$perf" engine -n 2 --idle 0 --model many-small -s 2 --compute 2 --json "$json"
holds "$json" compute_ms=positive 'overlapped_exposed_ms<=overlapped_step_ms' hidden_percent=number
checks=$((checks + 1))
awk -F'[:,]' '{ gsub(/[" ]/, "", $1); v[$1] = $2 }
    END { hidden = 100 * (v["step_ms"] + v["compute_ms"] - v["overlapped_step_ms"]) / v["step_ms"] - v["hidden_percent"]
          exit !(hidden < 1e-6 && hidden > -1e-6) }' "$json" || wrong "hidden_percent is not what it is made of"
expect 0 "$perf" engine -n 2 --idle 0 --json -
holds "$scratch/out" op=engine idle_cpu_percent=absent
HALAY_TRANSPORT=shm expect 0 "$halayrun" -np 2 "$perf" engine -n 3 --idle 0.1 --model many-small -s 1 \
    --buffers registered --apart --json "$json"
holds "$json" buffers=registered model=many-small step_ms=positive register_ms=positive
# Data on a device: where tests emulate one, whose module is apart from the programs.
emulated=$top_builddir/tests/cuda/module/.libs
if [ -f "$emulated/libhalay-cuda.so" ]; then
    ln -s "$emulated/libnccl.so" "$scratch/libnccl.so.2"
    # Kernels take long here; without segments on devices none are launched.
    HALAY_DEVICE_SLAB=0 HALAY_MODULE_PATH=$emulated LD_LIBRARY_PATH=$scratch:${LD_LIBRARY_PATH-} \
        expect 0 "$halayrun" -np 2 "$perf" engine -n 3 --idle 0.1 --model many-small -s 1 --buffers device --apart \
        --versus nccl --json "$json"
    holds "$json" buffers=device model=many-small step_ms=positive latency_us.p50=positive \
        versus.0.step_ms=positive versus.1.ratio=positive
    NCCL_DUPLICATE=1 HALAY_DEVICE_SLAB=0 HALAY_MODULE_PATH=$emulated LD_LIBRARY_PATH=$scratch:${LD_LIBRARY_PATH-} \
        expect 2 "$halayrun" -np 2 "$perf" engine -n 1 --idle 0 --model many-small --buffers device --versus nccl
    says err 'Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000; NCCL takes one rank a GPU'
    HALAY_MODULE_PATH=$emulated EMU_DEVICES=0 expect 1 "$perf" engine -n 3 --buffers device
    says err 'no CUDA device can be used'
fi
expect 2 "$perf" engine -n 3 --buffers device --versus mpi
says err "goes with memory of the host"
expect 2 "$perf" engine -n 3 --versus nccl
says err "goes with memory of a device: '--buffers device'"
perf_end
