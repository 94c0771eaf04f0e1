#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# perf/bench/plot: a PNG and an SVG from several reports, the same bytes from the same figures; it refuses other files.
. "${top_srcdir:?}/tests/perf/perf.sh"
command -v python3 >/dev/null 2>&1 || skip "no python3"

cat >"$scratch/one.json" <<'END'
{"op": "allreduce", "ranks": 2, "buffers": "shared", "results": [
 {"bytes": 4, "dtype": "f32", "time_us": 1.0, "busbw_gbs": 0.004, "roofline_percent": 10,
  "versus": [{"name": "openmpi", "time_us": 2.0, "ratio": 2.0}]},
 {"bytes": 65536, "dtype": "f32", "time_us": 4.0, "busbw_gbs": 16.4, "roofline_percent": 40,
  "versus": [{"name": "openmpi", "time_us": 24.0, "ratio": 6.0}]}]}
END
cat >"$scratch/roof.json" <<'END'
{"op": "roofline", "of": "broadcast", "ranks": 2, "buffers": "private", "results": [
 {"bytes": 65536, "dtype": "f32", "time_us": 4.0, "busbw_gbs": 16.4}]}
END
echo '{"op": "barrier", "ranks": 2, "results": [{"bytes": 0, "time_us": 0.5}]}' >"$scratch/barrier.json"
echo '{"op": "engine", "ranks": 2}' >"$scratch/engine.json"
echo 'no JSON' >"$scratch/text.json"
plot=$top_srcdir/perf/bench/plot

expect 0 "$plot" --help
says out 'python3-matplotlib'
expect 2 "$plot"
expect 2 "$plot" -o "$scratch/a.gif" "$scratch/one.json"
says err "'.*a.gif' ends neither in .png nor in .svg"
expect 1 "$plot" -o "$scratch/a.png" "$scratch/absent.json"
says err "cannot read '.*absent.json'"
expect 1 "$plot" -o "$scratch/a.png" "$scratch/text.json"
says err "'.*text.json' is no JSON"
expect 1 "$plot" -o "$scratch/a.png" "$scratch/engine.json"
says err 'it has no results'
expect 1 "$plot" -o "$scratch/a.png" "$scratch/barrier.json"
says err "op 'barrier' cannot be drawn"
[ ! -e "$scratch/a.png" ] || wrong "a picture of nothing"

# If no Python has it, the error names what is missing.
MPLCONFIGDIR=$scratch
export MPLCONFIGDIR
mkdir -p "$scratch/none/matplotlib"
echo 'raise ImportError' >"$scratch/none/matplotlib/__init__.py"
PYTHONPATH=$scratch/none expect 1 "$plot" -o "$scratch/a.png" "$scratch/one.json"
says err 'needs .*python3-matplotlib.*not installed: asked were .*python3'

# The program finds an interpreter that has it, even if it is not the first one.
if ! python3 -c 'import matplotlib' >/dev/null 2>&1 && ! /usr/bin/python3 -c 'import matplotlib' >/dev/null 2>&1; then
    [ "$faults" -eq 0 ] || perf_end
    skip "no matplotlib: nothing was drawn"
fi
expect 0 "$plot" --title Title --label 'this run' -o "$scratch/a.png" -o "$scratch/a.svg" "$scratch/one.json" \
    "$scratch/roof.json"
checks=$((checks + 4))
[ "$(head -c 4 "$scratch/a.png" | tail -c 3)" = PNG ] || wrong "a.png is no PNG"
for text in Title 'halay this run' 'openmpi this run' 'roofline of this run' \
    'roofline of broadcast f32, 2 ranks, private' '64 KB'; do
    grep -qF "<!-- $text -->" "$scratch/a.svg" || wrong "the picture does not say '$text'"
done
mv "$scratch/a.svg" "$scratch/first.svg"
expect 0 "$plot" --title Title --label 'this run' -o "$scratch/a.png" -o "$scratch/a.svg" "$scratch/one.json" \
    "$scratch/roof.json"
cmp -s "$scratch/first.svg" "$scratch/a.svg" || wrong "the same figures give another picture"
expect 1 "$plot" -o "$scratch/absent/a.png" "$scratch/one.json"
says err "cannot write '.*absent/a.png'"
perf_end
