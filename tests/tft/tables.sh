#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A small table, made here, with two targets of unlike units, missing values and a known column: what evaluate says of
# it is worked out again from the forecasts that predict writes and from the table itself.
. "${top_srcdir:?}/tests/tft/shell.sh"
# That two ranks have the bits of one: another phase looks.
[ -z "${TEST_BRIEF-}" ] || halayrun=$scratch/none
if [ -n "${TEST_BRIEF-}" ]; then train_epochs=1 train_every=4; else train_epochs=2 train_every=10; fi

# number FILE KEY...: the number under these keys of an object that evaluate wrote.
number() {
    file=$1
    shift
    awk -v path="$*" \
        '{ match($0, /^ */); depth = RLENGTH; key = $0; sub(/^ *"/, "", key); sub(/":.*/, "", key); at[depth] = key
        name = at[1]; for (i = 2; i <= depth; i++) name = name " " at[i]
        if (name == path) { sub(/.*: /, ""); sub(/,$/, ""); print; exit } }' "$file"
}
near() {
    echo "$2 $3" | awk '{ d = $1 - $2; exit !(NF == 2 && d * d <= 1e-10 * ($1 * $1 + 1e-12)) }' || wrong "$1: $2 and $3"
}

# Three entities of 300 hours; "heat" in hundreds with holes, "flow" in thousandths, known "price".
rows() {
    awk -v first="$1" -v last="$2" -v future="${3:-0}" \
        'BEGIN { print "t,id,heat,flow,price"; for (e = 0; e < 3; e++) for (i = first; i < last; i++) {
        price = int(i * 7 / 5 + e) % 11
        heat = 300 + 100 * e + 50 * sin(i / 24 * 6.2832 + e) + 3 * price + (i * 7919 % 13)
        flow = 0.004 + 0.002 * cos(i / 12 * 6.2832) + 0.0001 * (i * 104729 % 7)
        printf "%d,%s,%s,%s,%d\n", i, substr("abc", e + 1, 1), future || i % 17 == 3 ? "" : sprintf("%.4f", heat),
            future || i % 23 == 5 ? "" : sprintf("%.6f", flow), price } }' </dev/null
}
rows 0 300 >"$scratch/table.csv"
cat >"$scratch/schema.yaml" <<'END'
id: {column: id}
time: {column: t, integer: true}
season: 24
inputs:
  heat:  {column: heat, role: target, fill: interpolate}
  flow:  {column: flow, role: target, fill: forward, scale: log1p-standard}
  price: {column: price, role: known, per: all}
  id:    {from: id, role: static, type: category}
window: {encoder: 12, horizon: 4}
split: {train: "< 200", valid: "< 250", test: "< 300"}
END
data=$scratch/table.htd
check "prepare" "$tft" prepare --schema "$scratch/schema.yaml" "$scratch/table.csv" -o "$data"
grep -q '^windows test  *141 (60 of 1128 targets masked)$' "$scratch/said" ||
    wrong "windows and masked targets: $(grep windows "$scratch/said")"
train() {
    "$tft" train --hidden-size 8 --heads 2 --batch-size 32 --learning-rate 0.01 --clip 1 --clip-mode global \
        --epochs $train_epochs \
        --ema 0 --schedule constant --threads 1 --deterministic ranks --eval-every $train_every "$@"
}
run=$scratch/run
check "train" train --data "$data" --out "$run"
sed 's/.*"valid_loss":\([0-9.e-]*\),.*/\1/' "$run/metrics.jsonl" |
    awk 'NR == 1 { first = $1 } { last = $1 } END { exit !(last < 0.95 * first) }' ||
    wrong "validation losses did not fall: $(cat "$run/metrics.jsonl")"
grep -q '"valid_q_risk_by_horizon_mean":{"p10":' "$run/metrics.jsonl" || wrong "no q-risk by horizon in metrics.jsonl"

check "evaluate" "$tft" evaluate --checkpoint "$run" --data "$data" --json "$scratch/scores.json"
check "predict the split" "$tft" predict --checkpoint "$run" --split test "$scratch/table.csv" -o "$scratch/split.csv"
[ "$(wc -l <"$scratch/split.csv")" -eq $((1 + 141 * 4)) ] || wrong "predict has not 141 x 4 rows"
[ "$(head -n 1 "$scratch/split.csv")" = "id,origin,t,horizon,heat_0.1,heat_0.5,heat_0.9,flow_0.1,flow_0.5,flow_0.9" ] ||
    wrong "predict's columns: $(head -n 1 "$scratch/split.csv")"
sed -n 2,4p "$scratch/split.csv" | cut -d, -f1-4 >"$scratch/said"
printf 'a,249,250,1\na,249,251,2\na,249,252,3\n' | cmp - "$scratch/said" ||
    wrong "the order of rows: $(cat "$scratch/said")"
awk -F, -v OFS=, 'NR > 1 { print $1, $2, $3, $4, "heat", $5, $6, $7; print $1, $2, $3, $4, "flow", $8, $9, $10 }' \
    "$scratch/split.csv" >"$scratch/by_target"
# q-risk of all values and by horizon, their mean over the quantiles (WQL), mean absolute error and coverage, of each
# target; those that were measured count. MASE: each error over the mean change in 24 rows, of the entity's rows before
# the forecast's origin, a mean over the entities.
awk -F, \
    'NR == 1 { next } NR == FNR { if ($3 != "") y[$2, $1, "heat"] = $3; if ($4 != "") y[$2, $1, "flow"] = $4; next }
    !(($1, $2, $5) in unit) { sum_ = count = 0
        for (i = 24; i <= $2; i++) if (($1, i, $5) in y && ($1, i - 24, $5) in y) { d = y[$1, i, $5] - y[$1, i - 24, $5]
            sum_ += d < 0 ? -d : d; count++ }
        unit[$1, $2, $5] = sum_ / count }
    ($1, $3, $5) in y { v = y[$1, $3, $5]; split("0.1 0.5 0.9", level, " ")
        for (k = 1; k <= 3; k++) { d = v - $(5 + k); loss = d > 0 ? level[k] * d : (level[k] - 1) * d
            sum[$5, k] += loss; step[$5, k, $4] += loss }
        a = v < 0 ? -v : v; size[$5] += a; length_[$5, $4] += a; n[$5]++
        d = v - $7; d = d < 0 ? -d : d; error[$5] += d; scaled[$5, $1] += d / unit[$1, $2, $5]; mine[$5, $1]++
        inside[$5] += v >= $6 && v <= $8 }
    END { split("heat flow", names, " "); for (o = 1; o <= 2; o++) { t = names[o]; line = t
        for (k = 1; k <= 3; k++) line = line " " sprintf("%.12g", 2 * sum[t, k] / size[t])
        for (k = 1; k <= 3; k++) { m = 0; for (h = 1; h <= 4; h++) m += 2 * step[t, k, h] / length_[t, h] / 4
            line = line " " sprintf("%.12g", m) }
        wql = mase = 0; for (k = 1; k <= 3; k++) wql += 2 * sum[t, k] / size[t] / 3
        for (e = 1; e <= 3; e++) { id = substr("abc", e, 1); mase += scaled[t, id] / mine[t, id] / 3 }
        print line, sprintf("%.12g %.12g %.12g %.12g", wql, mase, error[t] / n[t], inside[t] / n[t]), n[t] } }' \
            "$scratch/table.csv" "$scratch/by_target" >"$scratch/again"
while read -r target p10 p50 p90 h10 h50 h90 wql mase mae inside n; do
    # shellcheck disable=SC2086
    for pair in "q_risk p10=$p10" "q_risk p50=$p50" "q_risk p90=$p90" "q_risk_by_horizon_mean p10=$h10" \
        "q_risk_by_horizon_mean p50=$h50" \
        "q_risk_by_horizon_mean p90=$h90" "wql=$wql" "mase=$mase" "mae=$mae" "coverage_p10_p90=$inside" "values=$n"; do
        near "$target ${pair%=*}" "$(number "$scratch/scores.json" targets $target ${pair%=*})" "${pair#*=}"
        pass
    done
done <"$scratch/again"
[ "$(wc -l <"$scratch/again")" -eq 2 ] || wrong "not two targets"
near "the mean of the targets" "$(number "$scratch/scores.json" q_risk p50)" \
    "$(awk '{ s += $3 / 2 } END { printf "%.12g", s }' "$scratch/again")"
[ -n "$(number "$scratch/scores.json" targets flow naive 24 plain p50)" ] ||
    wrong "no naive forecast of the second target"
