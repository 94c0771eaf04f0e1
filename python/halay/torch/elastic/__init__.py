# SPDX-License-Identifier: Apache-2.0
"""Elastic training: the job continues when ranks are lost, and takes in new ones.
Under `halayrun --min-np` and the like.

    @hvd.elastic.run
    def train(state):
        while state.epoch < 10:
            ...
            state.commit()

    train(hvd.elastic.TorchState(model, optimizer, epoch=0))
"""
from __future__ import annotations

import functools
from typing import Any, Callable

from halay.torch import _job
from halay.torch._job import HorovodInternalError, HostsUpdatedInterrupt
from halay.torch.elastic.sampler import ElasticSampler
from halay.torch.elastic.state import ObjectState, State, TorchState

__all__ = ['ElasticSampler', 'ObjectState', 'State', 'TorchState', 'run']


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Make of func(state, ...) a function that starts again after a loss, from the last commit.

    Before each start the state is that of rank 0, which is never a rank that has just joined. A lost rank ends func by
    HorovodInternalError, a re-formed job by HostsUpdatedInterrupt, which state.commit() raises; an error of another
    kind, as that of ranks that disagree about a tensor, is passed on. In a job that is not elastic it is as if
    func(state, ...) were called after state.sync().
    """
    @functools.wraps(func)
    def wrapper(state: Any, *args: Any, **kwargs: Any) -> Any:
        _job.elastic_begin()
        has_to_sync, has_changed = True, False
        while True:
            try:
                if has_changed:
                    state.on_reset()
                if has_to_sync:
                    state.sync()
                return func(state, *args, **kwargs)
            except HorovodInternalError:
                if not _job.can_restore():
                    raise
                state.restore()
                _job.elastic_restore()
                has_to_sync = has_changed = True
            except HostsUpdatedInterrupt as changed:
                has_to_sync, has_changed = not changed.skip_sync, True
    return wrapper
