#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Each header compiles alone: its user need not know what else to include: the public ones as C11 and as
# C++17 with every warning an error, and without anything of this build (no config.h, no include path but their own);
# the inner ones as the C that the build uses. Where a source that begins with its header has been built, the header has
# compiled alone: with a guard it is not compiled again.
. "${top_srcdir:?}/tests/build/build.sh"
cc=$(make_variable CC)
cxx=$(make_variable CXX)
mpi_flags=$(make_variable MPI_CFLAGS)
other_flags="$(make_variable UCX_CFLAGS) $(make_variable JANSSON_CFLAGS) \
$(make_variable SODIUM_CFLAGS) $(make_variable YAML_CFLAGS) $(make_variable ONEDNN_CFLAGS) \
$(make_variable BLAS_CFLAGS) -Itests/cuda/include"
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

folders=$(find base collectives fusion launcher perf tft sagemaker tests -name '*.h' | sed 's|/[^/]*$||' | sort -u)

# Headers whose second directive defines the macro that the first asks for, and with which a source of the same name
# begins.
# shellcheck disable=SC2086 # several words
proven=$(find $folders -maxdepth 1 -name '*.[ch]' -exec awk '
    FNR == 1 { count = 0 }
    !/^[ \t]*#/ { next }
    FILENAME ~ /c$/ {
        header = FILENAME
        sub(/c$/, "h", header)
        if ($0 == "#include \"" header "\"")
            print header
        nextfile
    }
    ++count == 1 && $1 == "#ifndef" { name = $2; next }
    count == 2 && $1 == "#define" && $2 == name { print FILENAME }
    { nextfile }' {} + | sort | uniq -d)

# is_built HEADER: such a source has an object that is newer than the header.
is_built() {
    case "
$proven
" in *"
$1
"*) ;; *) return 1 ;; esac
    name=${1##*/}
    for object in "$top_builddir/${1%.h}".o "$top_builddir/${1%/*}"/*-"${name%.h}".o \
        "$top_builddir/${1%/*}"/*-"${name%.h}".lo; do
        # shellcheck disable=SC3013 # POSIX has it since 2024
        [ ! "$object" -nt "$1" ] || return 0
    done
    return 1
}

# folder_alone FOLDER: each of its headers in a translation unit of its own, all by one command, but those of built
# sources.
folder_alone() {
    rm -rf "$scratch/units"
    mkdir "$scratch/units"
    for path in "$1"/*.h; do
        if is_built "$path"; then
            checks=$((checks + 1))
            continue
        fi
        # Without a guard it is a template: text that is included with macros set.
        grep -q '^#ifndef' "$path" || continue
        # What wraps a library that this build goes without cannot compile.
        if grep -q '<mpi\.h>' "$path" && [ -z "$mpi_flags$(make_variable MPI_LIBS)" ]; then continue; fi
        if grep -q '<ucp/' "$path" && [ -z "$(make_variable UCX_LIBS)" ]; then continue; fi
        checks=$((checks + 1))
        printf '#include "%s"\n#include "%s"\nint halay_not_empty;\n' "$path" "$path" \
            >"$scratch/units/$(basename "$path" .h).c"
    done
    folder=$1
    set -- "$scratch"/units/*.c
    [ -f "$1" ] || return 0
    # shellcheck disable=SC2086 # compilers and flags are lists of words
    $cc -std=gnu11 -Wall -Wextra -Werror -Wno-unused-function -fsyntax-only -include "$top_builddir/config.h" -I. \
        -Iinclude "-I$folder" $mpi_flags $other_flags "$@" >"$scratch/said" 2>&1 || {
        wrong "a header of $folder does not compile alone"
        head -n 20 "$scratch/said"
    }
}

for path in $folders; do
    folder_alone "$path"
done
build_end
