#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# PyTorch with tensors on a GPU, emulated: halay.torch, torch.distributed.
. "$top_srcdir/tests/python/lib.sh"
need torch
EMULATION=$top_builddir/tests/cuda/.libs/libemu.so
[ -f "$EMULATION" ] || skip "CUDA is not emulated here"
HALAY_MODULE_PATH=$top_builddir/tests/cuda/module/.libs
export EMULATION HALAY_MODULE_PATH EMU_OFF=host-touch EMU_DEVICES=1 EMU_ORDER=2
store=$(mktemp -d)
trap 'rm -rf "$store"' EXIT
job 2 cuda_horovod.py
job 2 cuda_distributed.py "$store/meeting"
