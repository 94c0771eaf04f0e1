#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What `make install` puts in place works from there: each installed example builds with what pkg-config says about the
# installed library and runs as a job of one rank, as does a program in C++; the programs start; nothing points back
# into the build folder. Where there is CMake, its find_package finds the library too.
#
# usage: installed.sh          installs under a folder of its own and looks at that
#        installed.sh PREFIX   looks at what is installed under PREFIX (make installcheck)
. "${top_srcdir:?}/tests/build/build.sh"
cc=$(make_variable CC)
cxx=$(make_variable CXX)
sanitizer=$(make_variable SANITIZER_CFLAGS)
pkg_config=$(make_variable PKG_CONFIG)

if [ $# -gt 0 ]; then
    root=$1
    PKG_CONFIG_PATH=$(dirname "$(find "$root" -name halay.pc | head -n 1)")
else
    make_install "$scratch/root" >"$scratch/said" 2>&1 || {
        cat "$scratch/said"
        wrong "make install DESTDIR=… fails"
    }
    prefix=$(sed -n 's/^prefix=//p' "$top_builddir/halay.pc")
    root=$scratch/root$prefix
    PKG_CONFIG_PATH=$(dirname "$(find "$root" -name halay.pc | head -n 1)")
    # The package lies elsewhere than it will: say so to pkg-config, which writes paths of the file's own prefix.
    pkg_config="$pkg_config --define-variable=prefix=$root"
fi
export PKG_CONFIG_PATH
lib=$(dirname "$(find "$root" -name libhalay.so | head -n 1)")
HALAY_MODULE_PATH=$lib/halay
export HALAY_MODULE_PATH
# Nothing needs LD_LIBRARY_PATH for libhalay, but our programs and libhalay-tft look for it where it will be.
path=${LD_LIBRARY_PATH-}
own_path=$path
[ $# -gt 0 ] || own_path=$lib${path:+:$path}

for header in halay_types.h halay_coll.h halay_coll_inline.h halay.h halay_inline.h halay_elastic.h halay_mpi.h \
    halay_tft.h halay_tools.h halay_xla.h; do
    checks=$((checks + 1))
    [ -f "$root/include/$header" ] || wrong "include/$header was not installed"
done
for library in libhalay.so libhalay-tft.so; do [ -f "$lib/$library" ] || wrong "$library was not installed"; done

for program in "$root"/bin/*; do
    [ -f "$program" ] || continue
    checks=$((checks + 1))
    LD_LIBRARY_PATH=$own_path "$program" --version >"$scratch/said" 2>&1 || {
        wrong "${program##*/} --version fails as installed:"
        cat "$scratch/said"
    }
    grep -qE '[0-9]+\.[0-9]+\.[0-9]+' "$scratch/said" || wrong "${program##*/} --version prints no version"
done

awk 'BEGIN {
    print "unique_id,ds,y"
    for (day = 0; day < 500; day++)
        printf "one,%d,%g\n", day, 5 + sin(day / 9)
}' >"$scratch/series.csv"
find "$root" -path '*examples*' -name '*.c' >"$scratch/examples"
while read -r example; do
    mpi_cflags='' mpi_libs='' leaks=1 arguments='' package=halay example_path=$path
    [ "${example##*/}" != own_start.c ] || arguments="0 1 $scratch" # rank 0 of 1, which meets nobody there
    [ "${example##*/}" != forecast.c ] || arguments=$scratch/series.csv package=halay-tft example_path=$own_path
    if grep -q '<halay_mpi\.h>' "$example"; then
        mpi_cflags=$(make_variable MPI_CFLAGS) mpi_libs=$(make_variable MPI_LIBS)
        leaks=0 # what MPI leaves allocated is its own
        [ -n "$mpi_cflags$mpi_libs" ] || continue # built without MPI
    fi
    checks=$((checks + 1))
    # shellcheck disable=SC2046,SC2086 # lists of words
    if $cc -Wall -Wextra -Werror $sanitizer $mpi_cflags "$example" -o "$scratch/example" \
        $($pkg_config --cflags --libs $package) $mpi_libs -lm \
        >"$scratch/said" 2>&1; then
        ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=$leaks" LD_LIBRARY_PATH=$example_path \
            "$scratch/example" $arguments >"$scratch/said" 2>&1 || {
            wrong "the installed example ${example##*/} fails:"
            cat "$scratch/said"
        }
    else
        wrong "the installed example ${example##*/} does not build:"
        cat "$scratch/said"
    fi
