# SPDX-License-Identifier: Apache-2.0
"""PyTorch tensors in main memory: every type of theirs that halay has, nothing copied, and what is refused."""

import torch

import halay

TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8, torch.int8,
         torch.int16, torch.bool]  # fmt: skip


def refused(ctx, tensor, kind, text):
    try:
        ctx.allreduce(tensor, tensor)
    except kind as failure:
        assert text in str(failure), (failure, text)
    else:
        raise SystemExit(f"taken: {tensor}")


def check_types(ctx):
    for dtype in TYPES:
        for shape in ((), (0,), (3, 4)):
            ones = torch.ones(shape, dtype=dtype)
            total = ctx.allreduce(ones, name=f"{dtype}")
            assert total.dtype == dtype and total.shape == ones.shape
            assert (total == (torch.ones_like(ones) if dtype == torch.bool else ones * ctx.size)).all(), total
            place = ones.data_ptr()
            assert ctx.allreduce(ones, ones, name=f"{dtype}") is ones and ones.data_ptr() == place
            assert torch.equal(ones, total)
        rows = torch.full((ctx.rank + 1, 2), ctx.rank).to(dtype)
        gathered = ctx.allgather(rows, name="rows")
        assert torch.equal(gathered, torch.cat([torch.full((r + 1, 2), r) for r in range(ctx.size)]).to(dtype))


def check_gradients(ctx):
    """Tensors that a graph hangs on: halay writes data, autograd is not asked."""
    weight = torch.ones(4, requires_grad=True)
    (weight * (ctx.rank + 1)).sum().backward()
    ctx.allreduce(weight.grad, weight.grad, reduction="average", name="gradient")
    assert (weight.grad == (ctx.size + 1) / 2).all()
    ctx.broadcast(weight.data, name="weight")
    assert not ctx.allreduce(weight, name="weights").requires_grad


def check_memory(ctx):
    for dtype, name in ((torch.float32, "f32"), (torch.bfloat16, "bf16"), (torch.bool, "bool")):
        shared = ctx.alloc((2, 5), name, "torch")
        assert shared.dtype == dtype and shared.shape == (2, 5)
        shared.fill_(1)
        part = shared[1]
        assert ctx.allreduce(part, part).sum() == (5 if dtype == torch.bool else 5 * ctx.size)
        assert shared[0].sum() == 5


with halay.Context() as context:
    check_types(context)
    check_gradients(context)
    check_memory(context)
    refused(context, torch.ones(3, 4).t(), ValueError, "not contiguous")
    refused(context, torch.ones(3, dtype=torch.complex64), TypeError, "complex64")
    refused(context, torch.ones(3).to_sparse(), TypeError, "sparse")
    refused(context, torch.ones(3, device="meta"), TypeError, "'meta'")
