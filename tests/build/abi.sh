#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Programs that were built before work with this tree's libraries, as tools/abi --check finds, which compares the public
# headers and maps with packaging/abi. First the tool is shown headers that break that, and some that don't.
. "${top_srcdir:?}/tests/build/build.sh"
command -v abidiff >/dev/null 2>&1 || skip "there is no abidiff"
CC=$(make_variable CC)
export CC

# shown VERDICT HEADER SED-PROGRAM: the tool's verdict (0: fine) on headers that differ so from those of the base.
shown() {
    checks=$((checks + 1))
    rm -rf "$scratch/tree"
    mkdir "$scratch/tree"
    cp -r "$top_srcdir/include" "$top_srcdir"/*.map "$scratch/tree"
    chmod -R u+w "$scratch/tree"
    sed -i "$3" "$scratch/tree/include/$2"
    ! cmp -s "$scratch/tree/include/$2" "$top_srcdir/include/$2" || wrong "'$3' changes nothing of $2"
    found=0
    "$top_srcdir/tools/abi" --check "$scratch/tree" >"$scratch/said" 2>&1 || found=$?
    [ "$found" -eq "$1" ] || wrong "tools/abi: verdict $found, not $1, of $2 changed by '$3': $(cat "$scratch/said")"
}

checks=1
"$top_srcdir/tools/abi" --check >"$scratch/said" 2>&1 || wrong "$(cat "$scratch/said")"
if [ "$faults" -eq 0 ]; then
    shown 1 halay.h '/^HALAY_API enum halay_status halay_cancel(/d'
    shown 1 halay.h 's/^\(HALAY_API enum halay_status halay_cancel(\)/\1int how, /'
    shown 1 halay.h 's/^    int priority;/    short priority;/'
    shown 1 halay.h 's/^    int priority;/    int inserted, priority;/'
    shown 1 halay.h 's/^    HALAY_BROADCAST = 1,/    HALAY_BROADCAST = 12,/'
    shown 1 halay.h 's/^    HALAY_JOIN = 11,/    HALAY_INSERTED = 11, HALAY_JOIN,/'
    shown 1 halay_types.h 's/^    unsigned char bytes\[256\];/    unsigned char bytes[128];/'
    shown 1 halay_tft.h '0,/^HALAY_API/{/^HALAY_API/s/^HALAY_API/extern/}'
    shown 0 halay.h 's/^    void \*after_stream, \*after_event;/    void *after_stream, *after_event, *added;/'
    shown 0 halay.h 's/^    HALAY_COLLECTIVE_COUNT/    HALAY_ADDED,\n    HALAY_COLLECTIVE_COUNT/'
    shown 0 halay.h 's/^HALAY_API int halay_completion_fd(/HALAY_API int halay_added(void);\n&/'
fi
build_end
