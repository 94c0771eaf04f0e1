#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What the documents point at exists: links to files, paths in code marks, and functions named as `file:function`.
. "${top_srcdir:?}/tests/build/build.sh"
cd "$top_srcdir"

for page in *.md docs/*.md docs/*/*.md contrib/*/*.md sagemaker/*.md; do
    [ -f "$page" ] || continue
    folder=$(dirname "$page")

    # [text](path), unless it leads elsewhere; a part after # is a heading.
    grep -oE '\]\([^)]+\)' "$page" | sed 's/^](//;s/)$//;s/#.*//;s/ .*//' | grep -vE '^$|^[a-z]+:' | sort -u \
        >"$scratch/links" || true
    while read -r path; do
        checks=$((checks + 1))
        [ -e "$folder/$path" ] || wrong "$page: links to '$path', which does not exist"
    done <"$scratch/links"

    # `path/file.c:function`: the file holds a definition or a table entry of that name.
    grep -oE '`[a-z][A-Za-z0-9_/.-]+\.(c|h|def|sh):[A-Za-z_][A-Za-z0-9_]*(\(\))?`' "$page" | tr -d '`()' | sort -u \
        >"$scratch/functions" || true
    while read -r place; do
        checks=$((checks + 1))
        path=${place%:*} name=${place##*:}
        if [ ! -f "$path" ]; then
            wrong "$page: names '$place', and there is no '$path'"
        elif ! grep -qE "(^|[ *])$name\(|[ .]$name *=|(struct|enum) $name\b" "$path"; then
            wrong "$page: names '$place', and '$path' has no '$name'"
        fi
    done <"$scratch/functions"

    # `folder/…` in code marks, for the folders of this project; a star stands for any name.
    folders='base|collectives|fusion|tft|launcher|contrib|sagemaker|perf|python|tests|examples|docs|tools|include|m4'
    folders="$folders|data|\.ci"
    grep -oE '`('"$folders"')/[A-Za-z0-9_/.*-]*`' "$page" |
        tr -d '`' | sort -u >"$scratch/paths" || true
    while read -r path; do
        checks=$((checks + 1))
        # shellcheck disable=SC2086 # a pattern is meant
        ls -d $path >/dev/null 2>&1 || wrong "$page: names '$path', which does not exist"
    done <"$scratch/paths"
done
# The picture of the speed-ups is that of the results.
checks=$((checks + 1))
! command -v python3 >/dev/null 2>&1 || perf/bench/speedups --check 2>"$scratch/said" || wrong "$(cat "$scratch/said")"

# Each decision is in the index above them.
sed -n 's/^### //p' docs/DECISIONS.md | sort >"$scratch/entries"
sed -n '/^## Entries/q; s/^| .* | \[\(.*\)\](#.*/\1/p' docs/DECISIONS.md | sort >"$scratch/index"
checks=$((checks + 1))
diff "$scratch/entries" "$scratch/index" >"$scratch/differ" ||
    wrong "docs/DECISIONS.md: index and entries differ: $(cat "$scratch/differ")"

# Texts of errors that troubleshooting.md quotes, but those of others ("(of ...)"): each of their pieces between
# ellipses is in the sources, where a string may go on in the next line.
page=docs/guides/troubleshooting.md
find base collectives fusion launcher tft contrib sagemaker tools -type f ! -name '*.am' -exec cat {} + |
    tr -s '\n\t ' '   ' |
    sed 's/" *"//g; s/\\ / /g' >"$scratch/texts"
sed -n '/^| `/ { /^| `[^|]*(of /d; s/^| `\([^`]*\)`.*/\1/p; }' "$page" | sed 's/…/\n/g' | sed 's/^ *//; s/ *$//' |
    grep -E '.{6}' >"$scratch/quoted"
[ -s "$scratch/quoted" ] || wrong "$page: quotes no text"
while read -r text; do
    checks=$((checks + 1))
    grep -qF -e "$text" "$scratch/texts" || wrong "$page: quotes '$text', which no source says"
done <"$scratch/quoted"

# The tables of figures are what the results say.
checks=$((checks + 1))
! command -v python3 >/dev/null 2>&1 || perf/bench/tables --check >"$scratch/differ" 2>&1 ||
    wrong "tables differ from docs/performance/results: $(cat "$scratch/differ")"
build_end
