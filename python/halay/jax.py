# SPDX-License-Identifier: Apache-2.0
"""
Collectives of JAX arrays on CPUs, at once and within jax.jit.

    import halay
    import halay.jax

    ctx = halay.Context()

    @jax.jit
    def step(params, x, y):
        grads = halay.jax.allreduce(ctx, jax.grad(loss)(params, x, y), "gradients", reduction="average")
        ...

All take a tree of arrays (an array is one, too) and a name by which the ranks match them; an array within a tree has
the path to it after the name. They are pure functions for JAX: a result that is not used is not computed, so all ranks
use the same. A name is in flight once: two calls that may run at the same time have different names. Shapes are the
same on all ranks. reduction, prescale, postscale, wire, priority, process_set, timeout: as of Context.allreduce_async.

XLA calls halay's library itself (jax.ffi, from JAX 0.5 on) and continues with what does not depend on the result. With
an older JAX it is a jax.pure_callback, which waits.

Gradients go through all of them, but for reductions that have none (only "sum" and "average" do); their collectives
have ".grad" after the name. jax.vmap of an all-reduce and of a broadcast is that of the whole batch; it is refused
for those that go by rows.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from typing import TYPE_CHECKING, Any, Dict, NamedTuple, Tuple

try:
    import jax
except ModuleNotFoundError as failure:
    raise ModuleNotFoundError("halay.jax needs JAX: pip install jax", name=failure.name) from None
import jax.numpy as jnp
import numpy as np

from . import buffers
from ._library import TensorInfo, held, last_error, scatter_rows
from .call_options import FactorOptions, UnnamedOptions
from .constants import Collective
from .context import Context
from .request import wait_all

if TYPE_CHECKING:
    from typing_extensions import Unpack

_TARGET = "halay"
_xla = held.halay_xla_calls().contents
_ROWWISE = (Collective.ALLGATHER, Collective.REDUCE_SCATTER, Collective.ALLTOALL)


class _Call(NamedTuple):
    """A collective of some arrays: what is known when a program is traced."""

    ctx: Context
    collective: Collective
    names: Tuple[str, ...]
    inputs: Tuple[Tuple[int, ...], ...]  # shapes
    results: Tuple[Tuple[int, ...], ...]
    options: Tuple[Tuple[str, Any], ...]

    def reverse(self, collective: Collective, **options: Any) -> "_Call":
        """What gradients take, the other way round."""
        return self._replace(
            collective=collective,
            names=tuple(name + ".grad" for name in self.names),
            inputs=self.results,
            results=self.inputs,
            options=tuple({**dict(self.options), **options}.items()),
        )


# ---- two ways to the library ----


@functools.lru_cache(maxsize=None)
def _has_handler() -> bool:
    """Whether XLA can call the library. If so it is registered."""
    try:
        from jax import ffi

        ffi.register_ffi_target(_TARGET, ffi.pycapsule(_xla.call), platform="cpu")
    except (ImportError, RuntimeError):  # no such module, or this XLA wants another version
        return False
    return True


_places: "weakref.WeakKeyDictionary[Context, int]" = weakref.WeakKeyDictionary()
# Compiled programs have the addresses of these, which they read only while the context is open. One serves all traces
# of a call.
_infos: "weakref.WeakKeyDictionary[Context, Dict[Tuple[Any, ...], TensorInfo]]" = weakref.WeakKeyDictionary()


def _place(ctx: Context) -> int:
    """The address of what compiled programs know of the context."""
    if ctx not in _places:
        place = ctypes.c_void_p()
        with ctx._lock:
            status = _xla.open(ctx._open(), ctypes.byref(place))
            if status:
                raise last_error(status, "open a context for JAX")
            ctx._at_close.append(lambda: _xla.close(place))
        _places[ctx] = place.value or 0
    return _places[ctx]


def _by_handler(call: _Call, arrays: Tuple[Any, ...]) -> Tuple[Any, ...]:
    place, made = _place(call.ctx), []
    infos = _infos.setdefault(call.ctx, {})
    for name, array, shape in zip(call.names, arrays, call.results):
        key = (call.collective, name, call.options)
        if key not in infos:
            infos[key], _ = call.ctx._describe(call.collective, name=name, **dict(call.options))
        ask = jax.ffi.ffi_call(
            _TARGET,
            jax.ShapeDtypeStruct(shape, array.dtype),
            vmap_method=None if call.collective in _ROWWISE else "broadcast_all",
        )
        made.append(ask(array, context=np.uint64(place), info=np.uint64(ctypes.addressof(infos[key]))))
    return tuple(made)


def _by_callback(call: _Call, arrays: Tuple[Any, ...]) -> Tuple[Any, ...]:
    def on_host(*given: Any) -> Tuple[np.ndarray, ...]:
        requests = []
        for name, array in zip(call.names, given):
            data = np.array(array, order="C")
            out = data if call.collective == Collective.ALLREDUCE else None
            requests.append(call.ctx.submit(call.collective, data, out, name=name, **dict(call.options)))
        return tuple(wait_all(requests))

    shapes = tuple(jax.ShapeDtypeStruct(shape, array.dtype) for array, shape in zip(arrays, call.results))
    method = None if call.collective in _ROWWISE else "broadcast_all"
    return tuple(jax.pure_callback(on_host, shapes, *arrays, vmap_method=method))


# ---- gradients ----


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _apply(call: _Call, arrays: Tuple[Any, ...]) -> Tuple[Any, ...]:
    return _by_handler(call, arrays) if _has_handler() else _by_callback(call, arrays)


def _forward(call: _Call, arrays: Tuple[Any, ...]) -> Tuple[Tuple[Any, ...], None]:
    return _apply(call, arrays), None


def _backward(call: _Call, _: None, grads: Tuple[Any, ...]) -> Tuple[Tuple[Any, ...]]:
    ctx, options = call.ctx, dict(call.options)
    reduction, process_set = options.get("reduction", "sum"), options.get("process_set")
    if reduction not in ("sum", "average"):
        raise TypeError(f"a {call.collective.name.lower()} with reduction {reduction!r} has no gradient")
    if call.collective == Collective.ALLREDUCE:
        return (_apply(call.reverse(Collective.ALLREDUCE), grads),)
    if call.collective == Collective.BROADCAST:
        sums = _apply(call.reverse(Collective.ALLREDUCE, root=0), grads)
        # Multiplied, as XLA would leave out a sum that a rank does not look at.
        mine = 1 if ctx.rank == options["root"] else 0
        return (tuple(each * jnp.asarray(mine, each.dtype) for each in sums),)
    if call.collective == Collective.ALLGATHER:
        return (_apply(call.reverse(Collective.REDUCE_SCATTER), grads),)
    if call.collective == Collective.ALLTOALL:
        return (_apply(call.reverse(Collective.ALLTOALL), grads),)
    factor = (options.get("prescale") or 1.0) * (options.get("postscale") or 1.0)
    if reduction == "average":
        factor /= (process_set or ctx).size
    plain = call.reverse(Collective.ALLGATHER, reduction="sum", prescale=None, postscale=None)
    return (tuple(each * jnp.asarray(factor, each.dtype) for each in _apply(plain, grads)),)


_apply.defvjp(_forward, _backward)


# ---- what programs call ----


def _result(collective: Collective, shape: Tuple[int, ...], size: int, rank: int, name: str) -> Tuple[int, ...]:
    """The shape of the result."""
    if collective not in _ROWWISE:
        return shape
    if not shape:
        raise ValueError(f"'{name}' is a scalar, which has no rows")
    if collective == Collective.ALLGATHER:
        return (shape[0] * size, *shape[1:])
    if collective == Collective.REDUCE_SCATTER:
        return (scatter_rows(shape[0], size, rank), *shape[1:])
    if shape[0] % size:
        raise ValueError(f"'{name}' has {shape[0]} rows, and {size} ranks get as many each")
    return shape


def _run(ctx: Context, collective: Collective, tree: Any, name: str, **options: Any) -> Any:
    paths, form = jax.tree_util.tree_flatten_with_path(tree)
    arrays = tuple(jnp.asarray(leaf) for _, leaf in paths)
    names = tuple(name + jax.tree_util.keystr(path) for path, _ in paths)
    member = options.get("process_set") or ctx
    for array, known in zip(arrays, names):
        if array.dtype.name not in buffers.TYPE_NAMES:
            raise TypeError(f"'{known}': halay has no element type {array.dtype.name}: it has {buffers.KNOWN}")
    inputs = tuple(tuple(array.shape) for array in arrays)
    results = tuple(_result(collective, shape, member.size, member.rank, n) for shape, n in zip(inputs, names))
    call = _Call(ctx, collective, names, inputs, results, tuple(options.items()))
    return jax.tree_util.tree_unflatten(form, _apply(call, arrays))


def allreduce(ctx: Context, tree: Any, name: str, *, reduction: str = "sum", **options: Unpack[FactorOptions]) -> Any:
    """Every element reduced over all ranks: "sum", "average", "min", "max", "product"."""
    return _run(ctx, Collective.ALLREDUCE, tree, name, reduction=reduction, **options)


def broadcast(ctx: Context, tree: Any, name: str, *, root: int = 0, **options: Unpack[UnnamedOptions]) -> Any:
    """The root's arrays, on all ranks."""
    return _run(ctx, Collective.BROADCAST, tree, name, root=root, **options)


def allgather(ctx: Context, tree: Any, name: str, **options: Unpack[UnnamedOptions]) -> Any:
    """One rank's rows after the other's."""
    return _run(ctx, Collective.ALLGATHER, tree, name, **options)


def reduce_scatter(
    ctx: Context, tree: Any, name: str, *, reduction: str = "sum", **options: Unpack[FactorOptions]
) -> Any:
    """Every element reduced over all ranks, of which this rank gets its part of the rows: the first ranks one more
    where they do not come out even."""
    return _run(ctx, Collective.REDUCE_SCATTER, tree, name, reduction=reduction, **options)


def alltoall(ctx: Context, tree: Any, name: str, **options: Unpack[UnnamedOptions]) -> Any:
    """As many rows for each rank, which go to it; the result has rows from each rank, in order of rank."""
    return _run(ctx, Collective.ALLTOALL, tree, name, **options)
