#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Each header compiles alone, so that who includes it need not know what else to include: the public ones as C11 and as
# C++17 with every warning an error, and without anything of this build (no config.h, no include path but their own);
# the inner ones as the C that the build uses.
. "${top_srcdir:?}/tests/build/build.sh"
cc=$(make_variable CC)
cxx=$(make_variable CXX)
mpi_flags=$(make_variable MPI_CFLAGS)
other_flags="$(make_variable UCX_CFLAGS) $(make_variable HWLOC_CFLAGS) $(make_variable JANSSON_CFLAGS) \
$(make_variable SODIUM_CFLAGS) $(make_variable YAML_CFLAGS) $(make_variable ONEDNN_CFLAGS) $(make_variable BLAS_CFLAGS)"
strict='-Wall -Wextra -Werror -pedantic -fsyntax-only'

# alone HEADER COMPILER FLAGS...: one translation unit that includes the header and nothing else, twice.
alone() {
    header=$1
    shift
    checks=$((checks + 1))
    printf '#include "%s"\n#include "%s"\nint halay_not_empty;\n' "$header" "$header" >"$source"
    # shellcheck disable=SC2068 # compilers and flags are lists of words
    $@ "$source" >"$scratch/said" 2>&1 || {
        wrong "$header does not compile alone with: $*"
        head -n 20 "$scratch/said"
    }
}

cd "$top_srcdir"
for path in include/*.h; do
    others=
    if grep -q '<mpi\.h>' "$path"; then
        [ -n "$mpi_flags$(make_variable MPI_LIBS)" ] || continue # built without MPI
        others=$(echo "$mpi_flags" | sed 's/-I/-isystem /g')
    fi
    source=$scratch/alone.c
    alone "${path#include/}" "$cc -std=c11" "$strict" -Iinclude "$others"
    source=$scratch/alone.cc
    alone "${path#include/}" "$cxx -std=c++17" "$strict" -Iinclude "$others"
done

source=$scratch/alone.c
for path in base/*.h collectives/*.h collectives/*/*.h fusion/*.h launcher/*.h perf/*/*.h perf/*/*/*.h tft/*.h \
    tests/*.h tests/*/*.h; do
    [ -f "$path" ] || continue
    # Without a guard it is a template: text that is included with macros set.
    grep -q '^#ifndef' "$path" || continue
    # What wraps a library that this build goes without cannot compile.
    if grep -q '<mpi\.h>' "$path" && [ -z "$mpi_flags$(make_variable MPI_LIBS)" ]; then continue; fi
    if grep -q '<ucp/' "$path" && [ -z "$(make_variable UCX_LIBS)" ]; then continue; fi
    alone "$path" "$cc -std=gnu11" -Wall -Wextra -Werror -Wno-unused-function -fsyntax-only \
        -include "$top_builddir/config.h" -I. -Iinclude "-I${path%/*}" "$mpi_flags $other_flags"
done
build_end
