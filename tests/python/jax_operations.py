# SPDX-License-Identifier: Apache-2.0
"""JAX's collectives over halay on several ranks, by XLA's call of the library and by a callback."""
import functools
import gc
import sys

import jax
import jax.numpy as jnp
import numpy as np
from checks import raises

import halay
import halay.jax as hj

ctx = halay.Context()
RANK, SIZE = ctx.rank, ctx.size
TOTAL = SIZE * (SIZE - 1) // 2  # of all ranks' numbers
allreduce = functools.partial(hj.allreduce, ctx)
rows = jnp.arange(2.0 * SIZE).reshape(2 * SIZE, 1) + 100 * RANK


def same(got, wanted):
    assert np.array_equal(np.asarray(got), np.asarray(wanted)), (got, wanted)


def operations(way):
    mine = jnp.arange(3.0) + RANK
    total = jnp.arange(3.0) * SIZE + TOTAL
    for run, name in ((lambda f: f, "at once"), (jax.jit, "jit")):
        name = f"{way} {name} "
        same(run(lambda x: allreduce(x, name + "sum"))(mine), total)
        same(run(lambda x: allreduce(x, name + "average", reduction="average"))(mine), total / SIZE)
        same(run(lambda x: allreduce(x, name + "min", reduction="min"))(mine), jnp.arange(3.0))
        same(run(lambda x: allreduce(x, name + "max", reduction="max"))(mine), jnp.arange(3.0) + SIZE - 1)
        same(run(lambda x: allreduce(x, name + "scaled", prescale=2.0, postscale=0.5))(mine), total)
        same(run(lambda x: hj.broadcast(ctx, x, name + "one", root=SIZE - 1))(mine), jnp.arange(3.0) + SIZE - 1)
        same(run(lambda x: hj.allgather(ctx, x, name + "all"))(mine[None]),
             jnp.stack([jnp.arange(3.0) + r for r in range(SIZE)]))
        sums = SIZE * jnp.arange(2.0 * SIZE).reshape(-1, 1) + 100 * TOTAL
        same(run(lambda x: hj.reduce_scatter(ctx, x, name + "part"))(rows), sums[2 * RANK:2 * RANK + 2])
        same(run(lambda x: hj.alltoall(ctx, x, name + "cross"))(rows),
             [[2 * RANK + i + 100 * r] for r in range(SIZE) for i in (0, 1)])
    tree = jax.jit(lambda t: allreduce(t, way + " tree"))({"a": mine, "b": [mine[0], jnp.int32(RANK)]})
    same(tree["a"], total)
    same(tree["b"][0], total[0])
    same(tree["b"][1], TOTAL)
    assert tree["b"][1].dtype == jnp.int32


def types(way):
    for kind in (jnp.float16, jnp.bfloat16, jnp.int8, jnp.uint16, jnp.int32, jnp.bool_):
        got = jax.jit(lambda x: allreduce(x, f"{way} {x.dtype.name}", reduction="max"))(jnp.full((2, 1), RANK, kind))
        assert got.dtype == kind and got.shape == (2, 1)
        same(got, np.full((2, 1), SIZE - 1, kind))
    deep = jnp.ones((2, 1, 1, 1, 1, 1, 1, 1, 3))
    same(allreduce(deep, way + " deep"), deep * SIZE)
    raises(TypeError, lambda: allreduce(jnp.ones(2, jnp.uint32), "u"), "no element type uint32", "'u'")
    raises(ValueError, lambda: hj.allgather(ctx, jnp.float32(1), "s"), "scalar")


def gradients(way):
    mine = jnp.arange(3.0) + RANK

    def squares(call):
        return jax.jit(jax.grad(lambda x: (call(x) ** 2).sum()))

    total = jnp.arange(3.0) * SIZE + TOTAL
    same(squares(lambda x: allreduce(x, way + " g"))(mine), 2 * total * SIZE)
    same(squares(lambda x: allreduce(x, way + " ga", reduction="average"))(mine), 2 * total / SIZE)
    same(squares(lambda x: hj.broadcast(ctx, x, way + " gb", root=0))(mine),
         2 * SIZE * mine if RANK == 0 else 0 * mine)
    same(squares(lambda x: hj.allgather(ctx, x, way + " gg"))(rows), 2 * SIZE * rows)
    sums = SIZE * jnp.arange(2.0 * SIZE).reshape(-1, 1) + 100 * TOTAL
    same(squares(lambda x: hj.reduce_scatter(ctx, x, way + " gr"))(rows), 2 * sums)
    same(squares(lambda x: hj.alltoall(ctx, x, way + " gx"))(rows), 2 * rows)
    raises(TypeError, lambda: jax.grad(lambda x: allreduce(x, "m", reduction="max").sum())(mine), "has no gradient")


def transformations(way):
    same(jax.jit(jax.vmap(lambda x: allreduce(x, way + " batch")))(rows), SIZE * jnp.arange(2.0 * SIZE).reshape(
        -1, 1) + 100 * TOTAL)
    raises((NotImplementedError, ValueError), lambda: jax.vmap(lambda x: hj.allgather(ctx, x, "rows"))(rows), "vmap")

    def body(carry, _):
        return allreduce(carry, way + " loop", reduction="average") + 1, None
    same(jax.jit(lambda x: jax.lax.scan(body, x, None, length=20)[0])(jnp.ones(4)), jnp.ones(4) * 21)
    many = jax.jit(lambda x: sum(allreduce(x * i, f"{way} {i}") for i in range(40)))
    for _ in range(5):
        same(many(jnp.ones(100)), jnp.full(100, 780.0 * SIZE))


def ends(way):
    if SIZE > 1:
        failing = jax.jit(lambda x: allreduce(x, way + " unlike"))
        raises(Exception, lambda: jax.block_until_ready(failing(jnp.ones(2 + RANK))), "unlike")
        if way == "handler":
            failing = jax.jit(lambda x: hj.allgather(ctx, x, way + " uneven"))
            raises(Exception, lambda: jax.block_until_ready(failing(jnp.ones((2 + RANK % 2, 1)))), "uneven")
    same(allreduce(jnp.ones(2), way + " after"), jnp.full(2, 1.0 * SIZE))


assert hj._has_handler() == (sys.argv[1] == "handler"), jax.__version__
for way in ("handler", "callback") if sys.argv[1] == "handler" else ("callback",):
    hj._has_handler = lambda way=way: way == "handler"
    for test in (operations, types, gradients, transformations, ends):
        test(way)
    gc.collect()
if sys.argv[1] == "handler":
    hj._has_handler = lambda: True
    late = jax.jit(lambda x: allreduce(x, "late"))
    late(jnp.ones(2)).block_until_ready()
    ctx.close()
    raises(Exception, lambda: jax.block_until_ready(late(jnp.ones(2))), "the context was closed")
