#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The whole way on the piece of PJM in the tree, with a tiny model: it learns, and every command reads what the one
# before wrote; the same run twice, and on one thread and two, has the same bits.
. "${top_srcdir:?}/tests/tft/shell.sh"
data=$scratch/piece.htd
run=$scratch/run

check "prepare, which needs no peers" env WORLD_SIZE=4 RANK=2 MASTER_ADDR=localhost "$tft" prepare \
    --schema "$top_srcdir/data/pjm.yaml" "$top_srcdir/data/pjm" -o "$data"
grep -q '^entities  *4$' "$scratch/said" || wrong "four entities: $(cat "$scratch/said")"
grep -q '^rows  *105404$' "$scratch/said" || wrong "105,404 rows: $(cat "$scratch/said")"
grep -q '^rows doubled, merged  *12$' "$scratch/said" || wrong "12 doubled rows: $(cat "$scratch/said")"
grep -q '^rows missing, added  *12$' "$scratch/said" || wrong "12 missing rows: $(cat "$scratch/said")"

# With sanitizers (TEST_BRIEF) in fewer and larger steps.
if [ -n "${TEST_BRIEF-}" ]; then steps=12 rate=0.05 most=0.97; else steps=30 rate=0.01 most=0.9; fi
cat >"$scratch/config.yaml" <<END
hidden_size: 8
heads: 2
batch_size: 32
learning_rate: $rate
clip: 1
clip_mode: global
max_steps: $steps
eval_every: $((steps / 3))
valid_samples: 64
dropout: 0.9
END
train() {
    "$tft" train --data "$data" --config "$scratch/config.yaml" --dropout 0.1 "$@"
}
check "train" train --out "$run" --threads 2
grep -q "^eval step=$steps " "$scratch/said" || wrong "no line for the last evaluation"
[ "$(wc -l <"$run/metrics.jsonl")" -eq 3 ] || wrong "metrics.jsonl has not three lines"
grep -q '"dropout": 0.1' "$run/run.json" || wrong "the command line does not win over the file"

# What explain.sh checks with models that have learned; here it runs under sanitizers, too.
check "explain" "$tft" explain --checkpoint "$run" --data "$data" --stride 480 --json "$scratch/why.json" \
    --csv "$scratch/why" -o "$scratch/why.html"
check "predict --explain" "$tft" predict --checkpoint "$run" --split test --stride 480 "$top_srcdir/data/pjm" \
    --explain "$scratch/why.csv" -o "$scratch/p.csv"

# The validation loss fell.
losses=$(sed 's/.*"valid_loss":\([0-9.e-]*\),.*/\1/' "$run/metrics.jsonl")
echo "$losses" | awk -v most=$most 'NR == 1 { first = $1 } { last = $1 } END { exit !(last < most * first) }' ||
    wrong "validation losses did not fall:" $losses

refused 1 "use --resume to continue from them" train --out "$run"
rm -r "$run/checkpoints"
refused 1 "holds a run already" train --out "$run"

check "train again" train --out "$scratch/again" --threads 1
check "the same bits on one thread and two" cmp "$run/model.safetensors" "$scratch/again/model.safetensors"
check "train with another seed" train --out "$scratch/seed" --seed 2 --max-steps 1
if cmp -s "$run/model.safetensors" "$scratch/seed/model.safetensors"; \
    then wrong "another seed gave the same parameters"; fi

# More threads than a step has pieces of work.
check "train on eight threads" train --out "$scratch/eight" --threads 8 --max-steps 1
grep -q "^4 of 8 threads have nothing to do: a step of 32 samples is 4 pieces of work of 8; 'granule: 4' or\
 'batch_size: 64' occupies all" "$scratch/said" ||
    wrong "idle threads are not said: $(cat "$scratch/said")"
check "train with smaller granules" train --out "$scratch/granule" --threads 8 --max-steps 1 --granule 4
if grep -q "nothing to do" "$scratch/said"; \
    then wrong "threads are idle with enough granules: $(cat "$scratch/said")"; fi

# A learning rate is found, within the range that it tries, and nothing is written.
check "find a learning rate" train --find-learning-rate --threads 2 --hidden-size 4 --batch-size 8
grep -qE '^learning_rate: [0-9.]+e-0[1-5]$' "$scratch/said" || wrong "no learning rate: $(tail -n 3 "$scratch/said")"

