# SPDX-License-Identifier: Apache-2.0
"""How the ranks of a group find each other: over the store that torch has made for them."""

import time
from typing import Any, Optional

from ..context import Context
from ..rendezvous import Rendezvous

_LOOK_AGAIN_S = 0.002
_DAY_S = 86400


class _Keys:
    """A store of torch's. Nothing waits in it: a time-out leaves older ones with an answer that is never read."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._counted = not hasattr(store, "check")  # before torch 2.1 a counter beside each key marks it as set

    def put(self, key: str, value: bytes) -> None:
        self._store.set(key, value)
        if self._counted:
            self._store.add(f"{key}/there", 1)

    def _is_there(self, key: str) -> bool:
        return bool(self._store.add(f"{key}/there", 0) if self._counted else self._store.check([key]))

    def get(self, key: str, seconds: float) -> Optional[bytes]:
        end = time.monotonic() + seconds
        while not self._is_there(key):
            if time.monotonic() >= end:
                return None
            time.sleep(_LOOK_AGAIN_S)
        return bytes(self._store.get(key))


def start(store: Any, rank: int, size: int, timeout_ms: int) -> Context:
    """A context of these ranks. The store is the group's own: keys of other groups are not in it."""
    keys = _Keys(store)
    settings = {"HALAY_START_TIMEOUT": min(max(1, timeout_ms // 1000), _DAY_S)} if timeout_ms else None
    return Context(settings=settings, rendezvous=Rendezvous(rank, size, keys.put, keys.get))
