# SPDX-License-Identifier: Apache-2.0
"""What an elastic program keeps of its progress, and gives to ranks that join."""
from __future__ import annotations

import copy
from typing import Any, Callable, Dict, List, Tuple

import torch

from halay.torch import _job
from halay.torch._job import HostsUpdatedInterrupt
from halay.torch.elastic.sampler import ElasticSampler
from halay.torch.functions import broadcast_object, broadcast_optimizer_state, broadcast_parameters


class State:
    """What commit(), restore() and sync() are made of. Override save, restore, sync, and reset if need be."""

    def __init__(self, bcast_object: Callable[..., Any] = broadcast_object,
                 get_rank: Callable[[], int] = _job.rank) -> None:
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._reset_callbacks: List[Callable[[], None]] = []

    def register_reset_callbacks(self, callbacks: List[Callable[[], None]]) -> None:
        """Called after the ranks have changed and before the state is synchronised: to set a learning rate that depends
        on their number, to make process sets again."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def commit(self) -> None:
        """Keep the state: from now on nothing older is restored. All ranks call it alike. HostsUpdatedInterrupt: the
        job has been re-formed, with ranks that wait for the state."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Let processes join that wait, and leave that are to leave. All ranks call it alike, as they call commit()."""
        if _job.elastic_commit():
            raise HostsUpdatedInterrupt(False)

    def save(self) -> None:
        """Keep a copy in this process."""
        raise NotImplementedError

    def restore(self) -> None:
        """Go back to the copy."""
        raise NotImplementedError

    def sync(self) -> None:
        """Take rank 0's state, and keep a copy."""
        raise NotImplementedError

    def reset(self) -> None:
        """The ranks have changed."""


class ObjectState(State):
    """Python objects, each an attribute. They travel pickled (see halay.torch.functions)."""

    def __init__(self, bcast_object: Callable[..., Any] = broadcast_object,
                 get_rank: Callable[[], int] = _job.rank, **kwargs: Any) -> None:
        _job.settle()
        self._saved_state = dict(kwargs)
        self._set_attributes()
        super().__init__(bcast_object, get_rank)

    def _set_attributes(self) -> None:
        for name, value in self._saved_state.items():
            setattr(self, name, copy.deepcopy(value))

    def save(self) -> None:
        _job.settle()
        self._keep()

    def _keep(self) -> None:
        self._saved_state = {name: copy.deepcopy(getattr(self, name)) for name in self._saved_state}

    def restore(self) -> None:
        self._set_attributes()

    def sync(self) -> None:
        if self._saved_state:
            self._saved_state = self._bcast_object(self._saved_state)
            self._set_attributes()


class StateHandler:
    """How a TorchState treats a value of some type."""

    def __init__(self, value: Any) -> None:
        _job.settle()
        self.value = value
        self.save()

    def set_value(self, value: Any) -> None:
        _job.settle()
        self.value = value
        self.save()

    def save(self) -> None:
        """Keep a copy."""
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        """Go back to it."""
        self.value.load_state_dict(self._saved)

    def sync(self) -> None:
        """Take rank 0's."""
        raise NotImplementedError


class ModelStateHandler(StateHandler):
    def sync(self) -> None:
        broadcast_parameters(self.value.state_dict(), root_rank=0)
        _job.settle()
        self.save()


class OptimizerStateHandler(StateHandler):
    def restore(self) -> None:
        self.value.load_state_dict(copy.deepcopy(self._saved))  # it keeps and changes what it is given

    def sync(self) -> None:
        broadcast_optimizer_state(self.value, root_rank=0)
        _job.settle()
        self.save()


class SamplerStateHandler(StateHandler):
    def sync(self) -> None:
        self.value.load_state_dict(broadcast_object(self.value.state_dict(), name='sampler'))
        self.save()


_handlers: List[Tuple[type, type]] = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry() -> List[Tuple[type, type]]:
    """Types and their handlers; the first that fits counts."""
    return _handlers


def set_handler_registry(registry: List[Tuple[type, type]]) -> None:
    global _handlers
    _handlers = registry


class TorchState(ObjectState):
    """Models, optimizers and samplers, which are kept and sent by what they are, and other objects as in ObjectState.
    Each is an attribute: state.model, state.epoch."""

    def __init__(self, model: Any = None, optimizer: Any = None, **kwargs: Any) -> None:
        objects: Dict[str, Any] = {}
        handlers: Dict[str, StateHandler] = {}
        for name, value in dict(kwargs, model=model, optimizer=optimizer).items():
            kind = next((kind for of, kind in _handlers if isinstance(value, of)), None)
            if kind:
                handlers[name] = kind(value)
            else:
                objects[name] = value
        self._handlers = handlers
        for name, handler in handlers.items():
            object.__setattr__(self, name, handler.value)
        super().__init__(**objects)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__.get('_handlers', {}):
            self._handlers[name].set_value(value)
        super().__setattr__(name, value)

    def _keep(self) -> None:
        for handler in self._handlers.values():
            handler.save()
        super()._keep()

    def restore(self) -> None:
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        for handler in self._handlers.values():
            handler.sync()
        super().sync()
