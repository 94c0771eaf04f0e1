#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# halay-tft tune: the first trial is what was given; worse trials are stopped at rungs; a search that is killed again
# and again finds what one finds that is left alone; trials side by side, of several ranks; budgets; a signal; what
# comes of it (table, CSV, JSON, page, a configuration that trains to the same loss); trials that fail; what it refuses.
. "${top_srcdir:?}/tests/tft/shell.sh"
needs_halayrun
needs python3
data=$scratch/piece.htd out=$scratch/out space=$scratch/space.yaml
check "prepare" "$tft" prepare --schema "$top_srcdir/data/pjm.yaml" "$top_srcdir/data/pjm" -o "$data"
cat >"$space" <<'END'
learning_rate: {from: 0.0003, to: 0.03, scale: log}
hidden_size: [4, 8]
dropout: {from: 0, to: 0.3}
END
tune() {
    ${becomes-} "$tft" tune "$space" --data "$data" --out "$out" --halayrun "$halayrun" --hidden-size 8 --heads 2 \
        --batch-size 16 --max-steps 18 --valid-samples 16 "$@"
}
check "tune" tune --trials 6 --csv "$scratch/table.csv" --price-per-hour 3600
cp "$scratch/said" "$scratch/first"
given='learning_rate=0.003 hidden_size=8 dropout=0.1'
grep -q "^trial 0: valid_loss=.*done after 18 steps.* $given\$" "$scratch/first" ||
    wrong "the first trial is not what was given"
