#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: tests/python/wheel.sh [WHEEL | SDIST]
# The wheel in a bare virtual environment, without a compiler in PATH: its size, what it is linked with, how long it
# takes to install and to import, its programs, a job of two ranks, and what auditwheel says, if that is installed.
# Without WHEEL, tools/wheel builds one, and with SDIST pip does: without a compiler that has to fail with a clear text.
# Not among the tests of `make check`, since the build takes minutes; test_wheel.sh looks at a wheel of what is built.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
auditwheel=$(command -v auditwheel || true)
check() {
    local text=$1
    shift
    "$@" >"$scratch/said" 2>&1 && return
    failed=$((failed + 1))
    echo "failed: $text: $*"
    sed 's/^/  /' "$scratch/said" | tail -n 20
}
if [ $# = 0 ]; then
    "$top/tools/wheel" "$scratch/dist"
    set -- "$scratch"/dist/*.whl
fi
case $1 in
*.tar.gz)
    sdist=$(realpath "$1")
    python3 -m venv "$scratch/builder"
    pip=$scratch/builder/bin/pip
    mkdir "$scratch/tools"
    for tool in env sh uname cat ldd; do ln -s "$(command -v $tool)" "$scratch/tools/"; done
    check "no install without a compiler" eval \
        '! PATH=$scratch/tools "$pip" install --no-index "$sdist" >"$scratch/pip" 2>&1'
    check "and a clear text" grep -q 'there is no cc, make, .* in PATH' "$scratch/pip"
    check "pip wheel" "$pip" wheel --no-index --no-deps -w "$scratch/dist" "$sdist"
    set -- "$scratch"/dist/*.whl
    ;;
esac
wheel=$(realpath "$1")
limit=5
python3 -m zipfile -l "$wheel" | grep -q libhalay-tft-cuda.so && limit=12
check "$limit MB at most" test "$(stat -c %s "$wheel")" -le ${limit}000000

# A folder with what the tests need, and no compiler.
mkdir "$scratch/path"
for tool in env sh uname cat ldd; do ln -s "$(command -v $tool)" "$scratch/path/"; done
python3 -m venv "$scratch/venv"
export PATH=$scratch/venv/bin:$scratch/path
unset PYTHONPATH HALAY_LIBRARY LD_LIBRARY_PATH
begin=${EPOCHREALTIME/./}
check "pip install" pip install --quiet --no-index --disable-pip-version-check "$wheel"
echo "pip install: $(((${EPOCHREALTIME/./} - begin) / 1000)) ms"
export PATH=$scratch/venv/bin:$scratch/path:/usr/bin:/bin
cd "$scratch"
check "import" python -c 'import halay'
check "import of the trainer" python -c 'import halay.tft'
python - <<'END'
import subprocess, sys, time
def seconds(code):
    best = 9.0
    for _ in range(9):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        best = min(best, time.perf_counter() - begin)
    return best
print(f"import halay: {(seconds('import halay') - seconds('pass')) * 1000:.0f} ms")
END
for program in halayrun halay-tft halay-perf; do
    check "$program runs" "$program" --version
    check "$program is no script" eval 'test "$(head -c 4 "$scratch/venv/bin/$program" | tail -c 3)" = ELF'
    check "$program needs the C library only" eval '! ldd "$scratch/venv/bin/$program" |
        grep -vE "linux-vdso|ld-linux|lib(c|m|dl|rt|pthread)\.so"'
done
cat >"$scratch/sum.py" <<'END'
import os, sys
import halay
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
assert os.path.realpath(halay.__file__).startswith(os.path.realpath(sys.prefix)), halay.__file__
print("rank", rank, "of", size)
END
check "a job of two ranks" halayrun -np 2 python "$scratch/sum.py"
if test $limit = 12 && test ! -e /dev/nvidiactl; then
    check "the module for GPUs loads, and says that there is no driver" eval 'python -c "
import halay
with halay.Context() as context:
    print(context.device_fault(0))" | grep "no CUDA device can be used: cudaErrorInsufficientDriver"'
fi
case $wheel in
*-manylinux_2_28_*)
    check "it answers by HTTP" halayrun -np 1 --metrics "unix:$scratch/socket" halayrun --status "unix:$scratch/socket"
    ;;
esac
check "halay-perf" halayrun -np 2 halay-perf allreduce -e 64K -n 5
check "the entry point" python -c '
from importlib import metadata
all = metadata.entry_points()
found = all.select(group="torch.distributed.backends") if hasattr(all, "select") else all["torch.distributed.backends"]
assert [e.value for e in found if e.name == "halay"] == ["halay.distributed:register"]'
check "pip check" pip check --disable-pip-version-check
if test -n "$auditwheel"; then
    # UCX and CUDA come from elsewhere. (repair fails if the wheel cannot have that tag; it needs patchelf.)
    tag=$(basename "$wheel" .whl | grep -o 'manylinux_.*')
    check "auditwheel agrees with its tag" env PATH="$(dirname "$auditwheel"):$PATH" auditwheel repair --only-plat \
        --plat "$tag" --exclude 'libuc[ps].so.0' --exclude 'libcu*.so.1*' -w "$scratch/repaired" "$wheel"
else
    echo "skipped: no auditwheel"
fi
check "pip uninstall" pip uninstall --quiet --yes halay
check "nothing stays" test ! -e "$scratch/venv/bin/halayrun"
echo "$failed failed"
test $failed = 0