[ -z "$(number "$scratch/scores.json" mae)" ] || wrong "an error in no unit"
check "report" "$tft" report --run "$run" --data "$data" -o "$scratch/page.html"
grep -q '<h4>flow</h4>' "$scratch/page.html" || wrong "the page has not the second target"
drawn "$scratch/page.html"
shows '<h3>flow</h3>'
shows 'WIS and CRPS are approximated by 3 quantiles'
# A single evaluation is a ring in the middle of its chart, where a line would show nothing.
cp -r "$run" "$scratch/once"
sed 1q "$run/metrics.jsonl" >"$scratch/once/metrics.jsonl"
check "report of one evaluation" "$tft" report --run "$scratch/once" -o "$scratch/once.html"
drawn "$scratch/once.html"
shows '<circle class="line"'
# Another season changes what the model is compared with, and nothing else; MASE is null, and says why, where
# each value is that of a season before.
sed 's/season: 24/season: [2, 200]/' "$scratch/schema.yaml" >"$scratch/other.yaml"
check "prepare with other seasons" "$tft" prepare --schema "$scratch/other.yaml" "$scratch/table.csv" \
    -o "$scratch/other.htd"
check "evaluate with other seasons" "$tft" evaluate --checkpoint "$run" --data "$scratch/other.htd" \
    --json "$scratch/other.json"
[ "$(number "$scratch/other.json" q_risk p50)" = "$(number "$scratch/scores.json" q_risk p50)" ] ||
    wrong "the season changes forecasts"
# All that is scored has a value some twos of steps before; of those 200 before some are missing, and there is no season
# before.
far=$(awk 'BEGIN { for (i = 250; i <= 296; i++) for (h = i; h < i + 4; h++) n += h % 17 != 3 && (h - 200) % 17 != 3
    print 3 * n }')
heat() { number "$scratch/other.json" targets heat "$@"; }
[ "$(heat naive 2 values) $(heat naive 200 values)" = "$(heat values) $far" ] ||
    wrong "how many naive values there are: $(cat "$scratch/other.json")"
[ "$(number "$scratch/other.json" targets heat mase)" != "$(number "$scratch/scores.json" targets heat mase)" ] ||
    wrong "mase has another scale"
check "evaluate, a table" "$tft" evaluate --checkpoint "$run" --data "$scratch/other.htd"
grep -q '^crps of 3 quantiles  *[0-9]' "$scratch/said" && grep -q '^wis of 3 quantiles  *[0-9]' "$scratch/said" ||
    wrong "CRPS and WIS of how many quantiles: $(cat "$scratch/said")"
grep -q '^last 2 steps repeated ' "$scratch/said" || wrong "no naive forecast of 2 steps: $(cat "$scratch/said")"
grep -q '^value of 200 steps before ' "$scratch/said" || wrong "no naive forecast of 200 steps: $(cat "$scratch/said")"
sed 's/season: 24/season: 200/' "$scratch/schema.yaml" >"$scratch/other.yaml"
awk -F, -v OFS=, 'NR > 1 { if ($1 < 200) { heat[$1, $2] = $3; flow[$1, $2] = $4 }
    $3 = heat[$1 % 200, $2]; $4 = flow[$1 % 200, $2] } { print }' "$scratch/table.csv" >"$scratch/again.csv"
check "prepare with a long season" "$tft" prepare --schema "$scratch/other.yaml" "$scratch/again.csv" \
    -o "$scratch/other.htd"
check "evaluate with a long season" "$tft" evaluate --checkpoint "$run" --data "$scratch/other.htd"
grep -q "^mase  *-   before the forecasts each value is that of 200 steps before$" "$scratch/said" ||
    wrong "no reason without MASE: $(cat "$scratch/said")"
check "report with a long season" "$tft" report --run "$run" --data "$scratch/other.htd" -o "$scratch/page.html"

# Where nothing can be said, as the q-risk of values that are all 0, no page says "nan".
awk -F, -v OFS=, 'NR > 1 && $1 >= 250 { if ($3 != "") $3 = 0; if ($4 != "" && $2 == "b") $4 = 0 } { print }' \
    "$scratch/table.csv" >"$scratch/zeros.csv"
check "prepare zeros" "$tft" prepare --schema "$scratch/schema.yaml" "$scratch/zeros.csv" -o "$scratch/zeros.htd"
check "report of zeros" "$tft" report --run "$run" --data "$scratch/zeros.htd" -o "$scratch/page.html"
drawn "$scratch/page.html"
[ ! -e "$scratch/drawn" ] || ! grep -qw 'NaN\|Infinity\|undefined' "$scratch/drawn" || wrong "charts say NaN"
sed -i '/^"use strict"/,$d' "$scratch/page.html"
if grep -qi '[>(" ,-]nan\b' "$scratch/page.html"; \
    then wrong "a page says nan: $(grep -oi '[^>]*>[^<]*\bnan\b[^<]*<' "$scratch/page.html" | head)"; fi

# Behind the end of a shorter table, with what a file says of the price to come: the forecasts are the split's.
# So they are where the table ends in a gap of both targets, which the split's rows close behind the origin.
for end in 259 250; do
    rows 0 $end >"$scratch/before.csv"
    rows 230 $((end + 5)) 1 | cut -d, -f1,2,5 >"$scratch/price.csv"
    check "predict the future of $end" "$tft" predict --checkpoint "$run" --future "$scratch/price.csv" \
        "$scratch/before.csv" -o "$scratch/end.csv"
    grep "^[abc],$((end - 1))," "$scratch/split.csv" >"$scratch/said"
    sed 1d "$scratch/end.csv" | paste -d, - "$scratch/said" |
        awk -F, '{ for (k = 1; k <= 4; k++) if ($k != $(k + 10)) exit 1
        for (k = 5; k <= 10; k++) { d = $k - $(k + 10); if (d * d > 1e-10 * $k * $k) exit 1 } }
        END { exit NR != 12 }' ||
        wrong "forecasts with a future are not those of the split: $(head -n 3 "$scratch/end.csv" "$scratch/said")"
done
refused 1 "known input 'price' is read from a column, which ends with the rows; give its future (--future)" \
    "$tft" predict --checkpoint "$run" "$scratch/before.csv" -o "$scratch/end.csv"
sed '/,c,/d' "$scratch/price.csv" >"$scratch/some.csv"
check "a future of two" "$tft" predict --checkpoint "$run" --future "$scratch/some.csv" "$scratch/before.csv" \
    -o "$scratch/end.jsonl"
grep -q "'c' is not forecast: .*some.csv' has no row of it" "$scratch/said" ||
    wrong "who has no future is not named: $(cat "$scratch/said")"
[ "$(wc -l <"$scratch/end.jsonl")" -eq 8 ] || wrong "not two entities are forecast"
sed '/^253,b,/d' "$scratch/price.csv" >"$scratch/some.csv"
refused 1 "'b' has no value for input 'price' (column 'price') at 253" \
    "$tft" predict --checkpoint "$run" --future "$scratch/some.csv" "$scratch/before.csv" -o "$scratch/none.csv"
sed '/^25[34],/d' "$scratch/price.csv" >"$scratch/some.csv"
refused 1 "some.csv' has no row of 'a' for 253; 4 steps after its last row are needed" \
    "$tft" predict --checkpoint "$run" --future "$scratch/some.csv" "$scratch/before.csv" -o "$scratch/none.csv"
sed 's/price/cost/' "$scratch/price.csv" >"$scratch/some.csv"
refused 1 "has no column 'price'" "$tft" predict --checkpoint "$run" --future "$scratch/some.csv" \
    "$scratch/before.csv" -o "$scratch/none.csv"
[ ! -e "$scratch/none.csv" ] || wrong "a failed predict left a file behind"

if [ -x "$halayrun" ]; then
    check "train on two ranks" "$halayrun" -np 2 "$tft" train --hidden-size 8 --heads 2 --batch-size 32 \
        --learning-rate 0.01 --clip 1 \
        --clip-mode global --epochs 2 --threads 1 --ema 0 --schedule constant --deterministic ranks --eval-every 10 \
        --data "$data" --out "$scratch/two"
    check "the same bits on two ranks" cmp "$run/model.safetensors" "$scratch/two/model.safetensors"
    check "predict on two ranks" "$halayrun" -np 2 "$tft" predict --checkpoint "$run" \
        --split test "$scratch/table.csv" -o "$scratch/two.csv"
    check "the same forecasts on two ranks" cmp "$scratch/split.csv" "$scratch/two.csv"
fi
# A backtest: origins each 8 steps of the split, 3 of a fit: 6 origins of 3 entities, 2 fits, of which the first is what
# train and evaluate make, and the second that of a table whose splits end 24 steps later.
backtest() {
    "$tft" backtest --data "$data" --stride 8 --fit-every 3 --hidden-size 8 --heads 2 --batch-size 32 \
        --learning-rate 0.01 --clip 1 --clip-mode global --epochs 1 --threads 1 --ema 0 --schedule constant \
        --deterministic ranks "$@"
}
check "backtest" backtest --out "$scratch/back" --json "$scratch/back.json" --forecasts "$scratch/back.csv"
[ "$(number "$scratch/back.json" windows)" = 18 ] ||
    wrong "the backtest has not 18 windows: $(cat "$scratch/back.json")"
