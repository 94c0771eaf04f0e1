#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A process that has set a locale with a decimal comma (tests/tft/locale_probe.c; Python) leaves the same bytes as one
# that has not: models, exports, forecasts, scores, pages. What was saved with a comma once is refused.
. "${top_srcdir:?}/tests/tft/shell.sh"
probe=$top_builddir/tests/tft/locale_probe
mkdir "$scratch/locales"
if ! localedef -i de_DE -f UTF-8 "$scratch/locales/de_DE.UTF-8" >"$scratch/made" 2>&1; then
    echo "skipped: localedef makes no de_DE.UTF-8: $(head -n 1 "$scratch/made")"
    exit 77
fi
export LOCPATH="$scratch/locales"

# Some numbers are too long for the quick way of reading them.
awk 'BEGIN { print "unique_id,ds,y"; x = 7; for (e = 0; e < 2; e++) for (h = 0; h < 400; h++) {
    x = (x * 16807) % 2147483647
    printf h % 50 ? "%s,2024-01-%02d %02d:00:00,%.3f\n" : "%s,2024-01-%02d %02d:00:00,%.25f\n", e ? "west" : "east",
        1 + h / 24, h % 24, 100 + 10 * e + 10 * sin(h / 3.82) + 9 * x / 2147483647 } }' </dev/null >"$scratch/rows.csv"
for name in C de_DE.UTF-8; do
    check "in $name" "$probe" $name "$scratch/rows.csv" "$scratch/$name"
    cp "$scratch/said" "$scratch/$name.lines"
done
for name in model.safetensors model.onnx csv jsonl why scores explained run.json; do
    check "the same $name" cmp "$scratch/C/$name" "$scratch/de_DE.UTF-8/$name"
done
# Times differ; a number with a comma would do so, too.
for name in "$scratch/de_DE.UTF-8.lines" "$scratch/de_DE.UTF-8/page.html" "$scratch/de_DE.UTF-8/metrics.jsonl"; do
    [ -s "$name" ] || wrong "$name is empty"
    grep -E '(loss|lr|seconds|P[0-9]+|x[12]?|y[12]?|%|:)[= "]*-?[0-9]+,[0-9]' "$name" >"$scratch/found" &&
        wrong "commas: $(head -n 3 "$scratch/found")"
done
grep -q 'train_loss=[0-9]*[.][0-9]' "$scratch/de_DE.UTF-8.lines" || wrong "no loss in the lines"

# The weights of the blend are text in the model's file.
weights=$(grep -ao '"blend":"[^"]*"' "$scratch/C/model.safetensors" | head -n 1)
case $weights in *[0-9].[0-9]*) pass ;; *) wrong "the test needs weights with fractions: $weights" ;; esac
mkdir "$scratch/other"
check "the other's model" "$probe" de_DE.UTF-8 "$scratch/rows.csv" "$scratch/C" "$scratch/other"
check "the same forecasts" cmp "$scratch/C/csv" "$scratch/other/csv"

# Python has no say in it, either.
python=${PYTHON:-python3}
if ldd "$top_builddir/.libs/libhalay-tft.so.1" 2>/dev/null | grep -q -e libasan -e libtsan; then
    echo "skipped: an interpreter cannot load a sanitizer's library"
elif [ -f "$top_builddir/.libs/libhalay-tft.so.1" ] && command -v "$python" >/dev/null; then
    for name in C de_DE.UTF-8; do
        check "Python in $name" env PYTHONPATH="$top_srcdir/python" \
            PYTHONDONTWRITEBYTECODE=1 HALAY_LIBRARY="$top_builddir/.libs/libhalay.so.1" "$python" -S - $name \
            "$scratch" <<'END'
import locale
import sys

name, folder = sys.argv[1:]
locale.setlocale(locale.LC_ALL, name)
from halay.tft import Forecaster

forecaster = Forecaster(encoder=24, horizon=6, hidden_size=4, heads=1, max_steps=4, threads=1, verbose=False)
forecaster.fit(f"{folder}/rows.csv")
forecaster.save(f"{folder}/python.{name}")
with open(f"{folder}/python.{name}/scores", "w") as file:
    print(forecaster.evaluate().document, file=file)
END
    done
    for name in model.safetensors scores; do
        check "Python: the same $name" cmp "$scratch/python.C/$name" "$scratch/python.de_DE.UTF-8/$name"
    done
fi
finish
