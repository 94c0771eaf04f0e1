#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Forecasts from Python beside its neighbours: tables of Arrow, and scikit-learn's clone and search. PYTHON, if it
# is set, is the interpreter that has all of these.
. "$top_srcdir/tests/python/lib.sh"
[ -f "$top_builddir/.libs/libhalay-tft.so.1" ] || skip "no shared library of the trainer was built"
if [ -n "${PYTHON:-}" ]; then PATH=$(dirname "$PYTHON"):$PATH; fi
need pandas pyarrow sklearn
"$python" -W ignore "$top_srcdir/tests/python/tft_others.py"
echo "Arrow's tables and scikit-learn's tools: as pandas' own"
