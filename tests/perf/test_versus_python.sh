#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# perf/bench/versus_python.py: it reports what is not installed, takes the best of several rounds, and with torch and
# NumPy measures halay beside gloo.
. "${top_srcdir:?}/tests/perf/perf.sh"
command -v python3 >/dev/null 2>&1 || skip "no python3"
versus=$top_srcdir/perf/bench/versus_python.py

expect 77 "$versus" --torch false --horovod /nowhere/python
says err "horovod is left out: '/nowhere/python' has none"
says err "skipped: 'false' has no torch and NumPy"
expect 2 "$versus" --models resnet
says err "no model 'resnet': there are one, many-small, "
expect 2 "$versus" --cases large
says err "no case 'large': there are small, optimizer, ddp, fsdp"
expect 2 "$versus" --ranks 1

# Scripts play all systems: each figure of the table, and that the better of two rounds counts.
mkdir -p "$scratch/build/launcher"
printf '#!/bin/sh\nshift 3\nexec "$@"\n' >"$scratch/build/launcher/halayrun"
printf '#!/bin/sh\nshift 2\nexec "$@"\n' >"$scratch/mpirun"
cat >"$scratch/python" <<'END'
#!/bin/sh
[ "$1" != -c ] || { echo torch 9; exit 0; }
case " $* " in
*" --rank-of small/handle "*) what=handle ms=1 ;;
*" --rank-of small/name "*) what=name ms=2 ;;
*" --rank-of small/halay "*) what=small ms=4 ;;
*" --rank-of small/gloo "*) what=gloo ms=40 ;;
*" --rank-of optimizer/halay "*) what=ours ms=3 ;;
*" --rank-of optimizer/horovod "*) what=horovod ms=30 ;;
*) exit 3 ;;
esac
echo x >>"$COUNT.$what"
echo "{\"ms\": $((ms * (3 - $(wc -l <"$COUNT.$what"))))}"
END
chmod +x "$scratch/build/launcher/halayrun" "$scratch/mpirun" "$scratch/python"
COUNT=$scratch/turns expect 0 "$versus" --build "$scratch/build" --cases small,optimizer --models many-small \
    --rounds 2 --mpirun "$scratch/mpirun" --horovod "$scratch/python" --torch "$scratch/python" \
    --record "$scratch"
says out '^\| all-reduce of 4 KB, µs, by a registered handle \| 1,000 \| 40,000 \| 40.0 \|$'
says out '^\| all-reduce of 4 KB, µs, by name \| 2,000 \| 40,000 \| 20.0 \|$'
says out '^\| all-reduce of 4 KB, µs \| 4,000 \| 40,000 \| 10.0 \|$'
says out '^\| DistributedOptimizer, .many-small.: what it adds to a step, ms \| 3.00 \| 30.0 \| 10.0 \|$'
holds "$scratch/versus-python.json" columns.1=halay rows.0.1=positive rows.3.3=positive

if python3 -c 'import numpy, torch.distributed' 2>/dev/null; then
    expect 0 "$versus" --build "$top_builddir" --cases small --rounds 1 --share 0.01 --horovod false --record "$scratch"
    holds "$scratch/versus-python.json" rows.0.1=positive rows.2.1=positive rows.2.2=positive rows.2.3=positive
else
    echo "skipped: no torch and NumPy to measure with"
fi
perf_end
