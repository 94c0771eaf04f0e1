#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Forecasts from Python: types of tables, errors, files, Ctrl-C, memory (tft.py); without pandas; the numbers of
# halay-tft for the same rows and keys; on two ranks those of one; the guide's programs.
. "$top_srcdir/tests/python/lib.sh"
[ -f "$top_builddir/.libs/libhalay-tft.so.1" ] || skip "no shared library of the trainer was built"
command -v python3 >/dev/null 2>&1 || skip "no python3"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export TMPDIR="$scratch"

awk 'BEGIN { print "unique_id,ds,y"; for (k = 0; k < 2; k++) for (h = 0; h < 400; h++)
    printf "%s,2024-01-%02d %02d:00:00,%.3f\n", k ? "west" : "east", 1 + h / 24, h % 24,
        100 + 10 * k + 10 * sin(h * 3.14159265 / 12) + h * 7 % 11 / 5 }' </dev/null >"$scratch/rows.csv"

# Without pandas: -S leaves out what is installed. halay alone does not load the trainer.
python3 -S - "$scratch/rows.csv" <<'END'
import sys
import halay

assert "libhalay-tft" not in open("/proc/self/maps").read(), "import halay loads the trainer"
from halay.tft import Forecaster

assert not {"numpy", "pandas", "pyarrow", "sklearn", "IPython"} & set(sys.modules)
forecaster = Forecaster(encoder=24, horizon=6, hidden_size=4, heads=1, max_steps=2, verbose=False).fit(sys.argv[1])
assert "p50" in repr(forecaster.evaluate()), "files need no pandas"
for call in (lambda: forecaster.predict(sys.argv[1]), lambda: Forecaster().fit({"y": [1]})):
    try:
        call()
    except ImportError as failure:
        assert "needs pandas, which is not installed: pip install pandas" in str(failure), failure
    else:
        raise AssertionError("pandas is missing, and nobody says so")
END
echo "without pandas: files are read"

need numpy pandas
PATH=$(cd "$top_builddir" && pwd):$PATH # halay-tft
"$python" "$top_srcdir/tests/python/tft.py" types errors results asks drifts ends memory

# The same numbers as the command line's.
tft=$top_builddir/halay-tft
keys="--hidden-size 8 --heads 2 --max-steps 20 --eval-every 10"
"$tft" prepare --preset long --encoder 24 --horizon 6 "$scratch/rows.csv" -o "$scratch/rows.htd" >/dev/null
# shellcheck disable=SC2086 # several words
"$tft" train --data "$scratch/rows.htd" --out "$scratch/run" $keys 2>/dev/null
"$tft" predict --checkpoint "$scratch/run" "$scratch/rows.csv" -o "$scratch/forecast.csv" >/dev/null
"$tft" evaluate --checkpoint "$scratch/run" --data "$scratch/rows.htd" --json "$scratch/scores.json" >/dev/null
"$python" -W ignore - "$scratch" <<'END'
import json, sys
import numpy as np, pandas as pd
from halay.tft import Forecaster

folder = sys.argv[1]
frame = pd.read_csv(f"{folder}/rows.csv", parse_dates=["ds"])
keys = {"hidden_size": 8, "heads": 2, "max_steps": 20, "eval_every": 10}
forecaster = Forecaster(encoder=24, horizon=6, verbose=False, **keys).fit(frame)
have, want = forecaster.predict(frame), pd.read_csv(f"{folder}/forecast.csv", parse_dates=["ds"])
assert list(want.drop(columns=["origin", "horizon"])) == list(have), (list(want), list(have))
assert have[["unique_id", "ds"]].equals(want[["unique_id", "ds"]])
for name in ("y_0.1", "y_0.5", "y_0.9"):
    assert np.allclose(have[name], want[name], rtol=0, atol=1e-6), (have, want)
scores = json.load(open(f"{folder}/scores.json"))
assert forecaster.evaluate().document == scores
assert Forecaster.load(f"{folder}/run").predict(frame).equals(have), "a run of the command line's"
END
echo "the numbers are the command line's"

# Two ranks train one model together, and each has its results.
cat >"$scratch/ranks.py" <<'END'
import hashlib, sys
import pandas as pd
from halay.tft import Forecaster

frame = pd.read_csv(sys.argv[1], parse_dates=["ds"])
forecaster = Forecaster(encoder=24, horizon=6, hidden_size=8, heads=2, max_steps=20, eval_every=10, verbose=False,
                        deterministic="ranks").fit(frame)  # fmt: skip
parts = [forecaster.predict(frame), forecaster.evaluate().by_entity, forecaster.explain().windows,
         pd.DataFrame(forecaster.history_)[["step", "valid_loss"]]]  # fmt: skip
forecaster.save(sys.argv[2])
assert Forecaster.load(sys.argv[2]).predict(frame).equals(parts[0])
print(hashlib.sha256("".join(part.to_csv() for part in parts).encode()).hexdigest())
END
"$python" -W ignore "$scratch/ranks.py" "$scratch/rows.csv" "$scratch/saved" >"$scratch/one"
"$top_builddir/launcher/halayrun" -np 2 --output-filename "$scratch/two" "$python" -W ignore "$scratch/ranks.py" \
    "$scratch/rows.csv" "$scratch/saved2" >/dev/null
for rank in 0 1; do
    cmp "$scratch/one" "$scratch/two/rank.$rank/stdout"
done
echo "two ranks: the same results on both"

# The guide's programs, in order, but those of its recipes, which need more.
mkdir "$scratch/guide"
"$python" - "$top_srcdir/docs/guides/python-forecasting.md" "$scratch/guide" >"$scratch/said" <<'END'
import os, re, sys

text = open(sys.argv[1]).read().split("## Recipes")[0]
blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
assert len(blocks) > 5, len(blocks)
os.chdir(sys.argv[2])
sys.stderr = sys.stdout  # progress
names = {}
for block in blocks:
    exec(compile(block, f"guide: {block.splitlines()[0]}", "exec"), names)
END
echo "the guide's programs run"
