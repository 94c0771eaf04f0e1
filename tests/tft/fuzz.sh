#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# libFuzzer over everything that reads files, for some seconds: with TEST_HUGE=1, as the first phase of .ci/run sets it, or with
# FUZZ_SECONDS=N, and where clang has libFuzzer. What it finds is left in the build folder as fuzz-crash-*.
set -eu
: "${top_srcdir:?}" "${top_builddir:?}"
if [ -z "${FUZZ_SECONDS:-}" ] && [ -z "${TEST_HUGE:-}" ]; then
    echo "skipped: only with TEST_HUGE=1 or FUZZ_SECONDS=N"
    exit 77
fi
scratch=$(mktemp -d "${TMPDIR:-/tmp}/halay-test.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 99' HUP INT TERM
echo 'int LLVMFuzzerTestOneInput(const char *b, unsigned long n) { (void)b; (void)n; return 0; }' >"$scratch/try.c"
if ! clang -fsanitize=fuzzer,address "$scratch/try.c" -o "$scratch/try" 2>/dev/null; then
    echo "skipped: there is no clang with libFuzzer"
    exit 77
fi

mkdir "$scratch/seeds"
"$top_builddir/tests/tft/test_fuzz" "$scratch/seeds" >/dev/null
flags="-std=gnu11 -g -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined"
flags="$flags -D_GNU_SOURCE -DHAVE_CONFIG_H -I$top_builddir -I$top_srcdir -I$top_srcdir/include"
sources="tests/tft/fuzz_data.c"
for part in calendar csv data dictionary document encoding fit grid holidays htd inflate number paths place rows schema schema_inputs table \
    thread view windows; do
    sources="$sources tft/$part.c"
done
sources="$sources base/config.c base/log.c base/memory.c base/parse.c"
export scratch top_srcdir flags
# shellcheck disable=SC2086,SC2016 # words are meant; the inner shell expands
printf '%s\n' $sources | xargs -P 2 -I {} sh -c 'clang $flags -c "$top_srcdir/{}" -o "$scratch/$(echo {} | tr / -).o"'
clang -fsanitize=fuzzer,address,undefined "$scratch"/*.o -o "$scratch/fuzz" -ljansson -lyaml -lz -lm
"$scratch/fuzz" -max_total_time="${FUZZ_SECONDS:-8}" -timeout=20 -rss_limit_mb=3000 -max_len=8192 \
    -artifact_prefix="$top_builddir/fuzz-" -print_final_stats=1 "$scratch/seeds" >"$scratch/said" 2>&1 || {
    tail -n 60 "$scratch/said"
    exit 1
}
grep -E 'number_of_executed|cov:' "$scratch/said" | tail -n 2
