# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
#
# What the build tests share; they read it with `. build.sh`. Each sets `scratch`, a folder of its own that goes when
# the test ends, and counts what it finds wrong with `wrong`; `build_end` prints the verdict.
set -eu
: "${top_srcdir:?}" "${top_builddir:?}"

scratch=$(mktemp -d)
trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
faults=0
checks=0

wrong() {
    echo "$*"
    faults=$((faults + 1))
}

# A test that checked nothing has not passed.
build_end() {
    echo "$checks checked, $faults wrong"
    [ "$faults" -eq 0 ] && [ "$checks" -gt 0 ]
}

skip() {
    echo "skipped: $*"
    exit 77
}

# The value of a variable as configure found it.
make_variable() {
    sed -n "s/^$1 = *//p" "$top_builddir/Makefile" | head -n 1
}

# The build's make, quietly and without what a make above this test hands down.
plain_make() {
    (
        unset MAKEFLAGS MFLAGS MAKELEVEL
        make -s --no-print-directory -C "$top_builddir" "$@"
    )
}

# make_install FOLDER: make install there, from a copy of the build folder (of links) beside it: libtool links libraries
# anew for it, and what other tests start meanwhile would not find them.
make_install() (
    copy=$(mktemp -d "$(cd "$top_builddir" && pwd -P).XXXXXX") || exit
    trap 'rm -rf "$copy"' EXIT
    # What other tests write there may vanish meanwhile.
    cp -al "$top_builddir/." "$copy" 2>/dev/null || true
    for library in "$copy"/*.la; do
        sed "s|$(cd "$top_builddir" && pwd -P)|$copy|g" "$library" >"$scratch/la"
        touch -r "$library" "$scratch/la"
        mv "$scratch/la" "$library"
    done
    before=$(stat -c '%n %i' "$top_builddir"/.libs/lib*.so*)
    (top_builddir=$copy && plain_make install DESTDIR="$1") || exit
    [ "$before" = "$(stat -c '%n %i' "$top_builddir"/.libs/lib*.so*)" ] || {
        echo "make install changes libraries of the build folder, which other tests use"
        exit 1
    }
)
