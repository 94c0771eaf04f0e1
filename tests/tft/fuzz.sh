#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# libFuzzer over everything that reads files: tests/fuzz/with_clang.
set -eu
: "${top_srcdir:?}"
sources="tests/tft/fuzz_data.c"
for file in "$top_srcdir"/tft/core/data/*.c; do
    sources="$sources tft/core/data/${file##*/}"
done
sources="$sources tft/core/kernels/thread.c base/bins.c base/config.c base/document.c base/error_text.c"
sources="$sources base/launchers.c base/log.c base/memory.c base/number_text.c base/output_file.c base/parse.c"
sources="$sources base/transports.c base/types.c base/machine/cgroup.c"
# shellcheck disable=SC2086 # words are meant
exec "$top_srcdir/tests/fuzz/with_clang" tests/tft/test_fuzz $sources -- -ljansson -lyaml -lz -lm
