#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The lists of tests (tests/fragment.am) name tests that there are, and each program whose ranks are threads is among
# those that the thread sanitizer runs. A script that needs a program which a bare system lacks asks for it, so that it
# is skipped there, and tools/setup --tests installs it. In a checkout, each of its files is packed into the sources
# that are released, but git's own and Debian's. What a transport is called is in base/transports.def and in its folder.
. "${top_srcdir:?}/tests/build/build.sh"

plain_make print-tests >"$scratch/tests"
plain_make print-thread-tests >"$scratch/thread"
for name in $(plain_make print-listed-tests); do
    checks=$((checks + 1))
    grep -qxF "$name" "$scratch/tests" || wrong "$name is in a list of tests/fragment.am and no test"
done
cd "$top_srcdir"
for source in $(grep -lE '^#include "(tests/fake/fake|tests/fusion/ranks)[.]h"' tests/*/test_*.c); do
    checks=$((checks + 1))
    grep -qxF "${source%.c}" "$scratch/thread" || wrong "$source runs ranks as threads and is not in THREAD_TESTS"
done
while read -r program package; do
    checks=$((checks + 1))
    grep -q "^tests=.* ${package}[ \"]" tools/setup || wrong "tools/setup --tests does not install $package"
    for script in $(grep '[.]sh$' "$scratch/tests" |
        xargs grep -lE "^[^#]*(^|[^[:alnum:]/._-])${program}( [-\"$]|\}\$)"); do
        checks=$((checks + 1))
        grep -qE "(needs|command -v|if) (.* )?\"?[$]?${program}|/(python|lab)/lib[.]sh" "$script" ||
            wrong "$script uses $program without asking for it"
    done
done <<'END'
python3 python3
curl curl
pgrep procps
pkill procps
ps procps
END
# mpi is a bootstrap as well; shm's memory serves other transports. The rest is reached by the table.
for name in $(sed -nE 's/^HALAY_TRANSPORT\((\w+),.*/\1/p' base/transports.def | grep -vx -e mpi -e shm); do
    checks=$((checks + 1))
    places=$(grep -rn --include='*.[ch]' "\"$name\"" base collectives fusion launcher perf |
        grep -vE "^collectives/transport/$name/|:[0-9]+:( \*|[^\"]*/\*)" || :) # nor comments
    [ -z "$places" ] || wrong "transport '$name' is named outside its folder and base/transports.def: $places"
done
if [ -e .git ] && command -v git >/dev/null 2>&1; then
    # Automake names some files by their way from the build folder.
    way=$(realpath --relative-to="$top_builddir" . | sed 's/[.]/[.]/g')
    plain_make print-dist | sed "s|^$(pwd)/||; s|^$way/||" >"$scratch/packed"
    git ls-files -- . ':!debian' ':!.git*' >"$scratch/tracked"
    while read -r name; do
        checks=$((checks + 1))
        grep -qxF "$name" "$scratch/packed" || wrong "$name is tracked and no make dist packs it"
    done <"$scratch/tracked"
fi
build_end
