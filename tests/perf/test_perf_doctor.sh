#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# halay-perf doctor: every part is printed, alone and in a job, and a module that does not load is named with the
# reason.
. "${top_srcdir:?}/tests/perf/perf.sh"

expect 0 "$perf" doctor
for line in '^halay$' 'version [0-9]' '^machine' '^memory$' 'memlock' 'shared segments +yes' '^transports$' \
    '^  shm +built in' \
    '^job$' 'started without a launcher' '^choices' 'allreduce +shared +4 B to' '^  barrier +[a-z]' '^configuration$' \
    'HALAY_FUSION_THRESHOLD'; do
    says out "$line"
done

expect 0 "$halayrun" -np 2 "$perf" doctor
says out 'started by halayrun: rank 0 of 2'
says out 'rank 1: host .*, processors'
checks=$((checks + 1))
[ "$(grep -c 'started by halayrun' "$scratch/out")" -eq 1 ] || wrong "more than one rank prints"

for name in mpi ucx; do
    capital=$(echo $name | tr '[:lower:]' '[:upper:]')
    if grep -q "^#define HALAY_HAVE_$capital 1" "$top_builddir/config.h"; then
        # A file of that name that is no shared object comes first: the reason is printed.
        mkdir -p "$scratch/modules"
        echo 'no shared object' >"$scratch/modules/libhalay-$name.so"
        expect 0 env HALAY_MODULE_PATH="$scratch/modules" "$perf" doctor
        says out "^  $name +built, does not load: .*libhalay-$name.so"
    else
        expect 0 "$perf" doctor
        says out "^  $name +not built in"
    fi
done

# Devices are measured where one is, here the tests' emulation; a failure is printed and counts.
emulated=$top_builddir/tests/cuda/module/.libs
if [ -f "$emulated/libhalay-perf-cuda.so" ]; then
    EMU_DEVICES=2 EMU_ORDER=0 HALAY_MODULE_PATH=$emulated expect 0 "$perf" doctor --devices 16K
    for line in '^devices, measured$' 'copies from GPU 1: [0-9.]+ GB/s [0-9.]+ GB/s$' \
        'segments on GPU 0 and 1, summed by 0: [0-9.]+ GB/s' 'segments on GPU 1: packed at [0-9.]+ GB/s' \
        'by an event, [0-9.]+ us by a written word' 'beside a thread that looks' \
        'shared memory: pinned in [0-9.]+ ms'; do
        says out "$line"
    done
    EMU_DEVICES=0 HALAY_MODULE_PATH=$emulated expect 1 "$perf" doctor --devices 16K
    says out '^  failed: cudaGetDeviceCount'
fi
expect 1 env HALAY_MODULE_PATH="$scratch" "$perf" doctor --devices 16K
says out '^  failed: '

# A job that cannot start: all else is printed.
expect 1 "$perf" doctor --transport no-such
says out 'cannot start'
says out '^configuration$'
perf_end
