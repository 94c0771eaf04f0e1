#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# libhalay.so exports what its public headers declare, all of it and nothing else, and libhalay-tft.so what halay_tft.h
# does; a module exports halay_module alone, and a device's of the trainer halay_tft_device.
. "${top_srcdir:?}/tests/build/build.sh"
command -v nm >/dev/null 2>&1 || skip "nm is not installed"

# The functions that a shared object offers, without their version and without the versions themselves.
exported() {
    nm -D --defined-only "$1" | awk '$2 != "A" { print $3 }' | sed 's/@.*//' | sort -u
}

# expect OBJECT NAMES-IN-A-FILE
expect() {
    checks=$((checks + 1))
    exported "$1" >"$scratch/exported"
    comm -13 "$2" "$scratch/exported" >"$scratch/more"
    comm -23 "$2" "$scratch/exported" >"$scratch/less"
    while read -r name; do wrong "${1##*/} exports '$name', which no public header declares"; done <"$scratch/more"
    while read -r name; do wrong "${1##*/} does not export '$name', which a public header declares"; done \
        <"$scratch/less"
}

# HALAY_API marks each prototype; its name stands before the first parenthesis.
declared() { cat "$@" | tr '\n' ' ' | sed 's/HALAY_API/\n&/g' |
    sed -n 's/^HALAY_API[^(]*[ *]\(halay_[a-z0-9_]*\)(.*/\1/p' | sort -u; }
declared "$top_srcdir/include/halay_tft.h" >"$scratch/trainer"
declared "$top_srcdir"/include/*.h | comm -23 - "$scratch/trainer" >"$scratch/public"
[ "$(wc -l <"$scratch/public")" -gt 20 ] || wrong "found too few prototypes in the public headers"
expect "$top_builddir/.libs/libhalay.so" "$scratch/public"
[ "$(wc -l <"$scratch/trainer")" -gt 10 ] || wrong "found too few prototypes in halay_tft.h"
expect "$top_builddir/.libs/libhalay-tft.so" "$scratch/trainer"

for module in "$top_builddir"/.libs/libhalay-*.so; do
    [ -f "$module" ] || continue
    case $module in
    *-tft.so) continue ;;
    *-perf-mpi*.so) echo halay_perf_mpi_ops >"$scratch/expected" ;;
    *-perf-cuda.so) echo halay_perf_devices >"$scratch/expected" ;;
    *-perf-nccl.so) echo halay_perf_nccl_ops >"$scratch/expected" ;;
    *-tft-*.so) echo halay_tft_device >"$scratch/expected" ;;
    *) echo halay_module >"$scratch/expected" ;;
    esac
    expect "$module" "$scratch/expected"
done
build_end
