#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# mypy finds nothing in the Python package; pyproject.toml says what it looks for. Skipped where it is not installed.
. "${top_srcdir:?}/tests/build/build.sh"
cd "$top_srcdir"

command -v mypy >/dev/null 2>&1 || skip "there is no mypy"
checks=1
mypy --cache-dir "$scratch/cache" >"$scratch/said" 2>&1 || wrong "$(cat "$scratch/said")"
build_end
