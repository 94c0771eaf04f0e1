#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The pages that halay-tft writes, opened in Chromium and looked at by axe (pages.py): report, explain, tune,
# drift; each in light on a desk and in dark on a phone, and one of them without its script. A page that keeps readers
# out is found.
. "${top_srcdir:?}/tests/tft/shell.sh"
needs_halayrun
axe=$(find /usr/local/lib/axe-core /usr/share/javascript -name axe.min.js 2>/dev/null | head -n 1)
if [ -z "$axe" ] || ! command -v chromium >/dev/null; then
    echo "skipped: no Chromium, or no axe-core ('tools/setup --gate' installs both)"
    exit 77
fi
needs python3
data=$scratch/piece.htd run=$scratch/run
check "prepare" "$tft" prepare --schema "$top_srcdir/data/pjm.yaml" "$top_srcdir/data/pjm" -o "$data"
train() {
    "$tft" "$@" --data "$data" --hidden-size 8 --heads 2 --batch-size 32 --max-steps 20 --valid-samples 50
}
check "train" train train --out "$run" --eval-every 5
check "report" "$tft" report --run "$run" --data "$data" --stride 168 -o "$scratch/report.html"
check "explain" "$tft" explain --checkpoint "$run" --data "$data" --stride 168 -o "$scratch/explain.html"
printf 'dropout: {from: 0, to: 0.4}\nschedule: [constant, cosine]\n' >"$scratch/space.yaml"
check "tune" train tune "$scratch/space.yaml" --out "$scratch/tune" --trials 9
status=0
"$tft" drift --checkpoint "$run" --data "$data" --last 336 -o "$scratch/drift.html" >"$scratch/said" 2>&1 || status=$?
[ $status -eq 0 ] || [ $status -eq 3 ] || wrong "drift: $(cat "$scratch/said")"
look() {
    python3 "$top_srcdir/tests/tft/pages.py" "$axe" "$scratch" "$@"
}
sed 's/^<script>$/<script type="text\/none">/' "$scratch/drift.html" >"$scratch/plain.html"
check "look" look "$scratch/plain.html" "$scratch/report.html" "$scratch/explain.html" "$scratch/tune/tune.html" \
    "$scratch/drift.html"
sed 's/<\/main>/<\/main><p style="color:#999;background:#aaa">pale<\/p>/; s/<main /<main style="min-width:3000px" /' \
    "$scratch/drift.html" >"$scratch/bad.html"
status=0
look "$scratch/bad.html" >"$scratch/said" 2>&1 || status=$?
[ $status -eq 1 ] && grep -q 'light, 1200 wide: color-contrast' "$scratch/said" && grep -q 'too wide' "$scratch/said" ||
    wrong "the bad page: $(cat "$scratch/said")"
finish