done <"$scratch/examples"

checks=$((checks + 1))
# shellcheck disable=SC2046,SC2086 # lists of words
if $cxx -std=c++11 -Wall -Wextra -Werror -pedantic $sanitizer "$top_srcdir/tests/build/plain_calls.cc" \
    -o "$scratch/plain_calls" $($pkg_config --cflags --libs halay) >"$scratch/said" 2>&1; then
    "$scratch/plain_calls" >"$scratch/said" 2>&1 || wrong "a program in C++ fails: $(cat "$scratch/said")"
else
    wrong "a program in C++ does not build: $(cat "$scratch/said")"
fi

# CMake finds the same library, wherever the installation lies.
if command -v cmake >/dev/null 2>&1; then
    checks=$((checks + 2))
    mkdir "$scratch/cmake"
    cp "$(find "$root" -name linear.c | head -n 1)" "$(find "$root" -name forecast.c | head -n 1)" "$scratch/cmake/"
    version=$(make_variable PACKAGE_VERSION)
    cat >"$scratch/cmake/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.10)
project(linear C)
find_package(halay $version REQUIRED)
add_executable(linear linear.c)
target_compile_options(linear PRIVATE $sanitizer)
target_link_libraries(linear PRIVATE halay::halay m $sanitizer)
add_executable(forecast forecast.c)
target_compile_options(forecast PRIVATE $sanitizer)
target_link_libraries(forecast PRIVATE halay::tft $sanitizer)
CMAKE
    { CC=$cc cmake -S "$scratch/cmake" -B "$scratch/cmake/build" -DCMAKE_PREFIX_PATH="$root" &&
        cmake --build "$scratch/cmake/build" && "$scratch/cmake/build/linear"; } >"$scratch/said" 2>&1 || {
        wrong "a CMake project does not find the installed library, or its program fails:"
        cat "$scratch/said"
    }
    sed -i "s/halay $version/halay 99.0/" "$scratch/cmake/CMakeLists.txt"
    ! CC=$cc cmake -S "$scratch/cmake" -B "$scratch/cmake/other" -DCMAKE_PREFIX_PATH="$root" >"$scratch/said" 2>&1 ||
        wrong "CMake takes this version where 99.0 is wanted"
else
    [ -z "${TEST_GATE-}" ] || wrong "there is no cmake, and tools/setup --gate installs it"
fi

# Libraries and programs look for libhalay where it will be, unless the loader does so anyway, and not where they were
# built.
if command -v readelf >/dev/null 2>&1; then
    libdir=$(sed -n "s/^libdir='\(.*\)'/\1/p" "$top_builddir/libhalay.la")
    case $(sed -n 's/^sys_lib_dlsearch_path_spec="\(.*\)"/ \1 /p' "$top_builddir/libtool") in
    *" $libdir "*) ;;
    *)
        for file in "$root"/bin/* "$lib"/*.so.*; do
            needs=$(readelf -d "$file" 2>/dev/null) || continue
            case $needs in *'Shared library: [libhalay'*) ;; *) continue ;; esac
            checks=$((checks + 1))
            case $needs in *"$libdir"*) ;; *) wrong "${file##*/} does not look for libhalay in $libdir" ;; esac
        done
        ;;
    esac
    find "$root" -type f -exec sh -c 'readelf -d "$1" 2>/dev/null | grep -E "R(UN)?PATH" | grep -qF "$2" && echo "$1"' \
        sh {} "$(cd "$top_builddir" && pwd -P)" \; >"$scratch/paths" || true
    while read -r file; do wrong "${file##*/} looks for libraries in the build folder"; done <"$scratch/paths"
fi
build_end
