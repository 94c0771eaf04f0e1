# SPDX-License-Identifier: Apache-2.0
"""Training with JAX on several ranks: halayrun -np 2 python jax_training.py

Each array of the gradients is an all-reduce of its own within the compiled step: XLA goes on while they are under way.
"""
import jax
import jax.numpy as jnp
import numpy as np

import halay
import halay.jax

ctx = halay.Context()


def loss(params, x, y):
    return jnp.mean((jnp.tanh(x @ params["a"]) @ params["b"] - y) ** 2)


@jax.jit
def step(params, x, y):
    grads = halay.jax.allreduce(ctx, jax.grad(loss)(params, x, y), "gradients", reduction="average")
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


key = jax.random.PRNGKey(0)  # the same on all ranks: they begin with the same weights
params = {"a": jax.random.normal(key, (16, 32)) * 0.1, "b": jax.random.normal(key, (32, 1)) * 0.1}
x = jax.random.normal(jax.random.PRNGKey(1 + ctx.rank), (64, 16))
y = x[:, :1]
before = float(loss(params, x, y))
for _ in range(50):
    params = step(params, x, y)
sums = ctx.allgather(np.array([[float(jnp.sum(params["a"])), float(jnp.sum(params["b"]))]]), name="check")
assert (sums == sums[0]).all(), sums
after = float(loss(params, x, y))
print(f"rank {ctx.rank}: loss {before:.3f}, {after:.3f} after 50 steps; all ranks have the same weights")
ctx.close()
