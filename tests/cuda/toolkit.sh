#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Where CUDA's toolkit is: it compiles the kernels that the emulation runs, for each architecture that halay supports;
# its headers accept the tests' host code; and constants have the same values there as in the emulation's headers.
. "${top_srcdir:?}/tests/build/build.sh"
nvcc=$(make_variable NVCC)
cc=$(make_variable CC)
cxx=$(make_variable CXX)
[ -n "$nvcc" ] || skip "there is no nvcc"
include=$(dirname "$(dirname "$(readlink -f "$nvcc")")")/include
[ -f "$include/cuda_runtime_api.h" ] || skip "there is no nvcc with its headers"

cd "$top_srcdir/tests/cuda"
for source in *.cu; do # the trainer's, for each architecture: static.sh
    checks=$((checks + 1))
    "$nvcc" -std=c++17 -ccbin "${cxx##* }" -arch=sm_90 -I. -I../.. -I../../include -ptx -o "$scratch/ptx" \
        "$source" >"$scratch/said" 2>&1 || wrong "nvcc $source: $(cat "$scratch/said")"
done
for source in test_*.c; do
    checks=$((checks + 1))
    # shellcheck disable=SC2086 # the compiler is a list of words
    $cc -std=gnu11 -D_GNU_SOURCE -Wall -Werror -fsyntax-only -I../.. -I../../include \
        -isystem "$include" "$source" >"$scratch/said" 2>&1 ||
        wrong "$source: $(cat "$scratch/said")"
done

# Every `name = number` of an enum and every `#define name number`.
grep -hoE '^ +(cuda|CU)[A-Za-z0-9_]+ = [0-9]+|^#define (cuda|CU)[A-Za-z0-9_]+ (0x)?[0-9]+' include/*.h |
    sed -E 's/^#define ([A-Za-z0-9_]+) (.*)/\1 = \2/; s/ *([A-Za-z0-9_]+) = (.*)/static_assert((int)\1 == \2, "\1");/' \
        >"$scratch/values"
checks=$((checks + $(wc -l <"$scratch/values")))
{
    grep -hoE '^#include <[a-z_A-Z0-9]+[.]h>' ../cuda/*.cu | sort -u
    echo '#include <cublasLt.h>'
    cat "$scratch/values"
} >"$scratch/values.cu"
"$nvcc" -std=c++17 -ccbin "${cxx##* }" -arch=sm_90 -ptx -o "$scratch/ptx" "$scratch/values.cu" >"$scratch/said" \
    2>&1 || wrong "$(cat "$scratch/said")"
build_end
