#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Every shell script of the project parses, reads $? before another command sets it, and shellcheck finds nothing to
# warn about (skipped where it is not installed).
. "${top_srcdir:?}/tests/build/build.sh"
cd "$top_srcdir"

find autogen.sh .ci containers perf tests tools launcher examples docs tft contrib sagemaker -type f \
    -exec grep -lE '^#!/bin/(ba)?sh|shellcheck shell=' {} + 2>/dev/null | grep -v '\.[ch]$' | sort >"$scratch/scripts"
while read -r script; do
    checks=$((checks + 1))
    shell="sh"
    if head -n 1 "$script" | grep -q bash; then shell=bash; fi
    $shell -n "$script" 2>"$scratch/said" || wrong "$(cat "$scratch/said")"
    # An assignment, a shift or a negation between a command and its $? sets it to 0.
    awk '/\$\?/ && !/[;&|].*\$\?/ && before ~ /^ *([a-zA-Z_]+=[^$(`]*|shift|:|if ! .*then)$/ {
            print FILENAME ":" FNR ": " $0
        }
        !/^ *(#|$)/ { before = $0 }' "$script" >"$scratch/said"
    [ ! -s "$scratch/said" ] || wrong "the status is lost: $(cat "$scratch/said")"
    # build.sh is read with a path that shellcheck cannot follow: what it sets is unknown to it.
    if command -v shellcheck >/dev/null 2>&1; then
        shellcheck -S warning -e SC1091,SC2010,SC2034,SC2154,SC2164 "$script" >"$scratch/said" 2>&1 ||
            wrong "$(cat "$scratch/said")"
    fi
done <"$scratch/scripts"
if [ "$faults" -eq 0 ] && ! command -v shellcheck >/dev/null 2>&1; then
    skip "shellcheck is not installed; $checks scripts were parsed only"
fi
build_end