check "evaluate" "$tft" evaluate --checkpoint "$run" --data "$data" --split test --stride 24 \
    --json "$scratch/scores.json" --csv "$scratch/scores.csv"
for key in split windows stride q_risk q_risk_by_horizon_mean mae rmse smape mase wql coverage_p10_p90 width \
    interval_score wis crps reliability pit crossing naive best_naive by_entity by_horizon; do
    grep -q "^ \"$key\":" "$scratch/scores.json" || wrong "evaluate --json has no key '$key'"
done
grep -q '^ "windows": 732,' "$scratch/scores.json" || wrong "evaluate has not 732 windows"
# The same as a table: all, 24 horizons, 4 entities.
[ "$(wc -l <"$scratch/scores.csv")" -eq 30 ] || wrong "evaluate --csv has not 30 lines"
for row in 'target,scope,name,values,q_risk_p10,.*,pit_p90_p100,crossing$' ',horizon,24,732,' ',entity,PJME,4391,'; do
    grep -q "^$row" "$scratch/scores.csv" || wrong "evaluate --csv lacks '$row': $(head -n 1 "$scratch/scores.csv")"
done
[ "$(sed -n 's/^ "crossing": \([^,]*\),*$/\1/p' "$scratch/scores.json")" = 0.0 ] || wrong "quantiles cross"
check "evaluate to standard output" "$tft" evaluate --checkpoint "$run" --data "$data" --stride 240 --json -
head -n 1 "$scratch/said" | grep -q '^{' || wrong "evaluate --json - prints something else than JSON"

refused 1 "cannot write '$scratch/no/scores.json'" "$tft" evaluate --checkpoint "$run" --data "$data" \
    --json "$scratch/no/scores.json"
if grep -q "windows" "$scratch/said"; then wrong "evaluate scored before it looked at --json"; fi

check "predict" "$tft" predict --checkpoint "$run" "$top_srcdir/data/pjm" -o "$scratch/end.csv"
[ "$(head -n 1 "$scratch/end.csv")" = "entity,origin,Datetime,horizon,load_0.1,load_0.5,load_0.9" ] ||
    wrong "predict's header"
[ "$(wc -l <"$scratch/end.csv")" -eq 97 ] || wrong "predict has not 4 x 24 rows"
grep -q '^COMED,2018-08-03 00:00:00,2018-08-03 01:00:00,1,[0-9]' "$scratch/end.csv" ||
    wrong "predict does not begin after the last row"
check "predict a split" "$tft" predict --checkpoint "$run" --split test --stride 1000 "$top_srcdir/data/pjm" \
    -o "$scratch/split.jsonl"
[ "$(wc -l <"$scratch/split.jsonl")" -eq 480 ] ||
    wrong "predict --split has not 4 x 5 x 24 rows: $(wc -l <"$scratch/split.jsonl")"
head='{"entity":"PJME","origin":"2018-01-31 23:00:00","Datetime":"2018-02-01 00:00:00","horizon":1,"load_0.1":'
grep -q "^$head" "$scratch/split.jsonl" || wrong "predict's JSON lines"

check "report" "$tft" report --run "$run" --data "$data" --stride 480 -o "$scratch/page.html"
grep -q '<h2>explanation</h2>' "$scratch/page.html" || wrong "the page explains nothing"
grep -q '<h3>occlusion</h3>' "$scratch/page.html" && wrong "the page has an occlusion that nobody asked for"
drawn "$scratch/page.html"
for part in '<h1>PJM hourly load' 'id="inputs"' 'Where attention looks' Reliability 'Coverage by horizon'; do
    shows "$part"
done
if grep -q 'Without each input' "$scratch/drawn" 2>/dev/null; then wrong "the page shows an occlusion"; fi
[ ! -e "$scratch/drawn" ] || [ "$(grep -c '<svg' "$scratch/drawn")" -ge 12 ] ||
    wrong "the page has not all its charts"
check "report --occlusion" "$tft" report --run "$run" --data "$data" --stride 480 --occlusion -o "$scratch/more.html"
grep -q '<h3>occlusion</h3>' "$scratch/more.html" || wrong "the page has no occlusion"
tail -n 1 "$scratch/page.html" | grep -q '</html>' || wrong "the page has no end"
if grep -qE '<script [^>]*src|src=|href=|https?://|url\(|@import|fetch\(' "$scratch/page.html"; then
    wrong "the page needs something from elsewhere"
fi
check "report without data" "$tft" report --run "$run" -o "$scratch/small.html"

