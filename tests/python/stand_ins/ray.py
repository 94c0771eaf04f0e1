# SPDX-License-Identifier: Apache-2.0
"""What halay.ray uses of Ray, for tests where there is none: each actor is a process, which serves its calls, each on a
thread of its own."""
import concurrent.futures
import multiprocessing.managers
import types
import uuid

_threads = concurrent.futures.ThreadPoolExecutor(64)
_served = {}


def _serve(cls, name):
    _served[name] = cls()


def _call(name, method, args, kwargs):
    try:
        return getattr(_served[name], method)(*args, **kwargs), None
    except Exception as failure:
        return None, failure


class _Manager(multiprocessing.managers.BaseManager):
    pass


_Manager.register("call", callable=_call, exposed=())


class _Method:
    def __init__(self, actor, name):
        self._actor, self._name = actor, name

    def remote(self, *args, **kwargs):
        return _threads.submit(self._actor._call, self._name, args, kwargs)


class _Actor:
    """A handle, which goes to other processes, too."""

    def __init__(self, name, address, key):
        self._name, self._address, self._key = name, address, key

    def _call(self, method, args, kwargs):
        manager = _Manager(self._address, self._key)
        manager.connect()
        result, failure = manager.call(self._name, method, args, kwargs)._getvalue()
        if failure:
            raise failure
        return result

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Method(self, name)


class _Class:
    def __init__(self, cls):
        self._cls = cls

    def options(self, **_):
        return self

    def remote(self):
        name = uuid.uuid4().hex
        manager = _Manager(authkey=name.encode(), ctx=multiprocessing.get_context("spawn"))
        manager.start(_serve, (self._cls, name))
        actor = _Actor(name, manager.address, name.encode())
        _running[name] = manager
        return actor


_running = {}


def remote(cls):
    return _Class(cls)


def get(calls, timeout=None):
    return [call.result(timeout) for call in calls] if isinstance(calls, list) else calls.result(timeout)


def wait(calls, num_returns=1, timeout=None):
    when = concurrent.futures.FIRST_COMPLETED if num_returns < len(calls) else concurrent.futures.ALL_COMPLETED
    done = concurrent.futures.wait(calls, timeout, when).done
    return [call for call in calls if call in done], [call for call in calls if call not in done]


def kill(actor):
    manager = _running.pop(actor._name)
    manager._process.kill()
    manager._process.join()


def get_runtime_context():
    return types.SimpleNamespace(get_node_id=lambda: "here")


def init(**_):
    pass


def shutdown():
    _threads.shutdown(wait=False)
