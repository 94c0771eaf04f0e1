#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# PyTorch's parameters, read and written (torch_files.py).
. "$top_srcdir/tests/python/lib.sh"
[ -f "$top_builddir/.libs/libhalay-tft.so.1" ] || skip "no shared library of the trainer was built"
need numpy pandas
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
PATH=$(cd "$top_builddir" && pwd):$PATH # halay-tft
"$python" "$top_srcdir/tests/python/torch_files.py" "$top_srcdir" "$scratch"