grep -q '"first": "250"' "$scratch/back.json" && grep -q '"first": "274"' "$scratch/back.json" &&
    grep -q '"last": "290"' "$scratch/back.json" ||
    wrong "the backtest's fits: $(grep -A40 fits "$scratch/back.json")"
[ "$(head -n 1 "$scratch/back.csv")" = \
    "id,origin,t,horizon,heat,heat_0.1,heat_0.5,heat_0.9,flow,flow_0.1,flow_0.5,flow_0.9,fit" ] ||
    wrong "the header of a backtest's forecasts"
[ "$(sed 1d "$scratch/back.csv" | cut -d, -f2,13 | sort -u | tr '\n' ' ')" = "249,1 257,1 265,1 273,2 281,2 289,2 " ] ||
    wrong "the backtest's origins: $(sed 1d "$scratch/back.csv" | cut -d, -f2,13 | sort -u)"
awk -F, 'NR > 1 && $9 != "" { d = $9 - $11; loss += d < 0 ? -d : d; size += $9 }
    END { printf "%.12g", loss / size }' "$scratch/back.csv" >"$scratch/again"
awk -v a="$(number "$scratch/back.json" targets flow q_risk p50)" '{ d = $1 - a; exit !(d * d < 1e-12) }' \
    "$scratch/again" ||
    wrong "the backtest's q-risk is not that of its forecasts: $(cat "$scratch/again")"
check "the first fit by train" train --data "$data" --out "$scratch/first" --epochs 1 --eval-every 0
check "the same parameters" cmp "$scratch/back/fit-0001/model.safetensors" "$scratch/first/model.safetensors"
check "the second fit's data" sed -n 's/.*"train": "< \(.*\)".*/\1/p' "$scratch/back/fit-0002/run.json"
[ "$(cat "$scratch/said")" = 224 ] ||
    wrong "the second fit does not train on targets before 224: $(cat "$scratch/said")"
"$tft" predict --checkpoint "$scratch/back/fit-0002" --split test --stride 8 "$scratch/table.csv" \
    -o "$scratch/second.csv" >/dev/null
grep ',2$' "$scratch/back.csv" | cut -d, -f1-4,6-8,10-12 >"$scratch/got"
sed 1d "$scratch/second.csv" | awk -F, '$2 >= 273' | cmp -s - "$scratch/got" ||
    wrong "the second fit forecasts something else"
cp "$scratch/back.csv" "$scratch/once.csv"
rm -r "$scratch/back/fit-0002"
refused 1 "holds checkpoints already" backtest --out "$scratch/back"
check "resume a backtest" backtest --out "$scratch/back" --resume --forecasts "$scratch/back.csv" --json -
check "the same forecasts" cmp "$scratch/back.csv" "$scratch/once.csv"
check "backtest with a warm start" backtest --out "$scratch/warm" --warm-start --fit-every 4 \
    --forecasts "$scratch/warm.jsonl"
grep -q '"init_from": ".*fit-0001"' "$scratch/warm/fit-0002/run.json" || wrong "a warm start begins anew"
grep -q '"heat":null,"heat_0.1":.*,"fit":2}$' "$scratch/warm.jsonl" || wrong "JSON lines of a backtest"
refused 1 "a backtest needs a split after" backtest --out "$scratch/none" --split train
refused 2 "option --fit-every: 'x' is not a whole number" backtest --out "$scratch/none" --fit-every x
if [ -x "$halayrun" ]; then
    check "backtest on two ranks that share no files" apart 2 "$tft" backtest --data "$data" --stride 8 --fit-every 3 \
        --hidden-size 8 --heads 2 --batch-size 32 --ema 0 --schedule constant \
        --learning-rate 0.01 --clip 1 --clip-mode global --epochs 1 --threads 1 --deterministic ranks \
        --out b2 --forecasts "$scratch/b2.csv"
    [ ! -e "$scratch/host.1/b2" ] || wrong "rank 1 of a backtest writes"
    check "the same backtest on two ranks" cmp "$scratch/b2.csv" "$scratch/once.csv"
fi

# A target that validation has no value of keeps the weights of its blend: the model's and the best baseline's.
sed 's/role: target, fill: forward/role: target, blend: season, fill: forward/' "$scratch/schema.yaml" \
    >"$scratch/blank.yaml"
awk -F, -v OFS=, 'NR > 1 && $1 >= 200 && $1 < 250 { $4 = "" } { print }' "$scratch/table.csv" >"$scratch/blank.csv"
check "prepare without values in validation" "$tft" prepare --schema "$scratch/blank.yaml" "$scratch/blank.csv" \
    -o "$scratch/blank.htd"
check "train without values in validation" "$tft" train --data "$scratch/blank.htd" --out "$scratch/blank" \
    --max-steps 1 --hidden-size 2 --heads 1 --threads 1
grep -q "^'flow' is forecast by 0.50 the model, 0.50 season of 24$" "$scratch/said" ||
    wrong "weights of a blend without values in validation: $(cat "$scratch/said")"

# A refit is for what comes after the rows: the weights that are scored stay as they are. It has the same bits on two
# ranks, and where a run that is over gets one. Weights that it did not begin with do without it.
cp -r "$run" "$scratch/later"
check "train with a refit" train --data "$data" --out "$scratch/refit" --refit on
grep -q "^refit: [0-9]* steps with 855 windows of all rows (555 of training)" "$scratch/said" ||
    wrong "what a refit takes: $(grep refit "$scratch/said")"
check "the same first weights" cmp "$run/model.safetensors" "$scratch/refit/model.safetensors"
check "a refit by --resume" train --data "$data" --out "$scratch/later" --resume --refit on
check "the same refit" cmp "$scratch/refit/refit.safetensors" "$scratch/later/refit.safetensors"
check "evaluate a refitted run" "$tft" evaluate --checkpoint "$scratch/refit" --data "$data" \
    --json "$scratch/refit.json"
sed '/"refitted"/d' "$scratch/scores.json" >"$scratch/want"
sed '/"refitted"/d' "$scratch/refit.json" | cmp -s - "$scratch/want" || wrong "evaluate scores refitted weights"
grep -q '"refitted": false' "$scratch/refit.json" || wrong "evaluate does not say whose scores these are"
check "predict a split of a refitted run" "$tft" predict --checkpoint "$scratch/refit" --split test \
    "$scratch/table.csv" -o "$scratch/refit.csv"
check "forecasts of the first weights" cmp "$scratch/split.csv" "$scratch/refit.csv"
ahead() {
    "$tft" predict --checkpoint "$1" --future "$scratch/price.csv" "$scratch/before.csv" -o "$2"
}
ahead "$run" "$scratch/first.csv" >/dev/null && ahead "$scratch/refit" "$scratch/refit.csv" >/dev/null ||
    wrong "predict ahead"
if cmp -s "$scratch/first.csv" "$scratch/refit.csv"; then wrong "predict does not use the refit"; fi
at=$(($(wc -c <"$scratch/later/refit.safetensors") - 100))
byte=$(od -An -tu1 -j $at -N 1 "$scratch/later/refit.safetensors")
# shellcheck disable=SC2059 # its format is the byte
printf "\\$(printf %o $((255 - byte)))" |
    dd of="$scratch/later/refit.safetensors" bs=1 conv=notrunc seek=$at 2>/dev/null
check "predict beside a damaged refit" ahead "$scratch/later" "$scratch/damaged.csv"
grep -q "refit.safetensors' is not used: it cannot be read or is damaged" "$scratch/said" ||
    wrong "no warning of a damaged refit: $(cat "$scratch/said")"
check "forecasts without a damaged refit" cmp "$scratch/first.csv" "$scratch/damaged.csv"
{ LC_ALL=C sed 's/"run":"[0-9a-f]*"/"run":"00000000"/' "$scratch/refit/refit.safetensors"; echo longer; } \
    >"$scratch/later/refit.safetensors"
