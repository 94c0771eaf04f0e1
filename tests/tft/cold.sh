#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Entities that training has never seen: with 'unknown: true' they are forecast by a row of the embedding that training
# has trained, so not much worse than by a model without the category (by a row that it has not they are several times
# as far off). What is dropped is the same on any ranks and threads. Another run's rows are taken over by name.
. "${top_srcdir:?}/tests/tft/shell.sh"

# Sixteen entities, each with a level from 2 to 20 that it keeps; four begin when training and validation have ended.
awk 'function draw() { x = (x * 16807) % 2147483647; return x / 2147483647 }
    BEGIN { x = 7; print "t,id,y"; for (e = 0; e < 16; e++) { level = 2 + 18 * draw()
        for (t = e < 12 ? 0 : 500; t < 700; t++) printf "%d,e%02d,%.4f\n", t, e, level + draw() - 0.5 } }' </dev/null \
            >"$scratch/table.csv"
cat >"$scratch/known.yaml" <<'END'
id: {column: id}
time: {column: t, integer: true}
inputs:
  y:    {column: y, role: target, per: all}
  step: {calendar: steps, role: known, per: all}
  id:   {from: id, role: static, type: category, unknown: true}
window: {encoder: 8, horizon: 2}
split: {train: "< 400", valid: "< 500", test: "< 700"}
END
sed '/from: id/d' "$scratch/known.yaml" >"$scratch/without.yaml"
for data in known without; do
    check "prepare" "$tft" prepare --schema "$scratch/$data.yaml" "$scratch/table.csv" -o "$scratch/$data.htd"
done

# risk DATA NAME OPTION...: train; in $risk the mean q-risk of the median of entities that were not seen, and of the
# others.
risk() {
    data=$1 name=$2
    shift 2
    check "train $name" "$tft" train --data "$scratch/$data.htd" --out "$scratch/$name" --hidden-size 8 --heads 2 \
        --learning-rate 0.01 --clip 1 \
        --clip-mode global --schedule cosine --max-steps 600 --eval-every 600 --keep 0 --seed 2 "$@"
    check "evaluate $name" "$tft" evaluate --checkpoint "$scratch/$name" --data "$scratch/$data.htd" --stride 12 \
        --json "$scratch/scores.json"
    risk=$(awk '{ match($0, /^ */); key = $0; sub(/^ *"/, "", key); sub(/".*/, "", key); at[RLENGTH] = key }
        at[1] == "by_entity" && RLENGTH == 4 && at[3] == "q_risk" && key == "p50" {
            seen = at[2] < "e12"; sum[seen] += $2; n[seen]++ }
        END { if (n[0] == 4 && n[1] == 12) print sum[0] / n[0], sum[1] / n[1] }' "$scratch/scores.json")
}
risk known trained
trained=$risk
risk without without
echo "$trained $risk" | awk '{ exit !(NF == 4 && $1 < 2 * $3 && $2 < 1.3 * $4) }' ||
    wrong "q-risk of P50, not seen and seen: with the category $trained, without it $risk"

# An entity of another file, and why it is left out, or refused where there is no other, if it cannot be scaled.
sed 's/e15/new/' "$scratch/table.csv" >"$scratch/new.csv"
check "predict a new entity" "$tft" predict --checkpoint "$scratch/trained" "$scratch/new.csv" -o "$scratch/new.out.csv"
[ "$(grep -c '^new,' "$scratch/new.out.csv")" -eq 2 ] ||
    wrong "no forecast of a new entity: $(cat "$scratch/new.out.csv")"
sed 's/target, per: all/target/' "$scratch/known.yaml" >"$scratch/scaled.yaml"
check "prepare" "$tft" prepare --schema "$scratch/scaled.yaml" "$scratch/table.csv" -o "$scratch/scaled.htd"
grep -q '^entities  *12$' "$scratch/said" ||
    wrong "entities that cannot be scaled are not left out: $(cat "$scratch/said")"
check "train on it" "$tft" train --data "$scratch/scaled.htd" --out "$scratch/scaled" --hidden-size 8 --heads 2 \
    --max-steps 1
check "predict beside new entities" "$tft" predict --checkpoint "$scratch/scaled" "$scratch/new.csv" \
    -o "$scratch/12.csv"
grep -q "warning: 4 of 16 entities are not forecast, .* seen them: 'e12', 'e13', 'e14' and others; .*'per: all'" \
    "$scratch/said" && [ "$(sed 1d "$scratch/12.csv" | cut -d, -f1 | sort -u | wc -l)" -eq 12 ] ||
    wrong "entities that cannot be scaled are not left out: $(cat "$scratch/said")"
refused 1 "entity 'e12' was not seen in training" "$tft" predict --checkpoint "$scratch/scaled" --split test \
    "$scratch/new.csv" -o "$scratch/no.csv"
awk -F, 'NR == 1 || /,(e12|new),/ || /^(e12|new),/' "$scratch/new.csv" >"$scratch/strangers.csv"
refused 1 "entity 'e12' was not seen in training" "$tft" predict --checkpoint "$scratch/scaled" \
    "$scratch/strangers.csv" -o "$scratch/no.csv"
grep -q "'per: all'" "$scratch/said" || wrong "it does not say what would be right: $(cat "$scratch/said")"

# The same bits on any ranks and threads.
train() {
    "$@" --data "$scratch/known.htd" --hidden-size 8 --heads 2 --batch-size 32 --learning-rate 0.01 --max-steps 20 \
        --deterministic ranks
}
check "one thread" train "$tft" train --threads 1 --out "$scratch/t1"
check "two threads" train "$tft" train --threads 2 --out "$scratch/t2"
check "one thread and two" cmp "$scratch/t1/model.safetensors" "$scratch/t2/model.safetensors"
if [ -x "$halayrun" ]; then
    for ranks in 2 4; do
        check "$ranks ranks" train "$halayrun" -np $ranks "$tft" train --threads 1 --out "$scratch/r$ranks"
        check "one rank and $ranks" cmp "$scratch/t1/model.safetensors" "$scratch/r$ranks/model.safetensors"
    done
fi

# Under 'per: window' a new series of any size or level is forecast as a known one is: forecasts scale with the series
# and shift with it, to what a float holds of its changes, from predict, serve's queries (test_library) and evaluate.
# grown FACTOR LEVEL ID...: 200 rows of each id.
grown() {
    awk -v factor="$1" -v level="$2" -v ids="$3" 'BEGIN { n = split(ids, id, " "); print "t,id,y,temp"
        for (e = 1; e <= n; e++) for (t = 0; t < 200; t++) printf "%d,%s,%.12g,%.12g\n", t, id[e],
            level + factor * (100 + 20 * sin(t / 3.8) + t * 7919 % 13), factor * (5 + t * 104729 % 7) }' </dev/null
}
cat >"$scratch/sizes.yaml" <<'END'
id: {column: id}
time: {column: t, integer: true}
inputs:
  y:    {column: y, role: target, per: window}
  temp: {column: temp, role: observed, per: window}
  wave: {fourier: {period: 24, terms: 1}, role: known, scale: none}
