#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The validation loss is the training loss's function: of windows that are all alike both are the same number, whatever
# the rows weigh and whosever model it is. A rate next to nothing, and no dropout, so that both are of the same model.
. "${top_srcdir:?}/tests/tft/shell.sh"
data=$scratch/alike.htd

# Every day is the day before: 20 of them, whose rows weigh 1 to 24 by the hour.
awk 'BEGIN { print "t,load,weight"; for (i = 0; i < 480; i++)
    printf "%d,%.6f,%d\n", i, 10 + 5 * sin((i % 24) / 3.82) + (i % 24 == 7) * 4, 1 + i % 24 }' \
    </dev/null >"$scratch/A_alike.csv"
cat >"$scratch/schema.yaml" <<'END'
id: {from: filename, pattern: "^(.*)_alike"}
time: {column: t, integer: true}
inputs:
  load:   {column: load, role: target}
  again:  {column: load, role: known}
  weight: {column: weight, role: weight}
window: {encoder: 24, horizon: 6, stride: 24}
split: {train: "< 240", valid: "< 480", context: none}
END
check "prepare" "$tft" prepare --schema "$scratch/schema.yaml" "$scratch/A_alike.csv" -o "$data"

# loss NAME KEY: a number of the only evaluation.
loss() {
    sed "s/.*\"$2\":\([0-9.e-]*\),.*/\1/" "$scratch/$1/metrics.jsonl"
}
# same NAME CONFORMANCE QUANTILES: of "published", whose quantiles are put in order after training, one at a time is the
# same; more can only lose less.
same() {
    check "$1" "$tft" train --data "$data" --out "$scratch/$1" --conformance "$2" --hidden-size 8 --heads 2 \
        --max-steps 1 --learning-rate 1e-9 --dropout 0 --quantiles "$3" --threads 1
    losses="$(loss "$1" train_loss) $(loss "$1" valid_loss)"
    echo "$losses" |
        awk -v sorted="$1" '{ d = $1 / $2 - 1; is_less = sorted == "published" && d > 0
            exit !(NF == 2 && $1 > 0 && (is_less || d * d < 1e-8)) }' ||
        wrong "$1: train_loss and valid_loss of the same windows are $losses"
}
for conformance in published nvidia pytorch-forecasting; do
    same $conformance $conformance 0.1,0.5,0.7,0.9
done
for quantile in 0.1 0.5 0.9; do
    same "published-$quantile" published $quantile
done
check "evaluate" "$tft" evaluate --checkpoint "$scratch/pytorch-forecasting" --data "$data" --split valid \
    --json "$scratch/scores.json"
grep -o '^ "loss": [0-9.e-]*' "$scratch/scores.json" | awk -v valid="$(loss pytorch-forecasting valid_loss)" '
    { d = $2 / valid - 1; n = NR } END { exit !(n == 1 && d * d < 1e-8) }' ||
        wrong "evaluate has another loss than the training"
# Quantiles of an untrained model are out of order; forecasts are not, but where they are to be another program's.
for conformance in published nvidia; do
    check "evaluate $conformance" "$tft" evaluate --checkpoint "$scratch/$conformance" --data "$data" --split valid \
        --json "$scratch/$conformance.json"
done
grep -q '^ "crossing": 0.0,' "$scratch/published.json" || wrong "quantiles cross"
! grep -q '^ "crossing": 0.0,' "$scratch/nvidia.json" || wrong "quantiles of another program's model were put in order"
finish