check "predict beside another run's refit" ahead "$scratch/later" "$scratch/other.csv"
if grep -q "refit" "$scratch/said"; then wrong "a warning of another run's refit: $(cat "$scratch/said")"; fi
check "forecasts without another run's refit" cmp "$scratch/first.csv" "$scratch/other.csv"
: >"$scratch/later/refit.safetensors"
check "replace a damaged refit" train --data "$data" --out "$scratch/later" --resume --refit on
check "the refit made anew" cmp "$scratch/refit/refit.safetensors" "$scratch/later/refit.safetensors"
sed 's/"refit": *"on"/"refit": "off"/' "$scratch/refit/run.json" >"$scratch/later/run.json"
check "predict with the key off" ahead "$scratch/later" "$scratch/off.csv"
check "forecasts with the key off" cmp "$scratch/first.csv" "$scratch/off.csv"
check "train on, after a refit" train --data "$data" --out "$scratch/later" --resume --epochs 3
sed 's/"refit": *"off"/"refit": "on"/' "$scratch/later/run.json" >"$scratch/said"
cp "$scratch/said" "$scratch/later/run.json"
[ -e "$scratch/later/refit.safetensors" ] || wrong "training on removes the refit"
ahead "$scratch/later" "$scratch/with.csv" >/dev/null
rm "$scratch/later/refit.safetensors"
ahead "$scratch/later" "$scratch/without.csv" >/dev/null
check "no refit of other weights" cmp "$scratch/with.csv" "$scratch/without.csv"
# What a run left beside a model that was removed goes, too.
rm -r "$scratch/later/model.safetensors" "$scratch/later/checkpoints"
: >"$scratch/later/refit.safetensors" && : >"$scratch/later/member-16.safetensors"
check "train in place of another run" train --data "$data" --out "$scratch/later" --max-steps 1
[ ! -e "$scratch/later/refit.safetensors" ] && [ ! -e "$scratch/later/member-16.safetensors" ] ||
    wrong "another run's weights stay"
# A backtest's fits are refitted with the rows before their split: what comes then changes no bit.
awk -F, -v OFS=, 'NR > 1 && $1 >= 250 && $3 != "" { $3 += 100 } { print }' "$scratch/table.csv" >"$scratch/changed.csv"
check "prepare other rows" "$tft" prepare --schema "$scratch/schema.yaml" "$scratch/changed.csv" \
    -o "$scratch/changed.htd"
for rows in table changed; do
    check "backtest with refits" backtest --data "$scratch/$rows.htd" --out "$scratch/$rows.fits" --fit-every 0 \
        --refit on --forecasts "$scratch/$rows.back"
done
check "refits of the same rows" cmp "$scratch/table.fits/fit-0001/refit.safetensors" \
    "$scratch/changed.fits/fit-0001/refit.safetensors"
forecasts_of() { # BACKTEST: as predict writes them
    sed 1d "$1" | cut -d, -f1-4,6-8,10-12
}
forecasts_of "$scratch/table.back" >"$scratch/got"
"$tft" predict --checkpoint "$scratch/table.fits/fit-0001" --split test --stride 8 "$scratch/table.csv" \
    -o "$scratch/want" >/dev/null
if sed 1d "$scratch/want" | cmp -s - "$scratch/got"; then wrong "a backtest does not use the refit"; fi
# Its first weights are those of the fit without a refit.
sed -n '1p;/,1$/p' "$scratch/back.csv" >"$scratch/first.back"
forecasts_of "$scratch/first.back" | sort >"$scratch/got"
sed 1d "$scratch/want" | awk -F, '$2 < 270' | sort | cmp -s - "$scratch/got" ||
    wrong "forecasts without a refit differ: $(head -n 2 "$scratch/got" "$scratch/want")"
if [ -x "$halayrun" ]; then
    check "a refit on two ranks" "$halayrun" -np 2 "$tft" train --hidden-size 8 --heads 2 --batch-size 32 \
        --learning-rate 0.01 --clip 1 --clip-mode global --epochs 2 --threads 1 --ema 0 --schedule constant \
        --deterministic ranks --eval-every 10 --data "$data" --out "$scratch/refit2" --refit on
    check "the same refit on two ranks" cmp "$scratch/refit/refit.safetensors" "$scratch/refit2/refit.safetensors"
fi

# Members: the first is what one training makes, the others those of the next seeds. Forecasts are the mean of their
# quantiles, on any number of ranks.
seeded() {
    seed=$1
    shift
    check "train from seed $seed" train --crossing forbid --calibrate none --epochs 1 --data "$data" --seed "$seed" "$@"
}
forecast_split() {
    check "predict by $1" "$tft" predict --checkpoint "$scratch/$1" --split test "$scratch/table.csv" \
        -o "$scratch/$1.csv"
}
for seed in 1 2 3; do
    seeded "$seed" --out "$scratch/seed$seed"
    forecast_split "seed$seed"
done
seeded 1 --out "$scratch/members" --members 3
check "the first member" cmp "$scratch/seed1/model.safetensors" "$scratch/members/model.safetensors"
check "the second member" cmp "$scratch/seed2/model.safetensors" "$scratch/members/member-2/model.safetensors"
forecast_split members
paste -d , "$scratch/seed1.csv" "$scratch/seed2.csv" "$scratch/seed3.csv" "$scratch/members.csv" |
    awk -F, 'NR > 1 { n++; for (k = 5; k <= 7; k++) { mean = ($k + $(k + 10) + $(k + 20)) / 3
        d = $(k + 30) - mean; if (d * d > 1e-6 * mean * mean) bad = bad " " NR } }
    END { if (bad || n != 564) print n, bad }' >"$scratch/said"
[ ! -s "$scratch/said" ] || wrong "forecasts are not the mean of the members': $(cat "$scratch/said")"
grep -q '"members": 1' "$run/run.json" && grep -q '"members": 3' "$scratch/members/run.json" || wrong "the key members"
refused 1 "a run of 3 members cannot be exported" "$tft" export --format onnx --checkpoint "$scratch/members" \
    -o "$scratch/none.onnx"
refused 1 "an elastic job trains one model" train --data "$data" --out "$scratch/none" --members 2 --elastic
refused 2 "'refit: on' trains one model on, not 2 members" train --data "$data" --out "$scratch/none" --members 2 \
    --refit on
refused 1 "holds a run already" train --data "$data" --out "$scratch/members" --members 3
echo '{"learning_rate": [0.01, 0.02]}' >"$scratch/space.json"
refused 2 "a search compares single models" "$tft" tune --data "$data" --out "$scratch/none" --trials 1 \
    --max-steps 1 --members 2 "$scratch/space.json"
if [ -x "$halayrun" ]; then
    check "predict by members on two ranks" "$halayrun" -np 2 "$tft" predict --checkpoint "$scratch/members" \
        --split test "$scratch/table.csv" -o "$scratch/two.csv"
    check "the same mean on two ranks" cmp "$scratch/members.csv" "$scratch/two.csv"
fi
# Those that are missing, or belong to other weights, are left out, with all others.
cp -r "$scratch/members" "$scratch/stale"
LC_ALL=C sed 's/"first":"[0-9a-f]*"/"first":"00000000"/' "$scratch/members/member-3.safetensors" \
    >"$scratch/stale/member-3.safetensors"
forecast_split stale
grep -q "forecasts by the first of its 3 members alone" "$scratch/said" || wrong "no warning of stale members"
check "the first member alone" cmp "$scratch/seed1.csv" "$scratch/stale.csv"
check "complete the members" train --crossing forbid --calibrate none --epochs 1 --data "$data" \
    --out "$scratch/stale" --members 3 --resume
check "completed members" cmp "$scratch/members/member-3.safetensors" "$scratch/stale/member-3.safetensors"
# As many as suit time and data; the steps of a limit say that one is meant.
timed() { # FOLDER MEMBERS OPTIONS...
    timed=$1
    members=$2
    shift 2
    check "train for half a minute" "$tft" train --hidden-size 4 --heads 1 --batch-size 64 --threads 1 --max-time 30 \
        --eval-every 2 --patience 1 --learning-rate 0.1 --calibrate none --data "$data" --out "$scratch/$timed" "$@"
    grep -q "\"members\": $members" "$scratch/$timed/run.json" || wrong "not $members members: $(cat "$scratch/said")"
    [ "$members" = 1 ] || [ -s "$scratch/$timed/member-$members.safetensors" ] || wrong "no member $members"
}
[ -n "${TEST_BRIEF-}" ] || timed timed_few 3
timed timed_steps 1 --max-steps 4
timed timed_refit 1 --refit on

# Shorter encoders: the windows at an entity's beginning, and an entity that has no other. What stands before one is not
# looked at: the forecast from seven rows is that of the window at the table's seventh, which lies before more rows of
# another entity.
cat >"$scratch/short.yaml" <<'END'
id: {column: id}
time: {column: t, integer: true}
inputs:
  heat:  {column: heat, role: target, fill: interpolate, per: all}
  step:  {calendar: steps, role: known, per: all}
  hot:   {column: price, role: observed, type: category, unknown: true}
window: {encoder: 12, horizon: 4, min_encoder: 3}
split: {train: "< 200", valid: "< 250"}
END
{ cat "$scratch/table.csv"; rows 0 7 | sed -n '/,a,/s/,a,/,d,/p'; } >"$scratch/short.csv"
check "prepare with shorter encoders" "$tft" prepare --schema "$scratch/short.yaml" "$scratch/short.csv" \
    -o "$scratch/short.htd"
