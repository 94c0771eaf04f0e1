#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What halayrun tells of a job: metrics that a strict reader takes, ranks and what they wait for, on this host and on
# another, a rank that dies, a token, two jobs at once, the status in words, events that are whole.
. "$top_srcdir/tests/launcher/lib.sh" || exit 99

"$halayrun" --check-build | grep -q '\[x\] http' || skip "built without libmicrohttpd"
needs python3
watched=$top_builddir/tests/launcher/watched perf=$top_builddir/perf/halay-perf
fake=$top_srcdir/tests/launcher/fake_ssh
case $fake in /*) ;; *) fake=$PWD/$fake ;; esac
case $watched in /*) ;; *) watched=$PWD/$watched ;; esac
# How many records there are of this test's jobs, by their halayruns' numbers.
: >"$dir/pids"
records() { made_by <"$dir/pids" | grep -c '\.flight$'; }

# ask PATH [SOCKET]: its answer, in $dir/said; the status in $code.
cat >"$dir/ask.py" <<'END'
import socket, sys
path, where, token = (sys.argv[1:] + ["", ""])[:3]
s = socket.socket(socket.AF_UNIX)
s.connect(where)
token = "Authorization: Bearer %s\r\n" % token if token else ""
s.sendall(("GET %s HTTP/1.1\r\nHost: h\r\nConnection: close\r\n%s\r\n" % (path, token)).encode())
answer = b""
while True:
    more = s.recv(65536)
    if not more:
        break
    answer += more
head, body = answer.split(b"\r\n\r\n", 1)
sys.stdout.write(body.decode())
sys.exit(0 if head.startswith(b"HTTP/1.1 200") else 1)
END
ask() { python3 "$dir/ask.py" "$1" "${2:-$dir/socket}" "${3-}" >"$dir/said"; }
# says CODE: whether the answer of /ranks, r its ranks and job the rest, is so.
says() {
    ask /ranks "${2:-$dir/socket}" &&
        python3 -c 'import json, sys; o = json.load(sys.stdin); r, job = o["ranks"], o["job"]; sys.exit(not ('"$1"'))' \
            <"$dir/said"
}
# begin NAME ARGS...: a job in the background, $pid its halayrun.
begin() {
    local name=$1
    shift
    "$halayrun" "$@" >"$dir/out" 2>"$dir/err.$name" </dev/null &
    pid=$!
    echo $pid >>"$dir/pids"
}

# --- ranks and what they wait for ------------------------------------------------------------------------------------
begin one -np 2 --metrics "unix:$dir/socket" --events "$dir/events" "$watched" "$dir/go"
check "rank 0 waits" wait_for says 'r[0]["state"] == "waiting" and r[0]["waits_for"] == "late"'
check "since when" says 'r[0]["waits_seconds"] >= 0 and r[0]["last"] == "late" and r[0]["last_age_seconds"] >= 0'
check "not since it waited for an earlier one" says 'r[0]["waits_seconds"] <= r[0]["last_age_seconds"]'
check "rank 1 does not" says 'r[1]["state"] == "running" and r[1]["last"] == "first" and r[1]["submissions"] == 4'
check "what the program said" says 'r[0]["gauges"] == {"loss": 0.5, "step": 3} and r[1]["gauges"]["step"] == 3'
check "the processes" says 'r[0]["resident_bytes"] > 1e6 and r[0]["cpu_seconds"] >= 0 and r[0]["pid"] != r[1]["pid"]'
check "the job" says 'job["alive"] == job["ranks"] == 2 and job["state"] == "running" and job["restarts"] == 0'
check "health" ask /health
check "alive" ask /healthz
check "ready" ask /readyz
ask /metrics || true
cat >"$dir/strict.py" <<'END'
import re, sys
sample = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{([a-z_]+="([^"\\\n]|\\["\\n])*",?)*\})? '
                    r'(NaN|[+-]Inf|-?[0-9][0-9.e+-]*)$')
types, seen, current, count = {}, set(), None, 0
for line in sys.stdin.read().split("\n")[:-1]:
    if line.startswith("# TYPE "):
        _, _, name, kind = line.split(" ")
        assert name not in types and kind in ("counter", "gauge"), line
        types[name], current = kind, name
        continue
    if line.startswith("# HELP "):
        continue
    match = sample.match(line)
    assert match, "no sample: " + line
    assert match.group(1) == current, "out of its group: " + line
    assert match.group(1) + (match.group(2) or "") not in seen, "twice: " + line
    assert types[current] != "counter" or current.endswith("_total"), "a counter's name: " + line
    seen.add(match.group(1) + (match.group(2) or ""))
    float(match.group(5))
    count += 1
for want in ('halay_job_ranks_alive', 'halay_rank_up{rank="1",host="localhost"}',
             'halay_submissions_total{rank="0",host="localhost"}', 'halay_waiting_seconds{rank="0",host="localhost"}',
             'halay_program_value{rank="0",host="localhost",name="loss"}', 'halay_host_memory_bytes{host="localhost"}',
             'halay_process_resident_bytes{rank="1",host="localhost"}'):
    assert want in seen, "missing: " + want
sys.exit(count < 40)
END
check "who is behind" grep -q '^halay_submissions_behind{rank="1",host="localhost"} [1-9]' "$dir/said"
check "who is not" grep -q '^halay_submissions_behind{rank="0",host="localhost"} 0$' "$dir/said"
check "metrics that Prometheus reads" python3 "$dir/strict.py" <"$dir/said"
if command -v promtool >/dev/null; then
    check "as promtool says" promtool check metrics <"$dir/said"
    check "rules, too" promtool check rules "$top_srcdir/contrib/prometheus/rules.yml"
else
    echo "skipped: no promtool"
fi
for file in rules.yml dashboard.json; do
    grep -o 'halay_[a-z_]*' "$top_srcdir/contrib/prometheus/$file" | sort -u | while read -r name; do
        grep -q "^# TYPE $name " "$dir/said" || echo "$name"
    done >"$dir/unknown"
    check "$file asks for what there is: $(cat "$dir/unknown")" test ! -s "$dir/unknown"
done
check "the dashboard is JSON" python3 -m json.tool "$top_srcdir/contrib/prometheus/dashboard.json" /dev/null
check "no other path" eval '! ask /secret && grep -q "GET /metrics" "$dir/said"'
check "another one at the same place" eval '! "$halayrun" -np 1 --metrics "unix:$dir/socket" true 2>"$dir/err"'
check "is told why" err_has "cannot listen at '$dir/socket'"

# --- in words --------------------------------------------------------------------------------------------------------
run 0 --status "unix:$dir/socket"
check "how many" out_has "2 of 2 ranks alive"
check "who waits for what" grep -q '^   0 localhost  *waiting  *3  *0.5 .* waits [0-9.]* s for late$' "$dir/out"
check "who does not" grep -q '^   1 localhost  *running .* first$' "$dir/out"
run 0 --status "unix:$dir/socket" --dump "$dir/records"
check "and their records" out_has "2 records in '$dir/records': halay-perf flight show $dir/records/rank-*.flight"
"$top_builddir/perf/halay-perf" flight show "$dir"/records/rank-[01].flight >"$dir/out" # 1: the ranks differ
check "which say what rank 1 has not done" out_has "first difference: tensor 'late', submission 2: submitted by rank 0"
run 1 --status "unix:$dir/socket" --dump "$dir/no/records"
check "no folder for them" err_has "cannot make folder '$dir/no/records': No such file or directory"

# --- its end ---------------------------------------------------------------------------------------------------------
touch "$dir/go"
wait $pid
check "it ends" test $? = 0
check "the socket is gone" test ! -e "$dir/socket"
check "and the records" test "$(records)" = 0
run 1 --status "unix:$dir/socket"
check "nobody is there" err_has "no halayrun answers at 'unix:$dir/socket'"
for at in 0 65537 localhost:65616 [::1]:131072 localhost:-1 localhost:http localhost: nowhere; do
    run 1 --status "$at"
    check "no port in '$at'" err_has "no place to ask at: '$at'"
done
grep -q . /proc/net/if_inet6 2>/dev/null && six=yes || six=
for at in 0.0.0.0:0 ${six:+[::]:0}; do
    run 0 --metrics "$at" -np 1 true
    check "open to all at $at" err_has 'warning: any process that reaches that address can read the program'
done
for at in 0 127.0.0.1:0 ${six:+[::1]:0} localhost:0 "unix:$dir/socket"; do
    run 0 --metrics "$at" -np 1 true
    check "not at $at" eval '! err_has warning:'
done
run 2 --metrics nowhere -np 1 true
check "no place" err_has "cannot listen at 'nowhere'; expected PORT"

# --- a small /dev/shm, as in containers -------------------------------------------------------------------------------
small() { unshare --mount sh -c 'mount -t tmpfs -o size=$0 halay /dev/shm && exec "$@"' "$@" >"$dir/out" 2>"$dir/err"; }
if small 1m true; then
    touch "$dir/go"
    for size in 1m 16k; do
        small $size "$halayrun" -np 4 "$watched" "$dir/go"
        check "$size do not matter" test $? = 0 -a ! -s "$dir/err"
        small $size "$halayrun" -np 4 --metrics 0 "$watched" "$dir/go"
        check "$size are no reason to lose a watched job" test $? = 0
        check "$size: it is said, and what to do" test "$(grep -c "no room for .*HALAY_FLIGHT" "$dir/err")" -ge 1
    done
else
    echo "skipped: /dev/shm of another size, which is forbidden here"
fi

# --- a rank that dies, beside another job ----------------------------------------------------------------------------
begin two -np 2 --grace 20 --metrics "unix:$dir/other" --metrics-token-file "$dir/token" true
wait $pid
check "no token, no job" test $? = 2
echo s3cret >"$dir/token"
chmod 644 "$dir/token"
begin two -np 2 --metrics "unix:$dir/other" --metrics-token-file "$dir/token" true
wait $pid
check "one for all to read, no job" test $? = 2
chmod 600 "$dir/token"
begin two -np 2 --metrics "unix:$dir/other" --metrics-token-file "$dir/token" sleep 1000
other=$pid
begin one -np 2 --grace 600 --metrics "unix:$dir/socket" --events "$dir/events" sh -c \
    'trap "" TERM; echo $$ >"$0.$HALAY_RANK"; sleep 1000 & wait; wait' "$dir/rank"
check "two begin" wait_for test -s "$dir/rank.0" -a -s "$dir/rank.1"
check "ranks without an engine" says 'r[0]["state"] == "starting" and job["alive"] == 2'
kill -9 "$(cat "$dir/rank.1")"
check "its end is seen" wait_for says \
    'r[1]["state"] == "ended" and r[1]["exit_code"] == 137 and job["alive"] == 1 and job["state"] == "stopping"'
check "still alive" ask /healthz
check "not ready" eval '! ask /readyz && grep -q "1 of 2 ranks run" "$dir/said"'
check "the other job's token is wanted" eval '! ask /ranks "$dir/other"'
check "a wrong one is none" eval '! ask /ranks "$dir/other" s3cre'
check "with it, it tells" ask /ranks "$dir/other" s3cret
run 1 --status "unix:$dir/other"
check "words need it, too" err_has "it refuses to say: 401"
run 0 --status "unix:$dir/other" --metrics-token-file "$dir/token"
kill -9 $pid # and its events end with a whole line
check "the ranks are gone" wait_for eval 'is_gone "$(cat "$dir/rank.0")"'
check "the last event" wait_for eval 'tail -n 1 "$dir/events" | grep -q "\"event\":\"end\""'
kill $other
wait $other
check "the events" python3 -c '
import json, sys
events = [json.loads(line) for line in open(sys.argv[1])]
kinds = [e["event"] for e in events]
assert kinds[:3] == ["start", "rank_started", "rank_started"], kinds
assert kinds[3:6] == ["rank_ended", "rank_ended", "end"], kinds
assert events[5]["exit_code"] == 0 and events[5]["rank_seconds"] >= events[5]["seconds"] > 0, events[5]
assert kinds[6:] == ["start", "rank_started", "rank_started", "rank_ended", "rank_failed", "end"], kinds
assert events[5]["first_failure"] is None and events[5]["failed_rank_seconds"] == 0, events[5]
assert events[-2]["why"] == "killed by SIGKILL" and events[-1]["first_failure"] == events[-2], events
assert events[-2]["rank"] == 1 and events[-3]["exit_code"] == 137, events
assert all(a["time"] <= b["time"] for a, b in zip(events, events[1:]))' "$dir/events"

# --- what ranks did last, when one has failed -------------------------------------------------------------------------
# reads ON-HOST: the command that halayrun names works and finds what rank 1 has not done; then the files go.
reads() {
    local files
    files=$(sed -n "s/^halayrun: what its ranks did last$1: halay-perf flight show \(.*\)/\1/p" "$dir/err.one")
    "$top_builddir/perf/halay-perf" flight show $files >"$dir/out" # 1: the ranks differ
    rm -f $files
    out_has "first difference: tensor 'late', submission 2: submitted by rank 0"
}
# fails RANK ARGS...: a watched job whose rank 1 does not come, until a rank is killed.
fails() {
    local rank=$1
    shift
    rm -f "$dir/go"
    begin one -np 2 "$@" --metrics "unix:$dir/socket" "$watched" "$dir/go"
    check "rank 0 waits" wait_for says 'r[0]["state"] == "waiting" and r[1]["gauges"].get("step") == 3'
    kill -9 "$(python3 -c 'import json, sys; print(json.load(sys.stdin)["ranks"][int(sys.argv[1])]["pid"])' "$rank" \
        <"$dir/said")"
    wait $pid
    check "it has failed" test $? = 137
}
fails 1
check "the records are kept, and it is said how to read them" reads ""
for rank in 0 1; do
    fails $rank --ssh "$fake" -H "$(hostname):1,one:1"
    check "and those of another host, if rank $rank fails" reads ", on host 'one'"
done
check "no other ones" test "$(records)" = 0
begin one -np 2 --metrics "unix:$dir/socket" --ssh "$fake" -H "$(hostname):1,one:1" "$watched" "$dir/go"
check "rank 0 waits" wait_for says 'r[0]["state"] == "waiting" and r[1]["gauges"].get("step") == 3'
kill $pid
wait $pid
check "none if halayrun was told to stop" test $? = 143 -a "$(records)" = 0
begin one -np 2 --flight "$dir/own" sh -c 'test $HALAY_RANK = 1 || exec "$0" "$1"; : >"$2"; exit 3' "$watched" \
    "$dir/go" "$dir/own.1"
wait $pid
check "nor metrics are needed for that" grep -qF "halay-perf flight show $dir/own.*" "$dir/err.one"

# ends ARGS...: the same without metrics: the records show when rank 1 is missing.
ends() {
    begin one -np 2 "$@" sh -c 'echo $$ >"$2.$HALAY_RANK"; exec "$0" "$1"' "$watched" "$dir/go" "$dir/rank"
    check "the records show it meanwhile" wait_for eval \
        '"$perf" flight show $(echo $pid | made_by) 2>/dev/null | grep -q "not by rank 1"'
    kill -9 "$(cat "$dir/rank.1")"
    wait $pid
    check "it has failed" test $? = 137
}
rm -f "$dir/go"
ends
check "records are the default" reads ""
ends --ssh "$fake" -H "$(hostname):1,one:1"
check "on other hosts, too" reads ", on host 'one'"
check "no other ones" test "$(records)" = 0
touch "$dir/go"
begin one -np 2 --ssh "$fake" -H "$(hostname):1,one:1" "$watched" "$dir/go"
wait $pid
check "none after a job that has not failed" test $? = 0 -a "$(records)" = 0
begin one -np 2 sh -c 'exit 3'
wait $pid
check "nor a word, where no rank has an engine" eval '! grep -q "did last" "$dir/err.one"'
# Old records of failed jobs go, but not those that a process writes.
begin one -np 2 "$watched" "$dir/never"
check "a job" wait_for eval 'test "$(records)" = 2'
for pid_in_it in 1 $pid; do # init and halayrun live
    printf '%040d' 0 >"/dev/shm/halayrun-$pid-old$pid_in_it.flight"
    python3 -c 'import struct, sys; sys.stdout.buffer.write(struct.pack("q", int(sys.argv[1])) + bytes(200))' \
        $pid_in_it >>"/dev/shm/halayrun-$pid-old$pid_in_it.flight"
done
python3 -c 'import struct, sys; sys.stdout.buffer.write(bytes(40) + struct.pack("q", 0x7ffffff0) + bytes(200))' \
    >"/dev/shm/halayrun-$pid-old.flight"
cp "/dev/shm/halayrun-$pid-old.flight" "/dev/shm/halayrun-$pid-new.flight"
touch -d '2 days ago' /dev/shm/halayrun-$pid-old*.flight
run 0 -np 1 true
check "an old one is gone" test ! -e "/dev/shm/halayrun-$pid-old.flight"
check "others stay" test -e "/dev/shm/halayrun-$pid-new.flight" -a -e "/dev/shm/halayrun-$pid-old1.flight"
kill $pid
wait $pid
rm -f /dev/shm/halayrun-$pid-*.flight
HALAY_FLIGHT='' run 1 -np 1 printenv HALAY_DEFAULT_FLIGHT # an empty one is none

# --- stacks of all ranks, on request ----------------------------------------------------------------------------------
cat >"$dir/lost.py" <<'END'
import faulthandler, signal, sys, time
faulthandler.register(signal.SIGRTMAX - 2, file=2)

def lost_in_here():
    open(sys.argv[1], "w").close()
    time.sleep(1000)

lost_in_here()
END
rm -f "$dir"/ready.*
begin one -np 3 --ssh "$fake" -H "$(hostname):2,one:1" sh -c \
    'test $HALAY_RANK = 1 && : >"$1.1" && sleep 1000 || python3 "$0" "$1.$HALAY_RANK"' "$dir/lost.py" "$dir/ready"
check "they begin" wait_for test -e "$dir/ready.0" -a -e "$dir/ready.1" -a -e "$dir/ready.2"
kill -62 $pid
for rank in 0 2; do
    check "where rank $rank is" wait_for grep -q "^\[$rank\]! .* in lost_in_here" "$dir/err.one"
done
check "the others go on" eval 'sleep 0.2; kill -0 $pid && ! grep -q "ended" "$dir/err.one"'
kill $pid
wait $pid

# --- what failures cost ---------------------------------------------------------------------------------------------
run 3 -np 2 --max-restarts 1 --events "$dir/failures" sh -c 'exit 3'
check "who failed first, and what it cost" python3 -c '
import json, sys
events = [json.loads(line) for line in open(sys.argv[1])]
end = events[-1]
assert end["first_failure"] == [e for e in events if e["event"] == "rank_failed"][0], events
assert end["first_failure"]["why"] == "ended with exit code 3" and end["restarts"] == 1, end
assert 0 < end["failed_rank_seconds"] <= end["rank_seconds"], end' "$dir/failures"

# --- another host ----------------------------------------------------------------------------------------------------
rm "$dir/go"
begin one -np 2 --ssh "$fake" -H "$(hostname):1,one:1" --metrics "unix:$dir/socket" "$watched" "$dir/go"
check "a rank elsewhere" wait_for says \
    'r[1]["host"] == "one" and r[1]["gauges"].get("step") == 3 and r[0]["state"] == "waiting"'
ask /metrics || true
check "its host" grep -q '^halay_host_load{host="one"} ' "$dir/said"
rm -rf "$dir/records"
run 0 --status "unix:$dir/socket" --dump "$dir/records"
check "the records of both hosts" out_has "2 records in '$dir/records': halay-perf flight show "
"$perf" flight show "$dir"/records/rank-[01].flight >"$dir/out" # 1: the ranks differ
check "show who is missing" out_has "first difference: tensor 'late', submission 2: submitted by rank 0; not by rank 1"
check "no rank of that number" eval '! ask "/record?rank=2" && grep -q "below 2" "$dir/said"'
touch "$dir/go"
wait $pid
check "it ends well" test $? = 0
check "no record is left" wait_for eval 'test "$(records)" = 0'

# --- a rank whose first generation is not the job's -------------------------------------------------------------------
rm "$dir/go"
begin one -np 2 --flight "$dir/own-%r" --metrics "unix:$dir/socket" "$watched" "$dir/go"
steps='r[0]["gauges"].get("step") == r[1]["gauges"].get("step") == 3'
check "both are there" wait_for says "$steps"
mv "$dir/own-1" "$dir/own-1-generation3" # as it is named where two generations were formed without it
sleep 1.5                                # what was read is kept for a second
check "its record is found" says "$steps"
touch "$dir/go"
wait $pid
check "it ends well" test $? = 0

# --- mpirun's ranks -------------------------------------------------------------------------------------------------
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0" # Open MPI's
export OMPI_MCA_orte_tmpdir_base="${TMPDIR:-/tmp}" OMPI_MCA_btl_base_warn_component_unused=0
rm "$dir/go"
if write_mpirun "$dir/openmpi" openmpi; then
    PATH=$dir/openmpi:$PATH begin one --mpi --no-prefix -np 2 --metrics "unix:$dir/socket" "$watched" "$dir/go"
    check "mpirun's ranks: $(cat "$dir/err.one")" wait_for says \
        'r[0]["state"] == "waiting" and r[0]["waits_for"] == "late" and r[1]["gauges"].get("step") == 3'
    check "the job of mpirun" says 'job["alive"] == job["ranks"] == 2 and job["state"] == "running"'
    check "ready" ask /readyz
    touch "$dir/go"
    wait $pid
    code=$?
    check "it ends well: $(cat "$dir/err.one")" test $code = 0
    check "no record is left" wait_for eval 'test "$(records)" = 0'
fi
