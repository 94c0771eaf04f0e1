#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# halay-tft compare: a training with each strategy, number of ranks and type; a rank alone once; what it writes; what a
# comparison that was ended goes on with; a training that fails is a row like the others; what it refuses.
. "${top_srcdir:?}/tests/tft/shell.sh"
needs_halayrun
needs python3
data=$scratch/piece.htd out=$scratch/out
check "prepare" "$tft" prepare --schema "$top_srcdir/data/pjm.yaml" "$top_srcdir/data/pjm" -o "$data"
compare() {
    "$tft" compare --data "$data" --out "$out" --halayrun "$halayrun" --hidden-size 8 --heads 2 --batch-size 32 \
        --max-steps 10 --eval-every 5 --valid-samples 20 --deterministic ranks "$@"
}
check "compare" compare --strategies allreduce,zero2 --ranks 1,2 --price-per-hour 3600 --csv "$scratch/table.csv"
cp "$scratch/said" "$scratch/first"
grep -q '^3 of 3: zero2-2-f32, [0-9.]* samples/s, lowest validation loss' "$scratch/first" ||
    wrong "the third is not said: $(cat "$scratch/first")"
# Same losses, a course for each, efficiency against one rank, cost by time, bytes by strategy, no record left.
check "the numbers" python3 - "$out" "$scratch/table.csv" <<'END'
import csv, json, os, sys
o = json.load(open(sys.argv[1] + "/compare.json"))
rows = o["rows"]
assert [(r["strategy"], r["ranks"], r["dtype"]) for r in rows] == [
    ("allreduce", 1, "f32"), ("allreduce", 2, "f32"), ("zero2", 2, "f32")], rows
for r in rows:
    assert r["exit_code"] == 0 and r["steps"] == 10 and r["valid_loss"] == rows[0]["valid_loss"], r
    assert len(r["course"]) == 2 and min(l for _, l in r["course"]) == r["valid_loss"], r
    assert r["peak_bytes"] > 1e6 and r["seconds"] > 0 and abs(r["cost"] - r["seconds"]) < 1e-9, r
    speed = r["samples_per_second"] / rows[0]["samples_per_second"] / r["ranks"]
    assert abs(r["efficiency"] - speed) < 1e-9, r
table = list(csv.DictReader(open(sys.argv[2])))
sent = [float(r["sent_megabytes_a_step"]) for r in table]
assert sent[0] == 0 and sent[1] > 0 and abs(sent[2] / sent[1] - 1) < .05, sent
assert not [n for n in os.listdir(sys.argv[1]) if "flight" in n]
END
grep -q '<h1>Strategies compared</h1>' "$out/compare.html" && grep -q 'class="line naive"' "$out/compare.html" &&
    grep -q '</html>' "$out/compare.html" || wrong "the page"

# What is there is kept; what is missing is trained.
rm "$out/zero2-2-f32.json" "$out/compare.json"
rm -r "$out/zero2-2-f32"
sed 's/"samples_per_second": [0-9.]*/"samples_per_second": 12345.0/' "$out/allreduce-2-f32.json" >"$scratch/changed"
cp "$scratch/changed" "$out/allreduce-2-f32.json"
check "resume" compare --strategies allreduce,zero2 --ranks 1,2 --resume --json -
grep -q '"samples_per_second": 12345.0' "$scratch/said" || wrong "the row was made again"
[ -s "$out/zero2-2-f32/metrics.jsonl" ] || wrong "the missing one was not trained"

# A folder that holds a model already is refused by the training, not by the comparison.
rm "$out/allreduce-1-f32.json"
check "one fails" compare --strategies allreduce --ranks 1 --resume
grep -q 'allreduce-1-f32, ended with exit code 1 after .*: see ' "$scratch/said" || wrong "$(cat "$scratch/said")"
grep -q 'failed: 1$' "$scratch/said" || wrong "the table does not say it"
grep -q 'holds' "$out/allreduce-1-f32.log" || wrong "its output is lost: $(cat "$out/allreduce-1-f32.log")"

out=$scratch/none
refused 2 "'zero1,zero9' is no list of strategies" compare --strategies zero1,zero9
refused 2 "'1,,2' is no list of whole numbers" compare --ranks 1,,2
refused 2 "'0' is no list of whole numbers" compare --ranks 0
refused 2 "'f32,' is no list of types" compare --dtypes f32,
refused 2 "no program '$scratch/halayrun'" compare --halayrun "$scratch/halayrun"
data=$scratch/nothing
refused 1 "cannot open '$scratch/nothing'" compare
[ ! -e "$out" ] || wrong "a refused comparison leaves something behind"
finish
