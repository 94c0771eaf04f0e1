#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# No code reads an error's text: an error has fields (halay_last_error, struct halay_tft_query). First checks itself.
. "${top_srcdir:?}/tests/build/build.sh"
cd "$top_srcdir"

# FILE:LINE:TEXT of each search in a text that has an error's name.
find_searches() {
    calls='(strstr|strcasestr|strn?cmp|strn?casecmp|sscanf|strtok)'
    texts='(error_text|last_error|->error\b|\.error\b|reason|\bwhy\b|failure)'
    grep -nE "$calls\([^;]*$texts" /dev/null "$@" || [ $? = 1 ]
}

# The texts of others, and those that are no error's: ssh's reason, and why an algorithm is chosen.
others='^(launcher/remote/call_hosts|perf/src/cli/cmd_doctor)\.c:'

printf '    if (strstr(halay_error_text(), "row"))\n' >"$scratch/bad.c"
printf '    if (strstr(line, "row"))\n' >"$scratch/good.c"
checks=$((checks + 2))
[ -n "$(find_searches "$scratch/bad.c")" ] || wrong "a search in an error's text is not found"
[ -z "$(find_searches "$scratch/good.c")" ] || wrong "a search in another text is taken for one in an error's"

checks=$((checks + 1))
for folder in base collectives fusion launcher tft perf contrib sagemaker; do
    find "$folder" -name '*.[ch]' -o -name '*.cu' 2>/dev/null || true
done >"$scratch/files"
xargs grep -lE . <"$scratch/files" >"$scratch/list"
# shellcheck disable=SC2046 # names without blanks
find_searches $(cat "$scratch/list") | grep -vE "$others" >"$scratch/found" || true
[ ! -s "$scratch/found" ] || wrong "an error's text is read: $(cat "$scratch/found")"

build_end
