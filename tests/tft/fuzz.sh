#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# libFuzzer over everything that reads files: tests/fuzz/with_clang.
set -eu
: "${top_srcdir:?}"
sources="tests/tft/fuzz_data.c"
for part in calendar csv data dictionary document_reader encoding fill fit holidays htd htd_sections inflate \
    number output_file paths rows schema schema_inputs series_grid table view windows; do
    sources="$sources tft/data/$part.c"
done
sources="$sources tft/kernels/thread.c base/config.c base/document.c base/error_text.c base/log.c base/memory.c"
sources="$sources base/parse.c base/types.c"
# shellcheck disable=SC2086 # words are meant
exec "$top_srcdir/tests/fuzz/with_clang" tests/tft/test_fuzz $sources -- -ljansson -lyaml -lz -lm
