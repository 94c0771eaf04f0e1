#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The table in docs/reference/algorithms.md is the one that collectives/choose/algorithms.def gives, and each file that it names exists.
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
"$top_builddir/tests/coll/algorithms_table" > "$dir/is" || exit 99
[ -s "$dir/is" ] || exit 99
sed -n '/^|---/,/^$/p' "$top_srcdir/docs/reference/algorithms.md" | grep '^|' | sed 1d > "$dir/documented"
diff -u "$dir/documented" "$dir/is" || { echo "docs/reference/algorithms.md differs from collectives/choose/algorithms.def"; exit 1; }
for file in $(cut -d'|' -f4 "$dir/is"); do
    [ -n "$(find "$top_srcdir/collectives" -name "$file")" ] || { echo "no $file in collectives/"; exit 1; }
done
