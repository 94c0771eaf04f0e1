# SPDX-License-Identifier: Apache-2.0
"""
What a rank runs that halay.run() starts: it reads the call, makes it, and sends what it returned or raised. Both pass
through halayrun's store, in the chunks that launcher/job/job_call.c lists; base/store/store_protocol.h has the format
of the messages and of the handshake before them. `python -m halay._call FOLDER` goes through files, without a store.
"""

import hashlib
import os
import socket
import struct
import sys
from typing import Optional

from ._run import CALL, FAILED, RETURNED, _dumps, _read, _write

_MAGIC = b"halaykv\n"
_VERSION = 2
_SET, _GET, _WELCOME, _DONE, _VALUE, _FULL = 1, 2, 3, 4, 5, 6
_CHUNK = 1 << 20  # the largest value
# Contexts count how often their rank has connected; this connection is counted apart from them.
_FIRST_RANK = 1 << 19
_START_SECONDS = 60


def _mac(key: bytes, label: bytes, *parts: bytes) -> bytes:
    made = hashlib.blake2b(label, key=key, digest_size=32)
    for part in parts:
        made.update(part)
    return made.digest()


class Store:
    """A connection with the store of the halayrun that started this process. ConnectionError: it is not there."""

    def __init__(self) -> None:
        address, fd = os.environ.get("HALAY_STORE_ADDRESS"), os.environ.get("HALAY_STORE_SECRET_FD")
        if not address or not fd:
            raise RuntimeError("halay._call is for the ranks that halay.run starts")
        host, port = address.rsplit(":", 1)
        self._number = 0
        self._sent = 0
        self._received = 0
        self._socket = socket.create_connection((host.strip("[]"), int(port)), _START_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._open(os.pread(int(fd), 32, 0), _FIRST_RANK + int(os.environ.get("HALAY_RANK", "0")))
        self._socket.settimeout(None)

    def _open(self, secret: bytes, rank: int) -> None:
        hello = _MAGIC + struct.pack("<II", _VERSION, rank) + os.urandom(32)
        hello += _mac(secret, b"hello---", hello)
        self._socket.sendall(hello)
        challenge = self._read(80)
        if _mac(secret, b"challeng", hello, challenge[:48]) != challenge[48:]:
            raise ConnectionError("halayrun's store does not know the secret of this job")
        if challenge[:12] != hello[:12]:
            raise ConnectionError("halayrun's store has another version: install the same halay on all hosts")
        self._socket.sendall(_mac(secret, b"proof---", hello, challenge))
        self._key_out = _mac(secret, b"toserver", hello, challenge)
        self._key_in = _mac(secret, b"toclient", hello, challenge)
        self._receive(_WELCOME)

    def _read(self, count: int) -> bytes:
        made = bytearray(count)
        view, at = memoryview(made), 0
        while at < count:
            n = self._socket.recv_into(view[at:])
            if not n:
                raise ConnectionError("halayrun's store has closed the connection")
            at += n
        return bytes(made)

    def _receive(self, kind: int) -> bytes:
        head = self._read(4)
        body = self._read(struct.unpack("<I", head)[0])
        mac = self._read(32)
        if mac != _mac(self._key_in, b"message-", struct.pack("<Q", self._received), head, body):
            raise ConnectionError("a message of halayrun's store is forged")
        self._received += 1
        if body[0] == _FULL:
            raise ConnectionError("halayrun cannot take it; its standard error has the reason")
        if body[0] != kind:
            raise ConnectionError(f"halayrun's store has sent a message of kind {body[0]} in place of {kind}")
        return body[12:]

    def _ask(self, kind: int, key: str, value: bytes, answer: int) -> bytes:
        name = key.encode()
        self._number += 1
        body = struct.pack("<B3xIH2x", kind, self._number, len(name)) + name
        head = struct.pack("<I", len(body) + len(value)) + body
        mac = _mac(self._key_out, b"message-", struct.pack("<Q", self._sent), head, value)
        self._sent += 1
        self._socket.sendall(head + value + mac)
        return self._receive(answer)

    def set(self, key: str, value: bytes) -> None:
        self._ask(_SET, key, value, _DONE)

    def get(self, key: str) -> bytes:
        return self._ask(_GET, key, b"", _VALUE)

    def close(self) -> None:
        self._socket.close()


def _read_call() -> bytes:
    store = Store()
    size = struct.unpack("<Q", store.get("call/size"))[0]
    made = b"".join(store.get(f"call/{i}") for i in range((size + _CHUNK - 1) // _CHUNK))
    store.close()
    return made


def _send(result: bytes, folder: Optional[str]) -> None:
    """Send all of it or, if this raises, nothing."""
    name = "result{}" + os.environ.get("HALAY_RANK", "0")
    if folder:
        _write(os.path.join(folder, name.format(".")), result)
        return
    store, step = Store(), _CHUNK - 8
    for at in range(0, len(result), step):
        store.set(name.format("/"), struct.pack("<Q", at) + result[at : at + step])
    store.set(name.format("/"), struct.pack("<Q", len(result)))
    store.close()


def _describe(failure: BaseException) -> bytes:
    import pickle
    import traceback

    try:
        pickled = _dumps(failure)
    except Exception:
        pickled = b""
    return pickle.dumps((socket.gethostname(), traceback.format_exc(), pickled))


def main() -> None:
    import pickle

    folder = sys.argv[1] if len(sys.argv) > 1 else None
    call = _read(os.path.join(folder, CALL)) if folder else _read_call()
    if call is None:
        raise RuntimeError(f"no call in {folder}: do all hosts share that folder?")
    try:
        func, args, kwargs = pickle.loads(call)
        result = RETURNED + _dumps(func(*args, **kwargs))
    except Exception as failure:
        _send(FAILED + _describe(failure), folder)
        raise
    _send(result, folder)


if __name__ == "__main__":
    main()
