#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# usage: with_torch.sh ENVIRONMENT BUILD
#
# The backend "halay" with the torch of a Python environment, on the library of a build: every collective, and trainings
# beside gloo's. To make an environment: python3 -m venv ENVIRONMENT && ENVIRONMENT/bin/pip install torch numpy
set -eu
[ $# -eq 2 ] || {
    echo "usage: with_torch.sh ENVIRONMENT BUILD" >&2
    exit 2
}
python=$1/bin/python build=$2
here=$(cd "$(dirname "$0")" && pwd)
HALAY_LIBRARY=$build/.libs/libhalay.so.1
PYTHONPATH=$here/../../python:$here
export HALAY_LIBRARY PYTHONPATH OMP_NUM_THREADS=1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$python" -c 'import torch; print("torch", torch.__version__)'
"$build/launcher/halayrun" -np 3 "$python" "$here/torch_backend.py" "$scratch/collectives"
"$python" "$here/torch_death.py"
"$build/launcher/halayrun" -np 2 "$python" "$here/torch_training.py" "$scratch/training"
