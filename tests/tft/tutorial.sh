#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The commands of docs/guides/tutorial.md, as they stand there but for the time of training and for ports: the table of
# a user's own, its forecast served and watched; what each writes is what the page shows.
. "${top_srcdir:?}/tests/tft/shell.sh"
needs_halayrun
needs curl python3 pkill
mkdir "$scratch/work"
cd "$scratch/work"
ln -s "$(cd "$OLDPWD" && cd "$top_srcdir" && pwd)/data" data
mkdir ../bin
ln -s "$tft" ../bin/halay-tft
ln -s "$halayrun" ../bin/halayrun
PATH=$scratch/bin:$PATH
# Each command into a file of its own: what follows "$ ", and the lines behind it that are indented further.
# The ports are bound, but not listening, until this test ends: the system gives them to no other program, and halay's,
# which set SO_REUSEADDR, can listen there.
mkfifo ../held
python3 -c 'import socket, sys
ports = [socket.socket(), socket.socket()]
for port in ports:
    port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    port.bind(("127.0.0.1", 0))
print(*(port.getsockname()[1] for port in ports), flush=True)
sys.stdin.read()' <../held >../ports &
exec 9>../held
until [ -s ../ports ]; do
    sleep 0.05
done
ports=$(cat ../ports)
sed -e "s/9309/${ports% *}/g; s/8080/${ports#* }/g" \
    -e "s/--max-time 120/--hidden-size 16 --max-steps 30 --eval-every 15 --valid-samples 500/" \
    "$top_srcdir/docs/guides/tutorial.md" | awk '
    /^    \$ / { file = sprintf("../command-%02d", ++count); print substr($0, 7) >file; next }
    /^      / && file { print >file; next }
    { file = "" }'
count=$(find .. -maxdepth 1 -name 'command-*' | wc -l)
[ "$count" -eq 13 ] || wrong "the page has $count commands"
say() {
    sh -e "../command-$1"
}
check "the table" say 01
[ "$(wc -l <load.csv)" -gt 100000 ] || wrong "$(wc -l <load.csv) rows"
check "1. prepare" say 02
grep -q '^preset  *every 1h, window 168 + 24; train < 2017-12-26 11:00:00, valid < 2018-04-15 06' "$scratch/said" ||
    wrong "$(cat "$scratch/said")"
pause_at model.safetensors sh -e ../command-03
until sh -e ../command-04 >"$scratch/status" 2>&1; do
    kill -0 $job 2>/dev/null || break
    sleep 0.05
done
go_on
status=0
wait $job || status=$?
mv "$scratch/said" "$scratch/trained"
[ $status -eq 0 ] || wrong "2. train: $(cat "$scratch/trained")"
grep -q "eval step=30 .* valid_p50=" "$scratch/trained" || wrong "2. train: $(cat "$scratch/trained")"
grep -q "of 2 ranks alive" "$scratch/status" || wrong "3. watch: $(cat "$scratch/status")"
check "4. evaluate" say 05
grep -q '^value of 168 steps before ' "$scratch/said" || wrong "$(cat "$scratch/said")"
check "5. report" say 06
grep -q '</html>' report.html || wrong "the report"
check "6. predict" say 07
check "its head" say 08
head -n 3 forecast.csv | cmp -s - "$scratch/said" || wrong "$(cat "$scratch/said")"
[ "$(wc -l <forecast.csv)" -eq 97 ] || wrong "the forecast has $(wc -l <forecast.csv) lines"
sh -e ../command-09 >"$scratch/serving" 2>&1
until curl -s "localhost:${ports#* }/ping" >/dev/null; do
    sleep 0.05
done
check "some weeks" say 10
check "8. ask" say 11
[ "$(grep -c '^DEOK,2018-08-03 00:00:00,2018-08-0[34] ' "$scratch/said")" -eq 24 ] || wrong "$(cat "$scratch/said")"
# The same numbers as those of the file, in which all zones were forecast.
grep ^DEOK "$scratch/said" >../served
grep ^DEOK forecast.csv | cmp -s - ../served || wrong "served: $(cat ../served), forecast: $(grep ^DEOK forecast.csv)"
check "9. its metrics" say 12
grep -q '^halay_tft_serve_requests_total{code="200"} 1$' "$scratch/said" || wrong "$(cat "$scratch/said")"
grep -q "^serving 'run' (step" "$scratch/serving" || wrong "7. serve: $(cat "$scratch/serving")"
status=0
sh -e ../command-13 >"$scratch/said" 2>&1 || status=$?
[ $status -eq 0 ] || [ $status -eq 3 ] || wrong "10. drift: $(cat "$scratch/said")"
grep -q '</html>' drift.html || wrong "the page of drift"
pkill -TERM -f "halay-tft serve run --listen ${ports#* }" || wrong "the server has ended"
cd /
finish