# In a split the first windows are those with 3 to 11 rows before them.
grep -q '^windows train  *583 (28 with a shorter encoder) (' "$scratch/said" ||
    wrong "windows with a shorter encoder: $(grep windows "$scratch/said")"
check "train with shorter encoders" train --data "$scratch/short.htd" --out "$scratch/short"
check "evaluate with shorter encoders" "$tft" evaluate --checkpoint "$scratch/short" --data "$scratch/short.htd" \
    --split train --json "$scratch/short.json"
[ "$(number "$scratch/short.json" windows) $(number "$scratch/short.json" short_windows)" = "583 28" ] ||
    wrong "evaluate's windows"
check "report with shorter encoders" "$tft" report --run "$scratch/short" --data "$scratch/short.htd" \
    --split train -o "$scratch/page.html"
check "predict with shorter encoders" "$tft" predict --checkpoint "$scratch/short" "$scratch/short.csv" \
    --explain "$scratch/why.csv" -o "$scratch/end.csv"
grep -q '^4 windows, 1 of them with a shorter encoder$' "$scratch/said" ||
    wrong "predict's summary: $(cat "$scratch/said")"
check "predict the split with shorter encoders" "$tft" predict --checkpoint "$scratch/short" \
    --split train "$scratch/short.csv" -o "$scratch/split.csv"
grep '^d,6,' "$scratch/end.csv" | cut -d, -f3- >"$scratch/seven"
grep '^a,6,' "$scratch/split.csv" | cut -d, -f3- >"$scratch/seventh"
[ "$(wc -l <"$scratch/seven")" -eq 4 ] || wrong "no forecast from seven rows"
paste -d, "$scratch/seven" "$scratch/seventh" |
    awk -F, '{ for (k = 3; k <= 5; k++) { d = $k - $(k + 5); if (d * d > 1e-8 * $k * $k) exit 1 } }' ||
    wrong "what stands before a shorter encoder is looked at: $(paste "$scratch/seven" "$scratch/seventh")"
# Its explanation knows the seven rows and the horizon, and the last of these lags from the horizon's last step alone.
awk -F, '/^d,6,/ { for (i = NF - 15; i <= NF; i++) { n += $i != ""; sum += $i } } /^a,/ { full = $NF != "" }
    END { exit !(n == 11 && sum > 1 && full) }' "$scratch/why.csv" ||
    wrong "the explanation of a shorter encoder: $(cat "$scratch/why.csv")"
# With fewer rows than that, one is enough, they are forecast from what there is: a stranger in the training's terms.
{ head -n 1 "$scratch/table.csv"; rows 0 2 | sed -n '/,a,/s/,a,/,d,/p'; rows 0 30 | grep ',a,'; } >"$scratch/two.csv"
awk -F, -v OFS=, '{ print } $2 == "d" && !n++ { $2 = "e"; print; $2 = "f"; $3 = ""; print }' "$scratch/two.csv" \
    >"$scratch/few.csv"
check "predict from two rows and one" "$tft" predict --checkpoint "$scratch/short" "$scratch/few.csv" \
    -o "$scratch/end.csv"
grep -q "warning: 2 of 3 forecasts look back over fewer rows than any in training, .* ('d' first, 2)" "$scratch/said" &&
    grep -q '^3 windows, 2 of them with a shorter encoder$' "$scratch/said" &&
    grep -q "warning: 1 entities have no measured target and are not forecast" "$scratch/said" ||
    wrong "forecasts from few rows are not named: $(cat "$scratch/said")"
[ "$(cut -d, -f1 "$scratch/end.csv" | tr '\n' ' ')" = "id a a a a d d d d e e e e " ] ||
    wrong "forecasts from few rows: $(cat "$scratch/end.csv")"
! grep -q 'nan\|inf' "$scratch/end.csv" || wrong "a forecast from few rows is no number"
sed 's/heat, role: target/heat, lags: [6], role: target/' "$scratch/short.yaml" >"$scratch/lag.yaml"
check "prepare with a lag" "$tft" prepare --schema "$scratch/lag.yaml" "$scratch/table.csv" -o "$scratch/lag.htd"
check "train with a lag" train --data "$scratch/lag.htd" --out "$scratch/lag" --epochs 1 --calibrate none
check "predict from less than a lag" "$tft" predict --checkpoint "$scratch/lag" "$scratch/few.csv" -o "$scratch/end.csv"
grep -q "warning: 2 entities are not forecast: none of their rows has a value of every input and lag" \
    "$scratch/said" && grep -q '^1 windows$' "$scratch/said" ||
    wrong "series shorter than a lag are left out without a word: $(cat "$scratch/said")"

# Without a schema: steps of hours, days, business days, months and of no unit are found out.
series() { # FORMAT STEP ROWS: rows of two series at these moments
    awk -v n="$3" -v step="$2" -v form="$1" \
        'BEGIN { print "ds,y,unique_id,more"; for (i = 0; i < n; i++) { t = 1388534400 + i * step # 2014-01-01
        ds = form == "" ? i * step : strftime(form, t, 1)
        if (form == "%B") ds = sprintf("%d-%02d-31", 2014 + int(i / 12), i % 12 + 1)
        if (form == "%B") sub(/-31$/, substr("-31-28-31-30-31-30-31-31-30-31-30-31", i % 12 * 3 + 1, 3), ds)
        if (form == "%B" && i % 48 == 25) sub(/28$/, "29", ds) # February of leap years, 2016 first
        day = 1388534400 + i * 86400
        if (step == 3601) ds = strftime(form, 1388534400 + int(i / 9) * 86400 + (8 + i % 9) * 3600, 1) # 8 to 16 h
        if (step == 86401) { if (strftime("%u", day, 1) > 5) continue; ds = strftime(form, day, 1) }
        if (i % 9 != 4) print ds "," i % 7 ",s1,x"; if (i > n / 2) print ds "," 100 + i % 7 ",s2,x" } }' </dev/null \
            >"$scratch/long.csv"
}
preset() { # WHAT IT SAYS, OPTIONS...
    says=$1
    shift
    check "preset: $says" "$tft" prepare --preset long "$@" "$scratch/long.csv" -o "$scratch/long.htd"
    grep -qF "$says" "$scratch/said" || wrong "the preset is not '$says': $(cat "$scratch/said")"
}
series "" 5 400
preset "every 5, window 48 + 12; train < 1800, valid <= 1995"
check "train on the preset" train --data "$scratch/long.htd" --out "$scratch/long" --max-steps 2
check "evaluate on the preset" "$tft" evaluate --checkpoint "$scratch/long" --data "$scratch/long.htd"
grep -q "^valid: " "$scratch/said" && grep -q "warning: the data have no test split: these are the validation" \
    "$scratch/said" || wrong "the validation is not scored instead of a test: $(cat "$scratch/said")"
check "predict on the preset" "$tft" predict --checkpoint "$scratch/long" "$scratch/long.csv" -o "$scratch/end.csv"
# Rows at the end without a target are the first that are forecast, however many there are.
for more in 1 12 60; do
    awk -v n=$more '{ print } END { for (i = 1; i <= n; i++) print 1995 + 5 * i ",,s1,x\n" 1995 + 5 * i ",,s2,x" }' \
        "$scratch/long.csv" >"$scratch/future.csv"
    check "predict $more empty rows" "$tft" predict --checkpoint "$scratch/long" "$scratch/future.csv" \
        -o "$scratch/first.csv"
    check "$more empty rows are the future" cmp "$scratch/end.csv" "$scratch/first.csv"
done
# What rests on filled values only is named: a split's windows in a long gap.
awk -F, '!($1 > 1400 && $1 < 1900 && $3 == "s2")' "$scratch/long.csv" >"$scratch/hole.csv"
check "predict over a hole" "$tft" predict --checkpoint "$scratch/long" --split valid "$scratch/hole.csv" \
    -o "$scratch/hole.out.csv"
grep -q "warning: .* forecasts rest on filled values only: .*('s2' first)" "$scratch/said" ||
    wrong "forecasts from filled values are not named: $(cat "$scratch/said")"
preset "every 5, window 30 + 4; train < 1800" --encoder 30 --horizon 4
preset "every 5, window 48 + 12; train < 1600, valid < 1800, test <= 1995" --test
grep -q "^windows test  *[1-9]" "$scratch/said" || wrong "no test is held back: $(cat "$scratch/said")"
echo 10,99,s1,x >>"$scratch/long.csv"
preset "rows doubled, merged       1"
grep -q "warning: 1 rows have the series and time of another row .*'s1' has a second row for 10)" "$scratch/said" ||
    wrong "a doubled row is not named: $(cat "$scratch/said")"
