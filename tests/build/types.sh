#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# mypy finds nothing in the Python package (pyproject.toml says what it looks for), and the wrong options in a program
# that uses it. Skipped where it is not installed.
. "${top_srcdir:?}/tests/build/build.sh"
cd "$top_srcdir"

command -v mypy >/dev/null 2>&1 || skip "there is no mypy"
checks=2
mypy --cache-dir "$scratch/cache" >"$scratch/said" 2>&1 || wrong "$(cat "$scratch/said")"
cat >"$scratch/program.py" <<'END'
import halay

ctx = halay.Context()
ctx.allreduce([1.0], name="right", reduction="max", prescale=0.5, timeout=10)
ctx.allreduce([1.0], op="max")
ctx.broadcast([1.0], splits=[1])
ctx.alltoall([1.0], name=1)
END
MYPYPATH=python mypy --cache-dir "$scratch/cache" "$scratch/program.py" >"$scratch/said" 2>&1 &&
    wrong "mypy finds nothing"
[ "$(grep -o '^[^:]*program.py:[0-9]*: error' "$scratch/said" | cut -d: -f2 | tr '\n' ' ')" = '5 6 7 ' ] ||
    wrong "mypy does not know the options: $(cat "$scratch/said")"
build_end