check "the numbers" python3 - "$out" "$scratch/table.csv" <<'END'
import csv, json, os, sys
folder = sys.argv[1]
o = json.load(open(folder + "/tune.json"))
rows = o["rows"]
assert [r["trial"] for r in rows] == list(range(6))
assert {r["state"] for r in rows} == {"done", "stopped"}, rows
best = min(rows, key=lambda r: r["value"])
assert o["best"] == best["trial"] and abs(o["cost"] - o["seconds"]) < 1e-6
rungs = [[], []]
for r in rows:  # one at a time, so each decision can be made again
    lines = [json.loads(l) for l in open(f"{folder}/trial-{r['trial']:04}/metrics.jsonl")]
    for k, step in enumerate((2, 6)):
        if r["rungs"] > k:
            rungs[k].append(min(l["valid_loss"] for l in lines if l["step"] <= step))
            better = sum(v < rungs[k][-1] for v in rungs[k])
            goes_on = better < -(-len(rungs[k]) // 3)
            assert goes_on == (r["rungs"] > k + 1 or r["state"] == "done"), (r, rungs)
    lowest = min(l["valid_loss"] for l in lines)
    assert r["state"] != "done" or (r["steps"] == 18 and abs(r["value"] - lowest) < 1e-12), r
    assert not os.path.exists(f"{folder}/trial-{r['trial']:04}/checkpoints")
    for key, value in r["keys"].items():
        given = json.load(open(f"{folder}/trial-{r['trial']:04}/run.json"))["config"][key]
        assert abs(float(given) - value) < 1e-12, (key, given, value)
keys = json.load(open(folder + "/best.json"))
assert {k: keys[k] for k in best["keys"]} == best["keys"] and "eval_every" not in keys, keys
table = list(csv.DictReader(open(sys.argv[2])))
assert [float(r["valid_loss"]) for r in table] == [float("%.9g" % r["value"]) for r in rows]
END
drawn "$out/tune.html"
[ ! -e "$scratch/drawn" ] || [ "$(grep -c '<title>trial' "$scratch/drawn")" -eq 6 ] ||
    wrong "the page has not all trials"
grep -q '<h2>rows</h2>' "$out/tune.html" && grep -q '</html>' "$out/tune.html" || wrong "the page"

# The best configuration, trained.
check "train the best" "$tft" train --data "$data" --out "$scratch/best" --config "$out/best.json" --eval-every 2
check "its loss" python3 - "$out/tune.json" "$scratch/best/metrics.jsonl" <<'END'
import json, sys
o = json.load(open(sys.argv[1]))
loss = min(json.loads(l)["valid_loss"] for l in open(sys.argv[2]))
assert abs(loss - o["rows"][o["best"]]["value"]) < 1e-12
END

# Killed where a trial begins and where it has a model, then at random moments, with whatever was under way.
alone=$out out=$scratch/killed kills=0
for name in run.json model.safetensors; do
    becomes="pause_at $name" tune --trials 6 --resume
    kill -KILL $job
    go_on
    wait $job 2>/dev/null && wrong "no signal kills it"
done
while [ $kills -lt 6 ]; do
    becomes='exec' tune --trials 6 --resume >"$scratch/said" 2>&1 &
    child=$!
    sleep "0.$(printf %02d $(((kills * 37 + 11) % 40 + 8)))"
    kill -KILL $child 2>/dev/null || break
    wait $child 2>/dev/null || kills=$((kills + 1))
done
check "resume" tune --trials 6 --resume
# A trial whose search was killed may have gone past the rung where it would have been stopped, up to its end.
check "the same trials" python3 - "$alone" "$out" <<'END'
import json, sys
def lines(folder, r):
    path = f"{folder}/trial-{r['trial']:04}/metrics.jsonl"
    return {l["step"]: (l["train_loss"], l["valid_loss"]) for l in map(json.loads, open(path))}
rows, others = [json.load(open(p + "/tune.json"))["rows"] for p in sys.argv[1:]]
assert len(rows) == len(others) == 6
rungs, done = [[], []], 0
for r, other in zip(rows, others):
    a, b = lines(sys.argv[1], r), lines(sys.argv[2], other)
    assert r["keys"] == other["keys"] and a.items() & b.items() == {(k, a[k]) for k in a.keys() & b.keys()}, (a, b)
    assert other["state"] in ("done", "stopped"), other
    assert other["state"] != "done" or abs(other["value"] - min(v for _, v in b.values())) < 1e-12, (other, b)
    done += r["state"] == other["state"] == "done" and r["value"] == other["value"]
    for k, step in enumerate((2, 6)):
        if other["rungs"] > k:
            rungs[k].append(min(b[s][1] for s in b if s <= step))
    if other["state"] == "stopped":
        values = rungs[other["rungs"] - 1]
        assert sum(v < values[-1] for v in values) >= -(-len(values) // 3), (other, rungs)
assert done > 0
END

# More of the same search; another one is refused.
check "more trials" tune --trials 7 --resume
grep -q '^7 trials in' "$scratch/said" || wrong "$(tail -n 1 "$scratch/said")"
refused 2 "has a search already: use --resume to continue it" tune --trials 7
refused 2 "another 'search-seed'" tune --trials 8 --resume --search-seed 2
refused 2 "another 'configuration'" tune --trials 8 --resume --batch-size 8

# Side by side, and of two ranks each; a word of the environment does not override what is searched.
out=$scratch/side
check "two at a time" env HALAY_TFT_DROPOUT=0.2 "$tft" tune "$space" --data "$data" --out "$out" --trials 5 \
    --halayrun "$halayrun" --parallel 2 --ranks 2 --hidden-size 8 --heads 2 --batch-size 16 --max-steps 6 \
    --valid-samples 16 --search random --eta 1 --goal q_risk
check "all done" python3 - "$out" <<'END'
import json, sys
o = json.load(open(sys.argv[1] + "/tune.json"))
assert [r["state"] for r in o["rows"]] == ["done"] * 5 and o["goal"] == "q_risk", o
assert o["rows"][0]["keys"]["dropout"] == .2
for r in o["rows"]:
    run = json.load(open(f"{sys.argv[1]}/trial-{r['trial']:04}/run.json"))["config"]
    assert abs(float(run["dropout"]) - r["keys"]["dropout"]) < 1e-12, (run, r)
END

# A grid has every combination, whole, in order, and no ranges of reals.
refused 2 "a grid has less than 10000 points" tune --search grid
out=$scratch/grid
printf 'dropout: [0, 0.1]\nheads: {from: 1, to: 2}\n' >"$scratch/grid.yaml"
check "grid" "$tft" tune "$scratch/grid.yaml" --data "$data" --out "$out" --halayrun "$halayrun" --search grid \
    --hidden-size 4 --heads 2 --batch-size 16 --max-steps 4 --valid-samples 16
check "all combinations" python3 - "$out" <<'END'
import json, sys
rows = json.load(open(sys.argv[1] + "/tune.json"))["rows"]
assert all(r["state"] == "done" and r["steps"] == 4 for r in rows), rows
found = [(r["keys"]["dropout"], r["keys"]["heads"]) for r in rows]
assert found == [(0.1, 2), (0, 1), (0, 2), (0.1, 1)], found  # what was given, then the others
END

# A budget of time cuts what runs; one of cost is one of time.
# A busy machine may come to no evaluation in so short a time.
for budget in "--time" "--price-per-hour 3600 --cost"; do
    for amount in 1 4 16 64; do
        rm -rf "$scratch/budget"
        out=$scratch/budget
        # shellcheck disable=SC2086 # words
        ! tune $budget $amount --max-steps 1000000 --eval-every 2 --eta 1 --patience 1000000 >"$scratch/said" 2>&1 ||
            break
    done
    grep -q '^    0 cut ' "$scratch/said" && pass || wrong "$(cat "$scratch/said")"
done
grep -q "cost [1-9]" "$scratch/said" || wrong "$(cat "$scratch/said")"

# A signal ends it, with what there is; its trial is not judged, and goes on.
out=$scratch/signal
becomes='exec' tune --max-steps 1000000 --eval-every 10 --trials 1 >"$scratch/said" 2>&1 &
child=$!
until [ -s "$out/trial-0000/metrics.jsonl" ] || ! kill -0 $child 2>/dev/null; do sleep 0.01; done
kill -TERM $child
status=0
wait $child || status=$?
[ $status -eq 143 ] || wrong "SIGTERM: it ended with $status: $(cat "$scratch/said")"
grep -q "interrupted; use --resume to continue" "$scratch/said" || wrong "$(cat "$scratch/said")"
grep -q '"state"' "$out/tune.jsonl" && wrong "the trial counts as ended"

# Trainings that fail: three in a row from the first on, and it gives up.
out=$scratch/failing
printf '{"keys": 1}' >"$scratch/bad.htd"
data=$scratch/bad.htd
refused 1 "the first 3 trials have failed: see '$out/trial-0002.log'" tune
grep -q 'failed with exit code 1: see' "$scratch/said" || wrong "$(cat "$scratch/said")"

data=$scratch/piece.htd out=$scratch/none
refused 2 "option --cost needs --price-per-hour" tune --cost 3
refused 2 "one file SPACE is missing" "$tft" tune --data "$data" --out "$out"
refused 2 "no program '$scratch/halayrun'" tune --halayrun "$scratch/halayrun" --ranks 2
printf 'max_steps: [10, 20]\n' >"$space"
refused 2 "all trials have to have the same" tune
printf 'loss: [quantiles, mae]\n' >"$space"
refused 2 "take --goal q_risk" tune
printf 'dropout: [0.1, 0.2\n' >"$space"
refused 1 "$space" tune
printf 'dropout: [0.1, 0.2]\n' >"$space"
refused 2 "option --hosts: a list" tune --hosts ,a
check "a space of two" tune --trials 9
grep -q '^no configuration is left that was not tried$' "$scratch/said" || wrong "$(cat "$scratch/said")"
out=$scratch/none2 data=$scratch/nothing
refused 1 "cannot open '$scratch/nothing'" tune
[ ! -e "$out" ] || wrong "a refused search leaves something behind"
finish
