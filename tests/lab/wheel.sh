#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: wheel.sh ENVIRONMENT [WHEEL]
#
# A wheel, installed beside nothing else, trains on two hosts of a lab to the bits of one host: PyTorch's
# DistributedDataParallel, and halay-tft. It has neither UCX nor MPI. ENVIRONMENT is a Python environment with torch;
# without WHEEL tools/wheel makes one. Needs root and an ssh server.
set -eu
case $# in
1 | 2) ;;
*)
    echo "usage: wheel.sh ENVIRONMENT [WHEEL]" >&2
    exit 2
    ;;
esac
top=$(cd "$(dirname "$0")/../.." && pwd)
environment=$(cd "$1" && pwd)
wheel=${2:+$(realpath "$2")}
scratch=$(mktemp -d "$top/wheel.XXXXXX") lab=
trap '[ -z "$lab" ] || sh "$top/tests/lab/lab" remove "$lab"; rm -rf "$scratch"' EXIT
if [ -z "$wheel" ]; then
    "$top/tools/wheel" "$scratch/dist" >"$scratch/said" 2>&1 || { cat "$scratch/said"; exit 1; }
    wheel=$(ls "$scratch"/dist/*.whl)
fi
"$environment/bin/python" -m venv "$scratch/venv"
bin=$scratch/venv/bin
"$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
    >"$("$bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
"$bin/python" -m pip install --quiet --disable-pip-version-check --ignore-installed --no-index --no-deps \
    "$wheel"
"$bin/python" -c 'import torch' || { echo "wheel.sh: '$1' has no torch of its own" >&2; exit 1; }
cat >"$scratch/train.py" <<'END'
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import halay.distributed  # noqa: F401

torch.set_num_threads(1)
dist.init_process_group("halay")
torch.manual_seed(1)
network = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
model = DistributedDataParallel(network)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
numbers = torch.Generator().manual_seed(dist.get_rank())
for _ in range(50):
    x = torch.randn(32, 64, generator=numbers)
    loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
bits = [p.detach().view(torch.int32).to(torch.int64).sum().item() for p in model.parameters()]
print("weights", dist.get_world_size(), *bits, flush=True)
dist.destroy_process_group()
END
lab=$(sh "$top/tests/lab/lab" make --ssh 2)
on_1() {
    timeout 300 sh "$top/tests/lab/lab" enter "$lab" 1 env -u HALAY_MODULE_PATH OMP_NUM_THREADS=1 "$@" </dev/null
}
on_1 "$bin/halay-tft" prepare --schema "$top/data/pjm.yaml" "$top/data/pjm" -o "$scratch/pjm.htd" \
    >"$scratch/said" 2>&1 || { cat "$scratch/said"; exit 1; }
failed=0
for hosts in "hl$lab-1:2" "hl$lab-1,hl$lab-2"; do
    on_1 "$bin/halayrun" --no-prefix -x HALAY_LOG=info -np 2 -H "$hosts" "$bin/python" "$scratch/train.py" \
        >"$scratch/$hosts.out" 2>"$scratch/$hosts.err" || { tail -n 20 "$scratch/$hosts.err"; failed=1; }
    grep '^weights 2 ' "$scratch/$hosts.out" | sort -u >"$scratch/$hosts.weights"
    on_1 "$bin/halayrun" -np 2 -H "$hosts" "$bin/halay-tft" train --data "$scratch/pjm.htd" --hidden-size 8 --heads 2 \
        --batch-size 32 --train-samples 96 --valid-samples 32 --epochs 1 --deterministic ranks --threads 1 \
        --out "$scratch/$hosts" >"$scratch/said" 2>&1 || { tail -n 20 "$scratch/said"; failed=1; }
done
same() {
    if cmp -s "$2" "$3" && [ -s "$2" ]; then
        echo "$1: the same bits on two hosts as on one"
    else
        echo "$1: other bits on two hosts than on one"
        failed=1
    fi
}
[ "$(wc -l <"$scratch/hl$lab-1,hl$lab-2.weights")" = 1 ] || { echo "the ranks' weights differ"; failed=1; }
same "DistributedDataParallel" "$scratch/hl$lab-1:2.weights" "$scratch/hl$lab-1,hl$lab-2.weights"
same "halay-tft" "$scratch/hl$lab-1:2/model.safetensors" "$scratch/hl$lab-1,hl$lab-2/model.safetensors"
grep -q 'tcp' "$scratch/hl$lab-1,hl$lab-2.err" || { echo "tcp carried no data"; failed=1; }
exit $failed
