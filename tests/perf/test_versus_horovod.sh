#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# perf/bench/versus_horovod.py: it reads halay-perf's models, tells what is not installed and how to install it, and
# with torch puts gloo beside the engine.
. "${top_srcdir:?}/tests/perf/perf.sh"
command -v python3 >/dev/null 2>&1 || skip "no python3"
versus=$top_srcdir/perf/bench/versus_horovod.py

expect 0 "$versus" --list
says out '^one: 1 tensors, 1024 elements'
says out '^many-small: 1000 tensors, 1024000 elements'
says out '^tft-electricity: 212 tensors, '
says out '^resnet50: 161 tensors, 25557032 elements'
says out '^bert-large: 391 tensors, 335141888 elements'
expect 77 "$versus" --horovod /nowhere/python --torch false
says err "horovod is left out: '/nowhere/python' has no horovod.torch"
says err 'pip install --no-build-isolation horovod==0.28.1'
says err "gloo is left out: 'false' has no torch.distributed"
says err 'pip install torch'
expect 2 "$versus" --models resnet
says err "no model 'resnet': there are one, many-small, "
expect 2 "$versus" --ranks 1

# Scripts play all systems: which one runs what, that the better of two rounds counts, and every figure of the table.
mkdir -p "$scratch/build/launcher" "$scratch/build/perf"
cat >"$scratch/build/launcher/halayrun" <<'END'
#!/bin/sh
case " $* " in
*" --buffers shared "*) ms=2 ;;
*" --buffers private "*) ms=4 ;;
*) exit 3 ;;
esac
echo "{\"versions\": {\"halay\": \"7\"}, \"step_ms\": $ms, \"driven_latency_us\": {\"p50\": ${ms}00}}"
END
cat >"$scratch/python" <<'END'
#!/bin/sh
[ "$1" != -c ] || exit 0
[ "${RANK-0}" = 0 ] || exit 0
case " $* " in
*" --rank-of horovod "*) turns=$COUNT.horovod most=40 ;;
*" --rank-of gloo "*) turns=$COUNT.gloo most=20 ;;
esac
echo x >>"$turns"
echo "{\"step_ms\": $((most * $(wc -l <"$turns"))), \"version\": \"peer\"}"
END
printf '#!/bin/sh\nshift 2\nexec "$@"\n' >"$scratch/mpirun"
chmod +x "$scratch/build/launcher/halayrun" "$scratch/python" "$scratch/mpirun"
COUNT=$scratch/turns expect 0 "$versus" --build "$scratch/build" --models many-small --mpirun "$scratch/mpirun" \
    --horovod "$scratch/python" --torch "$scratch/python" --record "$scratch"
says out '^ms a step, 2 ranks, in turn; halay 7, peer.$'
says out '^\| .many-small. \| 1,000 \| 4.1 \| 2.00 \| 4.00 \| 40.0 \| 20.0 \| 20.0 \| 10.0 \| 10.0 \| 5.0 \|$'
holds "$scratch/versus-horovod.json" rows.0.1=1000 'columns.7=Horovod / `halay_alloc`' rows.0.7=positive \
    'columns.10=gloo / private' rows.0.10=positive
checks=$((checks + 1))
[ "$(cat "$scratch/turns.horovod" "$scratch/turns.gloo" | wc -l)" -eq 4 ] || wrong "not two rounds of each"

if python3 -c 'import torch.distributed' 2>/dev/null; then
    expect 0 "$versus" --build "$top_builddir" --models one --rounds 1 --seconds 0.1 --horovod false \
        --record "$scratch"
    says out '^\| .one. \| 1 \| 0.0041 \|'
    holds "$scratch/versus-horovod.json" 'rows.0.0=`one`' rows.0.3=positive rows.0.5=positive rows.0.7=positive
else
    echo "skipped: no torch to measure beside"
fi
perf_end
