# SPDX-License-Identifier: Apache-2.0
"""
torch.compile keeps out of halay's code.

Torch's C++ calls it in the middle of what is compiled (DDP's reducer does), and the compiler would take each function
it enters for a part of the model. torch.compiler.disable does so too, but loads the compiler at once, for programs that
never compile.
"""

import inspect
import sys
import types
from typing import Any, Callable, Iterator, Optional

import torch


def _marker() -> Optional[Callable[[types.CodeType], Any]]:
    """The decorator that keeps torch from compiling a function; None if this torch has no compiler."""
    try:
        frames = torch._C._dynamo.eval_frame
    except AttributeError:  # before torch 2.0
        return None
    if hasattr(frames, "skip_code"):
        return frames.skip_code
    if not hasattr(frames, "_FrameExecStrategy"):
        return None
    strategy = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.DEFAULT)
    return lambda code: frames.set_code_exec_strategy(code, strategy)


def _within(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _within(constant)


def _functions(scope: Any, module: str) -> Iterator[types.FunctionType]:
    for value in vars(scope).values():
        value = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if inspect.isfunction(value) and value.__module__ == module:
            yield value
        elif inspect.isclass(value) and value.__module__ == module:
            yield from _functions(value, module)


def keep_out() -> None:
    """Mark every function of the package that has been imported."""
    mark = _marker()
    package = __name__.split(".")[0]
    for name, module in list(sys.modules.items()):
        if mark is None or name.split(".")[0] != package:
            continue
        for function in _functions(module, name):
            for code in _within(function.__code__):
                mark(code)
