# SPDX-License-Identifier: Apache-2.0
"""The types of the options that collectives take by name, for editors and type checkers. Context.allreduce_async and
the methods after it say what they mean."""

from typing import TYPE_CHECKING, Optional, Sequence, TypedDict, Union

from .constants import Reduction, Wire

if TYPE_CHECKING:
    from .context import ProcessSet


class UnnamedOptions(TypedDict, total=False):
    """Of every collective, send and receive whose name is an argument of its own."""

    priority: int
    process_set: "Optional[ProcessSet]"
    timeout: Optional[float]


class FactorOptions(UnnamedOptions, total=False):
    """Of those that reduce, where name and reduction are arguments of their own."""

    on_devices: bool
    prescale: Optional[float]
    postscale: Optional[float]
    wire: Union[Wire, str, None]


class UnnamedReduceOptions(FactorOptions, total=False):
    """Of those that reduce, where the name is an argument of its own."""

    reduction: Union[Reduction, str]


class CallOptions(UnnamedOptions, total=False):
    """Of every collective, send and receive."""

    name: Optional[str]


class DeviceOptions(CallOptions, total=False):
    """Of those that the devices of a host perform among themselves."""

    on_devices: bool


class ReduceOptions(UnnamedReduceOptions, total=False):
    """Of those that reduce."""

    name: Optional[str]


class RowOptions(CallOptions, total=False):
    """Of those that deal out rows."""

    splits: Optional[Sequence[int]]


class ReduceRowOptions(ReduceOptions, total=False):
    """Of a reduce-scatter."""

    splits: Optional[Sequence[int]]