series "" 5 400
# A split in which nothing fits is named.
cat >"$scratch/thin.yaml" <<'END'
preset: long
window: {encoder: 30, horizon: 4}
split: {train: "< 1600", valid: "< 1800", test: "< 1815"}
END
check "prepare with a thin split" "$tft" prepare --schema "$scratch/thin.yaml" "$scratch/long.csv" \
    -o "$scratch/thin.htd"
grep -q "warning: split 'test' has no window: no entity has 4 rows in it, and 3 before them" "$scratch/said" ||
    wrong "a split without windows is not named: $(cat "$scratch/said")"
series "%B" 0 200
preset "every 1M, window 36 + 12; train < 2029-01-31 00:00:00, valid <= 2030-08-31 00:00:00"
if awk 'BEGIN { exit !strftime("%Y", 0, 1) }' </dev/null 2>/dev/null; then
    series "%Y-%m-%d %H:%M:%S" 3600 1000
    preset "every 1h, window 168 + 24; train < 2014-02-07 12:00:00"
    series "%Y-%m-%d %H:%M:%S" 900 4000
    preset "every 15min, window 672 + 96"
    grep -q "^minute .* known" "$scratch/said" && grep -q "^hour .* known" "$scratch/said" ||
        wrong "the preset of quarters of an hour has no minute: $(cat "$scratch/said")"
    series "%Y-%m-%d" 86400 300
    preset "every 1d, window 81 + 28"
    series "%Y-%m-%d" 86401 300
    preset "every 1B, window 58 + 20"
    # Of 8 to 16 h of each day the next steps are the next day's.
    series "%Y-%m-%d %H:%M:%S" 3601 300
    preset "every 1h 08:00-16:00, window 63 + 9; train < 2014-01-31 08:00:00, valid <= 2014-02-03 10:00:00"
    check "train on hours of days" train --data "$scratch/long.htd" --out "$scratch/hours" --max-steps 1
    check "predict hours of days" "$tft" predict --checkpoint "$scratch/hours" "$scratch/long.csv" \
        -o "$scratch/end.csv"
    [ "$(grep '^s1,' "$scratch/end.csv" | cut -c32-36 | tr '\n' ';')" = \
        "03 11;03 12;03 13;03 14;03 15;03 16;04 08;04 09;04 10;" ] ||
        wrong "the next hours of days: $(cat "$scratch/end.csv")"
fi
# Each frequency from a table to scores, with no key: of one series, whose column of ids is not needed, or of two. The
# forecast begins at the row that would come next.
if awk 'BEGIN { exit !strftime("%Y", 0, 1) }' </dev/null 2>/dev/null; then
    (cd "$scratch" && awk 'function stamp(every, i, months) {
            months = every == "12M" ? 12 * i : every == "3M" ? 3 * i : i
            if (every ~ /M/) return sprintf("%d-%02d-01", 1970 + int(months / 12), months % 12 + 1)
            if (every == "1B") i = int(i / 5) * 7 + i % 5 - 2 # from Monday 2013-12-30 on
            if (every ~ /B|d|w/) return strftime("%Y-%m-%d", 1388534400 + (every == "1w" ? 7 : 1) * 86400 * i, 1)
            return strftime("%Y-%m-%d %H:%M:%S", 1388534400 + (every == "1h" ? 3600 : every * 60) * i, 1) }
        BEGIN { count = split("12M 3M 1M 1w 1B 1d 1h 30min 10min", names, " ")
            for (k = 1; k <= count; k++) { file = names[k] ".csv"; rows = k < 7 ? 60 : 170; many = k % 2
                print (many ? "unique_id," : "") "ds,y" >file
                for (s = 0; s <= many; s++) for (i = 0; i < rows; i++)
                    printf "%s%s,%d\n", many ? "s" s "," : "", stamp(names[k], i), 50 + 9 * s + i % 7 + i % 12 >file
                print names[k], 1 + many, stamp(names[k], rows) } }' </dev/null) >"$scratch/frequencies"
    while read -r every count next; do
        at=$scratch/every-$every
        check "prepare every $every" "$tft" prepare --preset long --encoder 8 --horizon 3 "$scratch/$every.csv" \
            -o "$at.htd"
        grep -q "every $every, window 8 + 3; " "$scratch/said" || wrong "not every $every: $(cat "$scratch/said")"
        check "train every $every" "$tft" train --data "$at.htd" --out "$at" --hidden-size 4 --heads 1 --max-steps 2 \
            --threads 1
        if grep -q "dead input" "$scratch/said"; then wrong "an input of no use: $(cat "$scratch/said")"; fi
        check "predict every $every" "$tft" predict --checkpoint "$at" "$scratch/$every.csv" -o "$at.csv"
        [ "$(wc -l <"$at.csv")" -eq $((1 + 3 * count)) ] && sed -n 2p "$at.csv" | grep -q ",$next.*,1,[-0-9]" ||
            wrong "forecasts every $every, from $next on: $(cat "$at.csv")"
        check "evaluate every $every" "$tft" evaluate --checkpoint "$at" --data "$at.htd"
        grep -q '^mase  *[0-9]' "$scratch/said" || wrong "no scores every $every: $(cat "$scratch/said")"
    done <"$scratch/frequencies"
    [ "$(wc -l <"$scratch/frequencies")" -eq 9 ] || wrong "not nine frequencies"
fi
refused 1 "for a horizon of 400 it needs 401 (or" \
    "$tft" prepare --preset long --horizon 400 "$scratch/long.csv" -o "$scratch/none.htd"
refused 2 "unknown preset 'wide'" "$tft" prepare --preset wide "$scratch/long.csv" -o "$scratch/none.htd"
refused 2 "go without --schema" "$tft" prepare --preset long --schema x "$scratch/long.csv" -o "$scratch/none.htd"
# A schema over the preset: names of columns, more inputs, a window; the rest is found.
series "" 5 400
cat >"$scratch/over.yaml" <<'END'
preset: long
window: {encoder: 30, horizon: 4}
END
preset "every 5, window 30 + 4; train < 1800" --encoder 30 --horizon 4
check "a preset's schema" "$tft" prepare --schema "$scratch/over.yaml" "$scratch/long.csv" -o "$scratch/over.htd"
grep -qF "every 5, window 30 + 4; train < 1800" "$scratch/said" || wrong "what was found is not said"
check "a schema over the preset changes nothing else" cmp "$scratch/long.htd" "$scratch/over.htd"
sed '1s/.*/when,load,series,more/' "$scratch/long.csv" >"$scratch/named.csv"
cat >"$scratch/over.yaml" <<'END'
preset: long
id: {column: series}
time: {column: when}
window: {encoder: 30, horizon: 4}
inputs:
  load: {column: load, role: target, per: entity}
  more: {column: more, role: observed, type: category}
END
check "columns by other names" "$tft" prepare --schema "$scratch/over.yaml" "$scratch/named.csv" -o "$scratch/over.htd"
grep -q "^more .* observed" "$scratch/said" && grep -q "^series .* static" "$scratch/said" ||
    wrong "inputs are missing: $(cat "$scratch/said")"
for key in 'csv: {separator: "long"}' 'every: 1h' 'window: 3' 'id: series' 'inputs: {y: 1}' \
    'id: {column: unique_id, constant: a}' 'split: {valid: last horizon, test: 3}'; do
    printf 'preset: long\n%s\n' "$key" >"$scratch/over.yaml"
    refused 1 "schema '" "$tft" prepare --schema "$scratch/over.yaml" "$scratch/long.csv" -o "$scratch/none.htd"
done
printf 'unique_id,ds,y\na,2020-01-01,1\n' >"$scratch/long.csv"
refused 1 "no series has two rows" "$tft" prepare --preset long "$scratch/long.csv" -o "$scratch/none.htd"
printf 'unique_id,ds,y\na,1,1\na,x,1\n' >"$scratch/long.csv"
refused 1 "row 3, column 'ds': 'x' is not a whole number" "$tft" prepare --preset long "$scratch/long.csv" \
    -o "$scratch/none.htd"

# Tables of few rows: whatever is held back, there is a window to train on.
lengths() { # ROWS:END...: series of so many rows, the last at this time
    for series; do echo "${series%:*} ${series#*:}"; done | awk 'BEGIN { print "unique_id,ds,y" }
        { for (i = 1; i <= $1; i++) printf "s%d,%d,%d\n", NR, $2 - $1 + i, i * 7 % 5 }' >"$scratch/few.csv"
}
few() { "$tft" prepare --preset long --encoder 6 --horizon 4 "$@" "$scratch/few.csv" -o "$scratch/few.htd"; }
for table in 13:50 14:50 16:50 17:50 "13:50 12:50" "13:50 10:40" "14:50 11:30 3:20" "13:50 9:50 2:50 1:50" \
    "40:50 5:50"; do
    # shellcheck disable=SC2086 # several series
    lengths $table
    check "prepare $table with a test" few --test
    for split in train valid test; do
        grep -q "^windows $split  *[1-9]" "$scratch/said" || wrong "$table has no $split: $(cat "$scratch/said")"
    done
