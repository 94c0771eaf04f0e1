#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# usage: frameworks.sh ENVIRONMENT BUILD
#
# Lightning, Accelerate, transformers' Trainer and Ray Train over the backend "halay" on 2 ranks of this host: each
# trains a small network and ends with the weights that it has over gloo, to the bit. ENVIRONMENT is a Python
# environment with torch; what else is needed is installed from PyPI, into an environment made beside it for this run.
# BUILD is a build of halay.
set -eu
[ $# -eq 2 ] || {
    echo "usage: frameworks.sh ENVIRONMENT BUILD" >&2
    exit 2
}
here=$(cd "$(dirname "$0")" && pwd)
environment=$(cd "$1" && pwd) build=$(cd "$2" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$environment/bin/python" -m venv "$scratch/venv"
python=$scratch/venv/bin/python
"$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
    >"$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
"$python" -m pip install --quiet --disable-pip-version-check lightning accelerate transformers "ray[train]"
"$python" -m pip list --disable-pip-version-check 2>/dev/null |
    grep -E '^(torch|lightning|accelerate|transformers|ray) '
HALAY_LIBRARY=$build/.libs/libhalay.so.1 PYTHONPATH=$here/../../python GLOO_SOCKET_IFNAME=lo
export HALAY_LIBRARY PYTHONPATH OMP_NUM_THREADS=1
failed=0
for framework in lightning accelerate transformers ray; do
    for backend in gloo halay; do
        # Ray starts its own workers.
        start="$build/launcher/halayrun -np 2"
        [ $framework != ray ] || start=
        # shellcheck disable=SC2086
        $start "$python" "$here/frameworks.py" $framework $backend >"$scratch/log" 2>&1 || failed=1
        grep -o 'weights [-+.e0-9]*' "$scratch/log" | sort -u >"$scratch/$backend" || {
            echo "$framework over $backend failed:"
            tail -n 20 "$scratch/log"
            failed=1
        }
    done
    if [ "$(wc -l <"$scratch/halay")" = 1 ] && cmp -s "$scratch/gloo" "$scratch/halay"; then
        echo "$framework: the same weights as over gloo: $(cat "$scratch/halay")"
    else
        echo "$framework: not the weights as over gloo:" && cat "$scratch/gloo" "$scratch/halay"
        failed=1
    fi
done
exit $failed
