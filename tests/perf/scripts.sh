#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The scripts that measure (perf/bench): each runs with its smallest sizes, keeps its tables as JSON (--record), and
# perf/bench/tables makes a page's tables with the expected columns from them. Scripts that need a lab (root), SimGrid,
# Horovod or PyTorch run where that is available; elsewhere the test names them.
. "${top_srcdir:?}/tests/perf/perf.sh"
command -v python3 >/dev/null 2>&1 || skip "no python3"
bench=$top_srcdir/perf/bench tree=$scratch/tree left_out=''
results=$tree/docs/performance/results
mkdir -p "$results"
: >"$tree/README.md"
: >"$tree/docs/performance.md"

# script NAME ARGUMENT...
script() {
    name=$1
    shift
    expect 0 env PYTHONDONTWRITEBYTECODE=1 python3 "$bench/$name" --build "$top_builddir" --record "$results" "$@"
}

# table NAME COLUMNS: the result is whole, and becomes a table with these columns.
table() {
    if [ ! -f "$results/$1.json" ]; then
        wrong "there is no result '$1'"
        return
    fi
    holds "$results/$1.json" machine=string date=string command.0=string conditions=string origin=measured \
        columns=array rows.0=array
    printf '<!-- table: %s -->\n<!-- end -->\n' "$1" >>"$tree/docs/performance.md"
    echo "$2" >>"$scratch/columns"
}

script figures --quick --part barrier --part small-reduce-scatter --part engine
table barrier-2 '| bytes | algorithm | µs | bus GB/s |'
table small-reduce-scatter '| bytes | algorithm | µs | bus GB/s | % of roofline |'
table engine '| one cached 4 KB tensor | µs, median | 99th percentile | bare threads: µs, median | 99th percentile |'
expect 2 "$bench/figures" --build "$top_builddir" --part nothing
says err 'no measurement has a name that begins with nothing'
script engine --rounds 1 -n 3 -s 2 --models many-small tft-electricity
table engine-replay '| what | agreed on in each step | replayed | pure, or bare | replayed, times that | aim |'
says out '^\| messages of a step, all ranks \|'
script recorder --rounds 2 --models many-small
table recorder '| what | without | with | ratio | its quartiles |'
script algorithms -np 2 --rounds 1 -n 2 -b 1K -e 4K --only reduce
table algorithms '| bytes | operation | chosen | fastest | µs | ratio | others, µs |'
script elastic --kills 1
table elastic-commits '| state, bytes | a commit, µs |'
table elastic '|  | median, ms | worst, ms | noticed, ms | engine closed, ms | all have met, ms |'
script overlap --quick --part host
table overlap-host '| model | MB | communication, ms | MB/s | computing, ms | both, ms | hidden, % |'

script ranks --rounds 1 --steps 1 -- --hidden 8
table ranks '| round | 2 ranks, samples/s | 2 processes, samples/s | ratio, % | step, ms | sums under way, ms |'
script open --rows 300000 --ranks 2 --rounds 1
table open '| ranks | GB | job, s | on a small file, s | more, s | least, s | most, s |'
script prepare "$top_srcdir/examples/pjm.yaml" "$top_srcdir/data/pjm" --rounds 1
table prepare '| MB | best, s | best, MB/s | median, s | median, MB/s | first step, s |'
small='--hidden-size 4 --heads 1 --valid-samples 64'
# shellcheck disable=SC2086 # a list of words
script accuracy pjm "$top_srcdir/data/pjm" --steps 1+1 -- $small
table accuracy-pjm '|  | steps | P10 | P50 | P90 |'
says out '^\| test, value of 168 hours before \|  \| 0\.0532 \| 0\.1089 \| 0\.0612 \|$'
# shellcheck disable=SC2086
script intervals "$top_srcdir/data" --only demo -- --max-steps 1 $small
table intervals '|  | hold, % | by horizon | by entity | width | interval score |'
says out '^\| the demo, MW: `rolling` \| [0-9.]* \| [0-9]* to [0-9]* \|'
# shellcheck disable=SC2086
script cold pjm "$top_srcdir/data/pjm" --steps 1 --unseen DEOK -- $small
table cold '|  | not seen: P10 | P50 | P90 | seen: P10 | P50 | P90 |'
if grep -q avx512_bf16 /proc/cpuinfo; then
    # shellcheck disable=SC2086
    script bf16 "$top_srcdir/data/pjm" --steps 1 -- $small
    table bf16 '| products | validation loss | against f32, % |'
else
    left_out="$left_out bf16"
fi
if grep -q '^#define HALAY_HAVE_SIMGRID 1' "$top_builddir/config.h" && [ -f "$top_builddir/perf/halay-simulated.la" ]
then
    script simulate --built --networks flat --ranks 4 --sizes 1K --algorithms ring,direct
    table simulated-flat '| ranks | bytes | limit | ring | direct | ring ÷ its α-β | chosen | ÷ best |'
else
    left_out="$left_out simulate"
fi
if [ "$(id -u)" -eq 0 ] && lab=$(sh "$top_srcdir/tests/lab/lab" make --ssh 1 2>/dev/null); then
    sh "$top_srcdir/tests/lab/lab" remove "$lab"
    script overlap --quick --part hosts
    table overlap-hosts '| model | MB | communication, ms | MB/s | computing, ms | both, ms | hidden, % |'
    script hosts --quick --part start
    table hosts-start '| what | seconds |'
else
    left_out="$left_out hosts, overlap over two hosts"
fi

expect 0 env PYTHONDONTWRITEBYTECODE=1 python3 "$bench/tables" "$tree"
checks=$((checks + 1))
while read -r columns; do
    grep -qF "$columns" "$tree/docs/performance.md" || wrong "no table has the columns $columns"
done <"$scratch/columns"
expect 0 env PYTHONDONTWRITEBYTECODE=1 python3 "$bench/tables" --check "$tree"
echo "left out:$left_out versus_horovod.py, versus_python.py and versus_pytorch.py (played in their own tests)"
perf_end