done
for table in 12:50 "12:50 12:30"; do
    # shellcheck disable=SC2086
    lengths $table
    refused 1 "has 12 steps (1 each); for a horizon of 4 it needs 13 with a test" few --test
    check "prepare $table" few
    grep -q "^windows valid  *[1-9]" "$scratch/said" || wrong "$table has no valid: $(cat "$scratch/said")"
done
# shellcheck disable=SC2046
lengths 13:50 $(yes 12:50 | head -n 11)
check "prepare few trained" few --test
grep -q "warning: 1 of 12 series have more than the 12 steps" "$scratch/said" && grep -q "^windows test  *12" \
    "$scratch/said" || wrong "few series are trained beside a test: $(cat "$scratch/said")"

# Training leaves out windows of little past, as far as half of the series have others.
least() { # LEAST ROWS:END...
    expected=$1
    shift
    lengths "$@"
    "$tft" prepare --preset long --encoder 6 --horizon 4 --print-schema "$scratch/few.csv" >"$scratch/said" 2>&1
    grep -q "\"min_encoder\": $expected$" "$scratch/said" || wrong "$*: not $expected: $(cat "$scratch/said")"
}
least 3 40:50
least 3 40:50 40:50 9:50
least 2 40:50 10:50 9:50
least 1 13:50 9:50 9:50
yes 1 | head -n 60 | awk 'BEGIN { print "unique_id,ds,y" }
    { printf "a,%d-%02d-01,%d\n", 2000 + int(NR / 4), NR % 4 * 3 + 1, NR * 7 % 5 }' >"$scratch/quarters.csv"
for horizon in 4 8; do
    "$tft" prepare --preset long --horizon $horizon --print-schema "$scratch/quarters.csv" >"$scratch/said" 2>&1
    grep -q "\"encoder\": $((horizon > 4 ? 20 : 12))," "$scratch/said" ||
        wrong "the past of $horizon quarters: $(cat "$scratch/said")"
done

# A series of twenty horizons has parameters of its own, and a shorter one has not.
for lacks in 0 1; do
    lengths 80:90 $((80 - lacks)):90
    check "two series" few
    [ "$(grep -c "^unique_id .* static" "$scratch/said")" = $((1 - lacks)) ] ||
        wrong "the id of series of $((80 - lacks)) rows: $(cat "$scratch/said")"
done

# Of a hundred series without an id the target's size is an input; not of fewer, or of longer ones.
sized() { # WHETHER ROWS SERIES
    # shellcheck disable=SC2046
    lengths $(yes "$2:90" | head -n "$3")
    check "prepare $3 series" few
    [ "$(grep -c "^size  *y  *observed  *standard" "$scratch/said")" = "$1" ] ||
        wrong "$3 series of $2 rows: $(cat "$scratch/said")"
}
sized 0 80 100
sized 0 30 99
sized 1 30 100
echo '{"preset": "long", "inputs": {"of": {"column": "y", "role": "target"}}}' >"$scratch/sizes.json"
check "prepare a schema's target" "$tft" prepare --schema "$scratch/sizes.json" "$scratch/few.csv" -o "$scratch/of.htd"
grep -q "^size  *y  *observed" "$scratch/said" || wrong "a schema's target has no size: $(cat "$scratch/said")"
check "train with sizes" train --data "$scratch/few.htd" --out "$scratch/sizes" --max-steps 2
sed '/,90,/s/[^,]*$/-900/; s/^s7,/new,/' "$scratch/few.csv" >"$scratch/sized.csv"
check "predict a new series below 0" "$tft" predict --checkpoint "$scratch/sizes" "$scratch/sized.csv" -o \
    "$scratch/end.csv"
[ "$(grep -c "^new,.*,[-0-9.e]*,[-0-9.e]*,[-0-9.e]*$" "$scratch/end.csv")" = 4 ] ||
    wrong "forecasts of a new series: $(grep new "$scratch/end.csv")"

# A horizon that no series is longer than is shorter, unless it is given; series that are not longer are forecast.
for table in "10:50 7:50" 12:50 3:50 2:50; do
    # shellcheck disable=SC2086
    lengths $table
    rows=${table%%:*}
    horizon=$(((rows - 1) / 2 ? (rows - 1) / 2 : 1))
    check "a shorter horizon for $table" "$tft" prepare --preset long "$scratch/few.csv" -o "$scratch/few.htd"
    grep -q "warning: the longest series has $rows steps: the horizon is $horizon, not 12" "$scratch/said" &&
        grep -q "^windows train  *[1-9]" "$scratch/said" || wrong "horizon for $table: $(cat "$scratch/said")"
    refused 1 "has $rows steps (1 each); for a horizon of 12 it needs 13" "$tft" prepare --preset long --horizon 12 \
        "$scratch/few.csv" -o "$scratch/none.htd"
done
lengths 40:50 30:60 5:60 4:60 2:60 1:60
check "prepare short series" few
grep -q "warning: 3 of 6 series have no more steps than the horizon, 4: " "$scratch/said" ||
    wrong "short series are not named: $(cat "$scratch/said")"
check "train beside short series" train --data "$scratch/few.htd" --out "$scratch/few" --max-steps 2
check "predict short series" "$tft" predict --checkpoint "$scratch/few" "$scratch/few.csv" -o "$scratch/end.csv"
[ "$(sed 1d "$scratch/end.csv" | cut -d, -f1 | uniq -c | tr -d ' \n')" = 4s14s24s34s44s54s6 ] ||
    wrong "forecasts of short series: $(cat "$scratch/end.csv")"

# What differs from the preset, as options; and its schema printed, which makes the same data.
series "" 5 400
"$tft" prepare --preset long --season 6,12 --horizon 4 "$scratch/long.csv" -o "$scratch/long.htd" >/dev/null
sed '1s/.*/when,load,series,more/' "$scratch/long.csv" >"$scratch/named.csv"
check "--columns" "$tft" prepare --preset long --columns series,when,load --season 6,12 --horizon 4 \
    "$scratch/named.csv" -o "$scratch/named.htd"
grep -q "^load .* target" "$scratch/said" && grep -q "window 48 + 4; " "$scratch/said" ||
    wrong "the columns are not read by their names: $(cat "$scratch/said")"
check "--print-schema" "$tft" prepare --preset long --season 6,12 --horizon 4 --print-schema "$scratch/long.csv"
cp "$scratch/said" "$scratch/printed.json"
check "the schema that was printed" "$tft" prepare --schema "$scratch/printed.json" "$scratch/long.csv" \
    -o "$scratch/printed.htd"
check "the same data" cmp "$scratch/long.htd" "$scratch/printed.htd"
# One series has no column of ids, and times of another form. Their column has the name that ids have otherwise.
awk -F, 'NR > 1 && $3 == "s1" { day = $1 / 5; printf "%02d.%02d.%d,%s\n", day % 28 + 1, int(day / 28) % 12 + 1,
    2001 + int(day / 336), $2 }' "$scratch/long.csv" >"$scratch/rows"
{ echo entity,Wert && cat "$scratch/rows"; } >"$scratch/one.csv"
check "one series" "$tft" prepare --preset long --columns entity,Wert --time-format %d.%m.%Y --season 7 --encoder 8 \
    --horizon 4 "$scratch/one.csv" -o "$scratch/one.htd"
grep -q "^entities  *1$" "$scratch/said" && grep -q "every 1d, window 8 + 4" "$scratch/said" ||
    wrong "one series: $(cat "$scratch/said")"
check "train on one series" train --data "$scratch/one.htd" --out "$scratch/one" --max-steps 1
check "predict one series" "$tft" predict --checkpoint "$scratch/one" "$scratch/one.csv" -o "$scratch/end.csv"
[ "$(wc -l <"$scratch/end.csv")" -eq 5 ] && grep -q '^Wert,' "$scratch/end.csv" &&
    grep -q '^entity_,origin,entity,horizon,Wert_0.1,' "$scratch/end.csv" ||
    wrong "its forecasts: $(cat "$scratch/end.csv")"
awk -F, -v OFS=, 'NR == 1 || $3 == "s1" { print $1, $2 }' "$scratch/long.csv" >"$scratch/one.csv"
check "no column of ids" "$tft" prepare --preset long "$scratch/one.csv" -o "$scratch/one.htd"
# Files with and without a column of ids are not one series, nor several.
for files in "one long" "long one"; do
    refused 1 "column 'unique_id'" "$tft" prepare --preset long "$scratch/${files% *}.csv" "$scratch/${files#* }.csv" \
        -o "$scratch/none.htd"
