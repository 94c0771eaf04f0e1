#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# halay-tft serve, asked by tests/tft/serve.py: the same numbers as predict's, whoever else asks; what is no request;
# limits; a model that is swapped and a server that is stopped while it works.
. "${top_srcdir:?}/tests/tft/shell.sh"
python=${PYTHON:-python3}
needs "$python"
grep -q '^#define HALAY_HAVE_MICROHTTPD 1' "$top_builddir/config.h" || {
    echo "skipped: built without libmicrohttpd"
    exit 77
}
is_exact=0
! grep -q '^#define HALAY_HAVE_ONEDNN 1' "$top_builddir/config.h" || is_exact=1

# Three entities, with a known input that comes from a column, so that a forecast needs its future: 24 rows more.
awk 'BEGIN { print "id,t,load,heat"; x = 7; for (e = 0; e < 3; e++) for (i = 0; i < 424; i++) {
    x = (x * 16807) % 2147483647; h = 10 + 5 * sin(i / 24)
    printf "%s,%d,%s,%.3f\n", substr("abc", e + 1, 1), i,
        i < 400 ? sprintf("%.3f", 50 * (e + 1) + 8 * sin(i % 24 / 3.82) + h + x / 2147483647) : "", h } }' \
    </dev/null >"$scratch/all.csv"
awk -F, 'NR == 1 || $3 != ""' "$scratch/all.csv" >"$scratch/past.csv"
awk -F, -v OFS=, 'NR == 1 || $3 == "" { print $1, $2, $4 }' "$scratch/all.csv" >"$scratch/future.csv"
cat >"$scratch/schema.yaml" <<'END'
id: {column: id}
time: {column: t, integer: true}
inputs:
  load: {column: load, role: target, scale: standard, per: entity, fill: interpolate}
  heat: {column: heat, role: known, scale: standard, fill: forward}
  zone: {from: id, role: static, type: category}
window: {encoder: 24, horizon: 6, min_encoder: 12}
split: {train: "< 200", valid: "< 300", test: "< 400"}
END
check "prepare" "$tft" prepare --schema "$scratch/schema.yaml" "$scratch/past.csv" -o "$scratch/data.htd"
train() { # train NAME STEPS
    check "train $1" "$tft" train --data "$scratch/data.htd" --out "$scratch/$1" --hidden-size 8 --heads 2 \
        --batch-size 16 --learning-rate 1e-2 --valid-samples 32 --clip-mode global --clip 1 --threads 1 \
        --max-steps "$2" --eval-every "$2" --calibrate none
}
train run 20
check "profile" "$tft" drift --checkpoint "$scratch/run" --data "$scratch/data.htd" --profile
train newer 30
for name in run newer; do
    for format in csv jsonl; do
        check "predict $name" "$tft" predict --checkpoint "$scratch/$name" "$scratch/past.csv" \
            --future "$scratch/future.csv" --explain "$scratch/$name.why.jsonl" -o "$scratch/$name.$format"
    done
done
check "predict with the future in the file" "$tft" predict --checkpoint "$scratch/run" "$scratch/all.csv" \
    -o "$scratch/all.out.csv"
check "rows without a target are the future" cmp "$scratch/run.csv" "$scratch/all.out.csv"
# (A sanitizer keeps what was freed, so that memory would grow: it keeps nothing here.)
if ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}quarantine_size_mb=0:thread_local_quarantine_size_kb=0" \
    "$python" "$top_srcdir/tests/tft/serve.py" "$tft" "$scratch" "$is_exact" >"$scratch/asked" 2>&1; then
    pass
else
    wrong "serve.py"
fi
cat "$scratch/asked"
refused 2 "one RUN to serve is missing" "$tft" serve
refused 1 "holds no trained model" "$tft" serve "$scratch/none" --listen 0
refused 1 "nobody.invalid" "$tft" serve "$scratch/run" --listen nobody.invalid:0
refused 1 "no calibration" "$tft" serve "$scratch/run" --listen 0 --calibrate conformal
finish