window: {encoder: 24, horizon: 4}
split: {train: "< 140", valid: "< 160", test: "< 200"}
END
# Training has seen others, of sizes of their own.
{ grown 1 0 "a b"; grown 30 0 "c d" | sed 1d; } >"$scratch/sizes.csv"
check "prepare sizes" "$tft" prepare --schema "$scratch/sizes.yaml" "$scratch/sizes.csv" -o "$scratch/sizes.htd"
check "train on sizes" "$tft" train --data "$scratch/sizes.htd" --hidden-size 8 --heads 2 --max-steps 40 \
    --learning-rate 0.01 --threads 1 --out "$scratch/sizes" --keep 0
check "predict a known size" "$tft" predict --checkpoint "$scratch/sizes" "$scratch/sizes.csv" -o "$scratch/known.out"
sed -n '2,5s/\([^,]*,\)\{4\}//p' "$scratch/known.out" >"$scratch/known.numbers"
for size in "1 0" "1e-4 0" "1e4 0" "1e-9 0" "1 1e9" "1 -1e9" "1e-3 1e6" "1e6 0"; do
    factor=${size% *} level=${size#* }
    grown "$factor" "$level" "new" >"$scratch/new.csv"
    check "predict $size" "$tft" predict --checkpoint "$scratch/sizes" "$scratch/new.csv" -o "$scratch/new.out"
    sed 's/\([^,]*,\)\{4\}//;1d' "$scratch/new.out" | paste -d, - "$scratch/known.numbers" |
        awk -F, -v f="$factor" -v level="$level" '{ for (k = 1; k <= 3; k++) { d = ($k - level) / f - $(k + 3)
            if (d * d > 1e-6) bad = 1 } } END { exit bad || NR != 4 }' ||
        wrong "of size $size: $(cat "$scratch/new.out" "$scratch/known.numbers")"
    ! grep -q 32-bit "$scratch/said" || wrong "of size $size nothing is lost: $(cat "$scratch/said")"
done
# A known one keeps its scale, which does not hold the changes of a meter that has run far: that is said.
grown 1e-3 1e9 "a b" >"$scratch/new.csv"
check "predict a meter" "$tft" predict --checkpoint "$scratch/sizes" "$scratch/new.csv" -o "$scratch/new.out"
[ "$(grep -c "target 'y' of 'a': 32-bit numbers do not hold its changes, about 0.0.* from row to row, of values up to \
1e+09; train on its differences" "$scratch/said")" -eq 1 ] || wrong "lost changes are not said: $(cat "$scratch/said")"
# The file that prepare writes keeps their scalers: relative scores are the same.
for size in 1 1e-4; do
    { cat "$scratch/sizes.csv"; grown $size 0 "new" | sed 1d | awk -F, '$1 >= 140'; } >"$scratch/late.csv"
    check "prepare a late one" "$tft" prepare --schema "$scratch/sizes.yaml" "$scratch/late.csv" -o "$scratch/late.htd"
    check "evaluate a late one" "$tft" evaluate --checkpoint "$scratch/sizes" --data "$scratch/late.htd" \
        --json "$scratch/late.json"
    awk '/"by_entity"/ { inside = 1 } inside && /"new"/ { new = 1 }
        new && /"p50"/ { sub(/.*: /, ""); print $1 + 0; exit }' "$scratch/late.json"
done >"$scratch/late.risks"
awk 'NR == 1 { first = $1 } END { d = $1 / first - 1; exit !(NR == 2 && first > 0 && d * d < 1e-6) }' \
    "$scratch/late.risks" || wrong "scores of a late series of two sizes: $(cat "$scratch/late.risks")"

# A run begins with the rows of another one that knew other entities (which goes where: test_transfer).
sed '/,e0[05],/d; s/e11/a11/' "$scratch/table.csv" >"$scratch/others.csv"
check "prepare other entities" "$tft" prepare --schema "$scratch/known.yaml" "$scratch/others.csv" \
    -o "$scratch/others.htd"
check "begin from it" "$tft" train --data "$scratch/others.htd" --out "$scratch/onwards" \
    --init-from "$scratch/trained" --hidden-size 8 --heads 2 --max-steps 1 --learning-rate 1e-9 --keep 0
grep -q "init_from: .* input 'id', categories: [0-9]* kept, 1 new," "$scratch/said" ||
    wrong "new categories are not said: $(cat "$scratch/said")"
finish
