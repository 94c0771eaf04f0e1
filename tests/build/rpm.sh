#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The RPM packages: each file that `make install` puts in place is in exactly one of them, and each line of their lists
# has a file. Where there is rpm, the spec is read by it.
. "${top_srcdir:?}/tests/build/build.sh"
spec=$top_srcdir/packaging/rpm/halay.spec
prefix=$(sed -n 's/^prefix=//p' "$top_builddir/halay.pc")
make_install "$scratch/root" >"$scratch/said" 2>&1 || {
    cat "$scratch/said"
    wrong "make install DESTDIR=… fails"
}

# Both sides as the spec names folders. Modules for MPICH and CUDA are in no package.
(cd "$scratch/root$prefix" && find . -type f -o -type l) | sed -e 's|^\./||' -e 's|^bin/|%{_bindir}/|' \
    -e 's|^include/|%{_includedir}/|' -e 's|^lib[^/]*/|%{_libdir}/|' -e 's|^share/man/|%{_mandir}/|' \
    -e 's|^share/doc/|%{_docdir}/|' -e 's|^share/|%{_datadir}/|' | grep -v -e '\.la$' -e mpich -e cuda -e nccl |
    sort >"$scratch/installed"
# A line that depends on what the build found (%if) may have none. Python's package is not make's to install.
awk '/^%(files|changelog)/ { on = $1 == "%files"; next }
    !on { next }
    /^%if/ { may = 1; next }
    /^%endif/ { may = 0; next }
    $1 ~ /^%\{/ && $1 !~ /^%\{python3/ { print may + 0, $1 }' "$spec" >"$scratch/patterns"
[ -s "$scratch/patterns" ] || wrong "the spec lists no files"

: >"$scratch/packed"
while read -r may pattern; do
    checks=$((checks + 1))
    # As rpm reads it: * stays in its folder; a folder is all that is in it.
    expression=$(echo "$pattern" | sed -e 's/[.{}+]/\\&/g' -e 's|\*|[^/]*|g')
    found=$(grep -cE "^$expression(/|\$)" "$scratch/installed") || [ "$may" -gt 0 ] ||
        wrong "make install puts nothing at $pattern"
    [ "$found" -eq 0 ] || grep -E "^$expression(/|\$)" "$scratch/installed" >>"$scratch/packed"
done <"$scratch/patterns"
sort "$scratch/packed" | diff "$scratch/installed" - >"$scratch/differ" || {
    wrong "what is installed (<), and what the packages have (>), differ"
    cat "$scratch/differ"
}

if command -v rpmspec >/dev/null 2>&1; then
    checks=$((checks + 1))
    packages=$(rpmspec -q --qf '%{name} ' "$spec" 2>"$scratch/said") || wrong "rpm: $(cat "$scratch/said")"
    [ "$packages" = "halay halay-libs halay-ucx halay-mpi python3-halay halay-tft-libs halay-devel " ] ||
        wrong "the packages are $packages"
else
    echo "skipped: no rpm"
fi
build_end
