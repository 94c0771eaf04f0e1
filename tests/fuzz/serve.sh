#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# libFuzzer over what halay-tft serve is asked: tests/fuzz/with_clang.
set -eu
: "${top_srcdir:?}"
exec "$top_srcdir/tests/fuzz/with_clang" tests/fuzz/serve tests/fuzz/serve.c tft/tools/serve/request.c \
    base/error_text.c base/number_text.c base/types.c -- -ljansson -lm
