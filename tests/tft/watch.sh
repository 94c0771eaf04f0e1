#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# halay-tft watch: follows a training to its end, a line for each evaluation; on a terminal the view, drawn over, with
# the job's ranks; says of one that has ended what it came to; tells one that was killed, stopped or failed from one
# that is done.
. "${top_srcdir:?}/tests/tft/shell.sh"
needs_halayrun
needs python3 pkill
data=$scratch/piece.htd run=$scratch/run
check "prepare" "$tft" prepare --schema "$top_srcdir/data/pjm.yaml" "$top_srcdir/data/pjm" -o "$data"
refused 1 "is no run, or its training has not begun" "$tft" watch "$run"
refused 2 "one folder RUN is missing" "$tft" watch
begin() {
    folder=$1
    shift
    "$@" "$tft" train --data "$data" --out "$folder" --hidden-size 8 --heads 2 --batch-size 16 --eval-every 20 \
        --valid-samples 50 --patience 100000 "$bound" "$limit" >"$scratch/trained" 2>&1 &
    training=$!
    until [ -s "$folder/metrics.jsonl" ] || ! kill -0 $training 2>/dev/null; do sleep 0.01; done
}
bound=--max-steps limit=300
begin "$run" env
"$tft" watch "$run" >"$scratch/lines" || wrong "it ended with $?"
grep -q '^step=300 epoch=1 seconds=.* valid_p90=' "$scratch/lines" || wrong "it ended before the training"
wait $training || wrong "train: $(cat "$scratch/trained")"
check "its lines" python3 - "$scratch/lines" "$run/metrics.jsonl" <<'END'
import json, sys
lines = open(sys.argv[1]).read().splitlines()
right = [json.loads(l) for l in open(sys.argv[2])]
assert lines.pop() == "the training has ended" and len(lines) == len(right) == 15, lines
for line, r in zip(lines, right):
    said = dict(w.split("=") for w in line.split() if "=" in w)
    assert int(said["step"]) == r["step"] and abs(float(said["valid_loss"]) / r["valid_loss"] - 1) < 1e-5, line
    assert line.endswith(" best") == r["best"], line
END
check "once" "$tft" watch "$run" --once
for text in '^.*/run: the training has ended; evaluated at step 300, epoch 1, after [0-9]* s$' \
    '^valid loss .*█.*▁.*  0\.[0-9]* (0\.[0-9]* to [0-9.]*)$' '^best  *0\.[0-9]* at step '; do
    grep -q "$text" "$scratch/said" || wrong "$text: $(cat "$scratch/said")"
done

# On a terminal, with the ranks of the job, until the training is stopped.
socket=$scratch/socket
bound=--max-time limit=200
begin "$scratch/ranks" "$halayrun" -np 2 --metrics "unix:$socket"
check "its checkpoints are among the metrics" python3 - "$socket" <<'END'
import socket, sys, time
end = time.monotonic() + 60
while time.monotonic() < end:
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(sys.argv[1])
        link.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        text = link.makefile().read()
    if 'halay_program_value{rank="0",host="localhost",name="checkpoint_step"} ' in text:
        sys.exit(0)
    time.sleep(.05)
sys.exit(1)
END
check "the view" python3 - "$tft" "$scratch/ranks" "unix:$socket" "$halayrun" "$training" <<'END'
import os, pty, signal, sys
tft, run, job, halayrun, training = sys.argv[1:]
pid, fd = pty.fork()
if not pid:
    os.execv(tft, [tft, "watch", run, "--job", job, "--halayrun", halayrun])
text, seen = b"", 4
try:
    while True:
        more = os.read(fd, 1 << 16)
        if not more:
            break
        text += more
        if seen and text.count(b"\033[H\033[J") >= seen:
            os.kill(int(training), signal.SIGTERM)
            seen = 0
except OSError:  # the other side is closed
    pass
assert os.waitpid(pid, 0)[1] == 0
views = text.decode().split("\033[H\033[J")
assert len(views) > 3 and "ranks: training; evaluated at step" in views[-2], views[-2:]
assert "2 of 2 ranks alive" in views[2] and "\n   1 localhost" in views[2], views[2]
assert "the training was stopped; evaluated at step" in views[-1] and "valid loss" in views[-1], views[-1]
END
wait $training || wrong "train: $(cat "$scratch/trained")"

# Killed, stopped, failed.
begin "$scratch/killed" env
check "while it runs" "$tft" watch "$scratch/killed" --once
grep -q 'killed: training; evaluated at step .* ago$' "$scratch/said" || wrong "$(cat "$scratch/said")"
pkill -KILL -f "train --data $data --out $scratch/killed" || wrong "it has ended by itself"
wait $training 2>/dev/null || true
check "killed" "$tft" watch "$scratch/killed"
grep -q '^the training died$' "$scratch/said" || wrong "$(cat "$scratch/said")"
begin "$scratch/stopped" env
kill -TERM $training
wait $training || true
check "stopped" "$tft" watch "$scratch/stopped" --once
grep -q 'stopped: the training was stopped; evaluated' "$scratch/said" || wrong "$(cat "$scratch/said")"
grep -q '"end": "stopped"' "$scratch/stopped/end.json" || wrong "$(cat "$scratch/stopped/end.json")"
cp -r "$scratch/stopped" "$scratch/failed"
sed -i 's/"stopped"/"failed"/' "$scratch/failed/end.json"
check "failed" "$tft" watch "$scratch/failed"
grep -q '^the training failed$' "$scratch/said" || wrong "$(cat "$scratch/said")"
finish
