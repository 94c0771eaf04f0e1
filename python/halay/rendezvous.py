# SPDX-License-Identifier: Apache-2.0
"""How the ranks meet over a key-value store of the program's own, in place of halayrun's or MPI's."""

import ctypes
from typing import Callable, Optional

from . import _library
from .constants import Status


class Rendezvous:
    """
    For Context(rendezvous=...): this process is rank `rank` of `size`, and meets the others over a key-value store.

    put(key, value) sets a key to bytes. get(key, seconds) returns the value of a key as bytes, or None if it is not
    there after that many seconds (0: look once). Both are called while the context starts, on a thread of the
    library's, one call at a time; what they raise ends the start, and Context raises it.

    prefix: the same on all ranks; contexts that are started at the same time by several threads, or after a start that
    not all ranks began, need one of their own. Who can read the store can join the job.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        put: Callable[[str, bytes], object],
        get: Callable[[str, float], Optional[bytes]],
        prefix: str = "halay",
    ) -> None:
        self.rank = rank
        self.size = size
        self.prefix = prefix
        self.failure: Optional[BaseException] = None  # what a callback has raised
        self._user_put = put
        self._user_get = get
        # The library calls these: they must live as long as the start lasts.
        self._put_pointer = _library.PUT(self._put)
        self._get_pointer = _library.GET(self._get)

    def _struct(self) -> "_library.Rendezvous":
        self.failure = None
        made = _library.Rendezvous(ctypes.sizeof(_library.Rendezvous), self.rank, self.size)
        made.put, made.get, made.prefix = self._put_pointer, self._get_pointer, self.prefix.encode()
        return made

    def _put(self, _: object, key: bytes, value: int, size: int) -> int:
        try:
            self._user_put(key.decode(), ctypes.string_at(value, size))
        except BaseException as failure:  # an exception does not pass through the library
            self.failure = failure
            return int(Status.SYSTEM)
        return int(Status.OK)

    def _get(self, _: object, key: bytes, value: int, size: int, timeout_ms: int) -> int:
        try:
            found = self._user_get(key.decode(), timeout_ms / 1000)
            if found is None:
                return int(Status.TIMEOUT)
            if len(found) != size:
                raise ValueError(f"the store has {len(found)} bytes for {key.decode()}, which has {size}")
            ctypes.memmove(value, found, size)
        except BaseException as failure:
            self.failure = failure
            return int(Status.SYSTEM)
        return int(Status.OK)


_default: Optional[Callable[[], Rendezvous]] = None


def set_default(make: Optional[Callable[[], Rendezvous]]) -> None:
    """Contexts of this process without a way to meet, halay.torch's too, start with what make() returns: each
    start needs a prefix of its own. None: by the environment."""
    global _default
    _default = make


def default() -> Optional[Rendezvous]:
    return _default() if _default else None
