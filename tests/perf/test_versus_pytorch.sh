#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# perf/bench/versus_pytorch.py: it reports what is missing, and puts the rest beside the trainer.
. "${top_srcdir:?}/tests/perf/perf.sh"
command -v python3 >/dev/null 2>&1 || skip "no python3"
versus=$top_srcdir/perf/bench/versus_pytorch.py

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

# Scripts play a processor without bf16: that row is left out, the others stay; any other failure ends the script.
mkdir -p "$scratch/build/perf" "$scratch/nvidia"
touch "$scratch/nvidia/modeling.py" "$scratch/nvidia/configuration.py"
cat >"$scratch/build/perf/halay-tft-bench" <<'END'
#!/bin/sh
case " $* " in
*" --dtype bf16 "*) echo "halay[0] error: no matrix products in bf16 here: they need a processor" >&2; exit 1 ;;
*" --hidden $BROKEN "*) echo "out of memory" >&2; exit 1 ;;
*) echo '{"step_ms": 10, "matrix_products": "by hand"}' ;;
esac
END
cat >"$scratch/python" <<'END'
#!/bin/sh
case "$*" in
-c*) ;;
*"nvidia-graph --hidden 160 --dtype f32 "*) echo "operation not permitted when stream is capturing" >&2; exit 1 ;;
*) echo '{"samples_per_second": 1000, "version": "a peer"}' ;;
esac
END
chmod +x "$scratch/build/perf/halay-tft-bench" "$scratch/python"
played() { BROKEN=$1 "$versus" --build "$scratch/build" --torch "$scratch/python" --nvidia "$scratch/nvidia" \
    --record "$scratch"; }
expect 0 played none
says err "^versus_pytorch.py: 'hidden size 160, bf16' is left out: .*no matrix products in bf16 here"
says out '^\| hidden size 160, f32 \| 6,400 \| 1000 \(6.4\) \|  \|$'
says out '^\| hidden size 64, f32 \| 6,400 \| 1000 \(6.4\) \| 1000 \(6.4\) \|$'
says out '; a peer, halay, by hand.$'
holds "$scratch/versus-pytorch.json" rows.0.1=6400 'rows.1.0=hidden size 64, f32' rows.2=absent
expect 1 played 64
says err 'out of memory'
# On a GPU: TF32 apart, and each step also as a graph, where it can be one.
sed -i 's/^\*" --dtype bf16 ".*//' "$scratch/build/perf/halay-tft-bench"
expect 0 "$versus" --build "$scratch/build" --torch "$scratch/python" --nvidia "$scratch/nvidia" --device cuda \
    --hidden 160
says out '^\|  \| halay \| NVIDIA.s TFT \| NVIDIA.s TFT, a CUDA graph \|$'
says out '^\| hidden size 160, tf32 \| 6,400 \| 1000 \(6.4\) \| 1000 \(6.4\) \|$'
says out '^\| hidden size 160, f32 \| 6,400 \| 1000 \(6.4\) \|  \|$'
says err 'no graph, hidden size 160, f32: operation not permitted'
checks=$((checks + 1))
grep -q '"no matrix products in bf16 here: ' "$top_srcdir/tft/core/model/model.c" ||
    wrong "halay-tft says it in other words"

if python3 -c 'import pytorch_forecasting' 2>/dev/null; then
    expect 0 "$versus" --build "$top_builddir" --hidden 64 --rounds 1 --steps 1 --record "$scratch"
    says out '^\| hidden size 64, f32 \| [0-9]* \| [0-9]* \([0-9.]*\) \|'
    holds "$scratch/versus-pytorch.json" rows.0.1=positive
else
    echo "skipped: no pytorch_forecasting to measure beside"
fi
perf_end