done
sed '1s/unique_id/store/' "$scratch/long.csv" >"$scratch/store.csv"
refused 1 "no column has the ids of their series; give its name (--columns id,ds,y" \
    "$tft" prepare --preset long "$scratch/store.csv" -o "$scratch/none.htd"
# Files as spreadsheets write them: separated by semicolons or tabs, numbers with decimal commas.
awk -F, 'NR == 1 { print; next } { printf "%s,%d.5,%s,%s\n", $1, $2, $3, $4 }' "$scratch/long.csv" >"$scratch/point.csv"
preset_of() { # WHAT IS SAID, FILE, OPTIONS...
    says=$1 file=$2
    shift 2
    check "prepare $file" "$tft" prepare --preset long "$@" "$scratch/$file" -o "$scratch/other.htd"
    grep -qF "$says" "$scratch/said" || wrong "$file is not '$says': $(cat "$scratch/said")"
}
tr , ';' <"$scratch/point.csv" >"$scratch/semicolons.csv"
tr , '\t' <"$scratch/point.csv" | tr . , >"$scratch/tabs.csv"
tr , ';' <"$scratch/point.csv" | tr . , >"$scratch/commas.csv"
sed '1s/.*/when;load;series;more/' "$scratch/commas.csv" >"$scratch/named.csv"
preset_of "columns ignored            1 (more)" point.csv
rows=$(sed -n '/^rows /p' "$scratch/said")
preset_of "warning: columns are separated by semicolons" semicolons.csv
preset_of "warning: columns are separated by tabs, and numbers are read with decimal commas" tabs.csv
[ "$rows" = "$(sed -n '/^rows /p' "$scratch/said")" ] || wrong "other rows: $(cat "$scratch/said")"
preset_of "separated by semicolons, and numbers are read with decimal commas" named.csv --columns series,when,load
awk -F';' -v OFS=';' 'NR > 1 { $2 = 1 + NR % 20 "," 500 } { print }' "$scratch/commas.csv" >"$scratch/either.csv"
refused 1 "is the comma of '3,500' a decimal one" "$tft" prepare --preset long "$scratch/either.csv" \
    -o "$scratch/none.htd"
sed '9s/;[0-9]*,500/;1234,500/' "$scratch/either.csv" >"$scratch/three.csv"
preset_of "separated by semicolons, and numbers are read with decimal commas" three.csv
printf 'preset: long\ncsv: {separator: ";", decimal: ","}\n' >"$scratch/csv.yaml"
check "commas that a schema calls decimal" "$tft" prepare --schema "$scratch/csv.yaml" "$scratch/either.csv" \
    -o "$scratch/three.htd"
preset_of "separated by semicolons, and numbers are read with decimal commas" commas.csv
check "train on commas" train --data "$scratch/other.htd" --out "$scratch/commas" --max-steps 1
check "predict from commas" "$tft" predict --checkpoint "$scratch/commas" "$scratch/commas.csv" -o "$scratch/end.csv"
preset_of "preset " point.csv
check "train on points" train --data "$scratch/other.htd" --out "$scratch/points" --max-steps 1
check "predict from points" "$tft" predict --checkpoint "$scratch/points" "$scratch/point.csv" -o "$scratch/point.end"
cmp -s "$scratch/end.csv" "$scratch/point.end" ||
    wrong "commas and points are not the same numbers: $(head -n 2 "$scratch/end.csv" "$scratch/point.end")"
awk -F, 'NR == 1 { print; next } { printf "%s,\"1,%s\",%s,%s\n", $1, $2, $3, $4 }' "$scratch/point.csv" \
    >"$scratch/thousands.csv"
refused 1 "is not a number (separators of thousands are not read" "$tft" prepare --preset long \
    "$scratch/thousands.csv" -o "$scratch/none.htd"
refused 1 "(its columns: 'when', 'load', 'series', 'more'); name them by --columns [ID,]TIME,VALUE" "$tft" prepare \
    --preset long "$scratch/named.csv" -o "$scratch/none.htd"
printf 'ds,y\n31.01.2020,1\n' >"$scratch/dots.csv"
refused 1 'here "%d.%m.%Y"), or by --time-format' "$tft" prepare --preset long "$scratch/dots.csv" \
    -o "$scratch/none.htd"
echo ds,y >"$scratch/empty.csv"
printf 'preset: long\nevery: 1d\n' >"$scratch/daily.yaml"
refused 1 "the table has no rows" "$tft" prepare --schema "$scratch/daily.yaml" "$scratch/empty.csv" \
    -o "$scratch/none.htd"
# Rows that are resampled keep a step of their own: sums of the first and the last period, which lack rows, are left
# out.
awk 'BEGIN { print "ds,y"; for (i = 1; i < 958; i++)
    printf "2020-01-%02d %02d:%02d,1\n", 1 + i / 96, int(i / 4) % 24, i % 4 * 15 }' </dev/null >"$scratch/quarters.csv"
for every in "" "every: 15min"; do
    printf '%s\n' "preset: long" "$every" "window: {encoder: 8, horizon: 3}" "resample: {every: 1h, how: sum}" \
        >"$scratch/hourly.yaml"
    check "resample ($every)" "$tft" prepare --schema "$scratch/hourly.yaml" "$scratch/quarters.csv" \
        -o "$scratch/other.htd"
    grep -q '^preset  *every 1h,' "$scratch/said" && grep -q '^rows  *238$' "$scratch/said" ||
        wrong "incomplete hours are summed: $(cat "$scratch/said")"
done
# Holidays are an input that is known ahead, which the run keeps.
awk 'BEGIN { print "ds,y"; for (i = 1; i <= 60; i++)
    printf "2020-%02d-%02d,%d\n", i < 32 ? 1 : 2, i < 32 ? i : i - 31, i % 7 }' </dev/null >"$scratch/days.csv"
printf 'date,name\n2020-01-06,Epiphany\n2020-03-02,a day\n' >"$scratch/holidays.csv"
preset_of "holiday            holidays       known                standard" days.csv \
    --holidays "$scratch/holidays.csv" --encoder 8 --horizon 3
check "train with holidays" train --data "$scratch/other.htd" --out "$scratch/holidays" --max-steps 1
rm "$scratch/holidays.csv"
check "predict with holidays" "$tft" predict --checkpoint "$scratch/holidays" "$scratch/days.csv" -o "$scratch/end.csv"
refused 1 "holidays.csv" "$tft" prepare --preset long --holidays "$scratch/holidays.csv" "$scratch/days.csv" \
    -o "$scratch/none.htd"
for bad in "--columns a" "--columns a,,b" "--columns a,b,c,d" "--season x" "--season 2,"; do
    # shellcheck disable=SC2086 # an option and its value
    refused 2 "'${bad%% *}' takes" "$tft" prepare --preset long $bad "$scratch/long.csv" -o "$scratch/none.htd"
done
refused 2 "goes without -o" "$tft" prepare --preset long --print-schema "$scratch/long.csv" -o "$scratch/none.htd"

# Memory does not grow with the number of windows: ten times as many take less than half of their forecasts more. (With
# sanitizers memory is theirs.)
if [ -z "${TEST_BRIEF-}" ]; then
    awk 'BEGIN { print "t,id,y"; for (i = 0; i < 20000; i++) printf "%d,a,%d\n", i, i % 10 }' </dev/null \
        >"$scratch/many.csv"
    cat >"$scratch/many.yaml" <<'END'
id: {column: id}
time: {column: t, integer: true}
inputs: {y: {column: y, role: target}, step: {calendar: steps, role: known}}
window: {encoder: 1, horizon: 32}
split: {train: "< 19900", valid: "< 20000"}
END
    check "prepare many windows" "$tft" prepare --schema "$scratch/many.yaml" "$scratch/many.csv" -o "$scratch/many.htd"
    check "train for one step" "$tft" train --data "$scratch/many.htd" --out "$scratch/many" --hidden-size 2 --heads 1 \
        --max-steps 1 --threads 1
    peak() {
        "$top_builddir/tests/tft/peak" "$tft" predict --checkpoint "$scratch/many" --split train --stride "$1" \
            "$scratch/many.csv" -o "$scratch/many.out" | tail -n 1
    }
    few=$(peak 10)
    many=$(peak 1)
    [ "$(wc -l <"$scratch/many.out")" -eq $((19868 * 32 + 1)) ] ||
        wrong "predict has not all windows: $(wc -l <"$scratch/many.out")"
    echo "most memory: $few KiB, of ten times as many windows $many KiB"
    [ "$many" -lt $((few + 19868 * 32 * 3 * 4 / 2048)) ] || wrong "$many KiB for all windows, $few KiB for a tenth"
    pass
fi

finish