# A run without its metrics has a page without curves; what follows a run continues its training.
cp -r "$run" "$scratch/bare"
rm "$scratch/bare/metrics.jsonl"
check "report without metrics" "$tft" report --run "$scratch/bare" -o "$scratch/small.html"
grep -q "the page has no loss curves" "$scratch/said" || wrong "report says nothing of metrics that are not there"
check "train from it" train --out "$scratch/onwards" --init-from "$run" --max-steps 1

# Data of another schema, a zone that was not trained on, damaged parameters.
sed 's/encoder: 72/encoder: 48/' "$top_srcdir/data/pjm.yaml" >"$scratch/other.yaml"
check "prepare otherwise" "$tft" prepare --schema "$scratch/other.yaml" "$top_srcdir/data/pjm" -o "$scratch/other.htd"
refused 1 "'window' differs" "$tft" evaluate --checkpoint "$run" --data "$scratch/other.htd"
cp "$top_srcdir/data/pjm/COMED_hourly.csv.gz" "$scratch/NEW_hourly.csv.gz"
refused 1 "entity 'NEW' was not seen in training" "$tft" predict --checkpoint "$run" "$scratch/NEW_hourly.csv.gz" \
    -o "$scratch/new.csv"
[ ! -e "$scratch/new.csv" ] || wrong "a failed predict left a file behind"
cp "$scratch/seed/model.safetensors" "$scratch/again/model.safetensors"
refused 1 "parameters of another run" "$tft" evaluate --checkpoint "$scratch/again" --data "$data"
cp "$run/model.safetensors" "$run/run.json" "$scratch/again"
printf '\377' | dd of="$scratch/again/model.safetensors" bs=1 seek=$(($(wc -c <"$run/model.safetensors") - 100)) \
    conv=notrunc 2>/dev/null
refused 1 "its parameters have another checksum" "$tft" evaluate --checkpoint "$scratch/again" --data "$data"
head -c 3000 "$run/model.safetensors" >"$scratch/again/model.safetensors"
refused 1 "cannot be read: " "$tft" evaluate --checkpoint "$scratch/again" --data "$data"

# Values that no float holds are refused. Those that it just holds give a loss that is not finite: training stops and
# says so, leaves nothing behind, and may be tried again in the same folder.
huge() {
    awk -v x="$1" 'BEGIN { print "t,v"; for (d = 1; d <= 20; d++) for (h = 0; h < 24; h++)
        printf "2020-01-%02d %02d:00:00,%s\n", d, h, x }'
}
cat >"$scratch/huge.yaml" <<'END'
id: {from: filename, pattern: "^(.*)_huge"}
time: {column: t}
every: 1h
inputs: {v: {column: v, role: target, scale: none}, hour: {calendar: hour, role: known}}
window: {encoder: 6, horizon: 2}
split: {train: "< 2020-01-15", valid: "< 2020-02-01"}
END
for value in 1e39 1e300 -1e999; do
    huge $value >"$scratch/X_huge.csv"
    refused 1 "X_huge.csv', row 2, column 'v': '$value' is not within" \
        "$tft" prepare --schema "$scratch/huge.yaml" "$scratch/X_huge.csv" -o "$scratch/huge.htd"
done
sed 's/: none/: standard/' "$scratch/huge.yaml" >"$scratch/scaled.yaml"
{ huge 1 | sed '2s/1$/1.000001/'; echo "2020-01-21 00:00:00,3e38"; } >"$scratch/X_huge.csv"
refused 1 "'X': input 'v' (column 'v') at 2020-01-21 00:00:00 is out of a float's range once scaled" \
    "$tft" prepare --schema "$scratch/scaled.yaml" "$scratch/X_huge.csv" -o "$scratch/huge.htd"
huge 3e38 >"$scratch/X_huge.csv"
check "prepare huge values" "$tft" prepare --schema "$scratch/huge.yaml" "$scratch/X_huge.csv" -o "$scratch/huge.htd"
refused 1 "is not finite" "$tft" train --data "$scratch/huge.htd" --out "$scratch/huge" --hidden-size 8
[ -z "$(ls "$scratch/huge")" ] || wrong "a failed training left files behind: $(ls "$scratch/huge")"
refused 1 "is not finite" "$tft" train --data "$scratch/huge.htd" --out "$scratch/huge" --hidden-size 8
refused 1 "holds no trained model" "$tft" evaluate --checkpoint "$scratch/huge" --data "$scratch/huge.htd"
finish
