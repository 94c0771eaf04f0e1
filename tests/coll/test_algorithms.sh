#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A row of collectives/choose/algorithms.def has its file, which the documentation names; and no file is
# left that no row names.
#
# usage: test_algorithms.sh [--write]; with it, by hand in the build folder, docs/reference/algorithms.md gets the table
: "${top_srcdir:=..}" "${top_builddir:=.}"
page=$top_srcdir/docs/reference/algorithms.md
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
failed=0

complain() {
    echo "$*"
    failed=1
}

"$top_builddir/tests/coll/algorithms_table" >"$dir/is" || exit 99
[ -s "$dir/is" ] || exit 99
if [ "${1-}" = --write ]; then
    { sed '/^|---/q' "$page" && cat "$dir/is" && sed '1,/^|---/d' "$page" | sed '/^|/d'; } >"$dir/page" || exit 99
    cat "$dir/page" >"$page" || exit 99
fi

sed '1,/^|---/d; /^$/,$d' "$page" >"$dir/documented"
diff -u "$dir/documented" "$dir/is" ||
    complain "docs/reference/algorithms.md has not the table of algorithms.def: test_algorithms.sh --write mends it"

cut -d'|' -f4 "$dir/is" | tr -d ' ' | sort -u >"$dir/files"
while read -r file; do
    found=$(cd "$top_srcdir" && find collectives -name "$file")
    [ -n "$found" ] || complain "algorithms.def names $file, which is not in collectives/"
done <"$dir/files"

(
    cd "$top_srcdir" &&
        grep -lrE '^const struct halay_algorithm_ops halay_' collectives/messages collectives/shared
) >"$dir/paths"
while read -r path; do
    grep -qx "${path##*/}" "$dir/files" || complain "$path: no row of algorithms.def names it"
done <"$dir/paths"
exit $failed
