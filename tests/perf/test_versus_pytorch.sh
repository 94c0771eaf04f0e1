#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# perf/versus_pytorch.py: it says what is not there, and puts what is there beside the trainer.
. "${top_srcdir:?}/tests/perf/perf.sh"
command -v python3 >/dev/null 2>&1 || skip "no python3"
versus=$top_srcdir/perf/versus_pytorch.py

expect 77 "$versus" --torch false
says err 'nvidia is left out: --nvidia names no folder'
says err "'false' has no pytorch_forecasting: left out"
says err 'skipped: nothing of PyTorch'
expect 1 "$versus" --nvidia "$scratch"
says err "has no modeling.py and configuration.py"
expect 2 "$versus" --hidden 65
says err 'hidden sizes are of 160, 64'
expect 2 "$versus" --steps 0
says err 'must be at least 1'
if python3 -c 'import pytorch_forecasting' 2>/dev/null; then
    expect 0 "$versus" --build "$top_builddir" --hidden 64 --rounds 1 --steps 1 --json "$scratch/v.json"
    says out '^\| hidden 64, f32 \| [0-9]* \| [0-9]* \([0-9.]*\) \|'
    holds "$scratch/v.json" threads=2 results.0.hidden_size=64 results.0.ratios.pytorch-forecasting=positive \
        results.0.systems.halay.samples_per_second=positive
else
    echo "skipped: no pytorch_forecasting to measure beside"
fi
perf_end
