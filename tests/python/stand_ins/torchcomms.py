# SPDX-License-Identifier: Apache-2.0
"""What halay.torchcomms uses of torchcomms, for tests where there is none: communicators pass calls on to backends."""
import enum
import types
from datetime import timedelta


class TorchCommBackend:
    pass


class _Type(enum.Enum):
    SUM, PRODUCT, MIN, MAX, BXOR, PREMUL_SUM = range(6)


ReduceOp = types.SimpleNamespace(**{kind.name: types.SimpleNamespace(type=kind) for kind in _Type})
_backends = {}


def register_backend(name, backend_class):
    _backends[name] = backend_class


class TorchComm:
    def __init__(self, backend):
        self._backend = backend

    def split(self, ranks, name):
        made = self._backend.split(ranks, name, _options())
        return TorchComm(made) if made else None

    def __getattr__(self, name):
        return getattr(self._backend, name)


def _options():
    return types.SimpleNamespace(store=None, timeout=timedelta(seconds=60))


def new_comm(backend, device, name):
    made = _backends[backend]()
    made.init(device, name, _options())
    return TorchComm(made)
