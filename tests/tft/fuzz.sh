#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# libFuzzer over everything that reads files: tests/fuzz/with_clang.
set -eu
: "${top_srcdir:?}"
sources="tests/tft/fuzz_data.c"
for part in calendar csv data dictionary document encoding fill fit grid holidays htd inflate number paths place rows \
    schema schema_inputs table thread view windows; do
    sources="$sources tft/$part.c"
done
sources="$sources base/config.c base/log.c base/memory.c base/parse.c"
# shellcheck disable=SC2086 # words are meant
exec "$top_srcdir/tests/fuzz/with_clang" tests/tft/test_fuzz $sources -- -ljansson -lyaml -lz -lm
