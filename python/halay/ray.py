# SPDX-License-Identifier: Apache-2.0
"""
Functions on ranks that are actors of Ray's, as horovod.ray has them.

    from halay.ray import RayExecutor

    executor = RayExecutor(num_workers=4)
    executor.start()
    losses = executor.run(train, kwargs={"epochs": 3})  # train() calls hvd.init(), or halay.Context()
    executor.shutdown()

The ranks find each other through an actor that keeps their keys, so neither halayrun nor ssh is needed. Who can call
that actor can join the job.
"""

from __future__ import annotations

import itertools
import os
import time
from types import SimpleNamespace
from typing import Any, Callable, Dict, List, Optional, Sequence

try:
    import ray
except ModuleNotFoundError as failure:
    raise ModuleNotFoundError("halay.ray needs Ray: pip install ray", name=failure.name) from None

from . import rendezvous

_LOOK_AGAIN_S = 0.005
_NEWS_S = 1.0  # how long the failure that caused another one may take to be seen


class _Store:
    """The keys by which the ranks meet."""

    def __init__(self) -> None:
        self._values: Dict[str, bytes] = {}

    def put(self, key: str, value: bytes) -> None:
        self._values[key] = value

    def get(self, key: str) -> Optional[bytes]:
        return self._values.get(key)


class _Worker:
    """A rank's process."""

    def __init__(self) -> None:
        self._executable: Any = None

    def node(self) -> str:
        return str(ray.get_runtime_context().get_node_id())

    def start(self, rank: int, size: int, store: Any, variables: Dict[str, str]) -> None:
        os.environ.update(variables)
        starts = itertools.count()

        def put(key: str, value: bytes) -> None:
            ray.get(store.put.remote(key, value))

        def get(key: str, seconds: float) -> Optional[bytes]:
            end = time.monotonic() + seconds
            while (found := ray.get(store.get.remote(key))) is None and time.monotonic() < end:
                time.sleep(_LOOK_AGAIN_S)
            return found

        rendezvous.set_default(lambda: rendezvous.Rendezvous(rank, size, put, get, f"ray.{next(starts)}"))

    def make(self, cls: Callable[..., Any], args: Sequence[Any], kwargs: Dict[str, Any]) -> None:
        self._executable = cls(*args, **kwargs)

    def run(self, func: Callable[..., Any], args: Sequence[Any], kwargs: Dict[str, Any]) -> Any:
        return func(*args, **kwargs)

    def execute(self, func: Callable[[Any], Any]) -> Any:
        return func(self._executable)


def _variables(rank: int, nodes: Sequence[str]) -> Dict[str, str]:
    """Returns the variables of each rank's place, nodes being those of the ranks, in order of rank."""
    here = [other for other, node in enumerate(nodes) if node == nodes[rank]]
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(len(nodes)),
        "LOCAL_RANK": str(here.index(rank)),
        "LOCAL_WORLD_SIZE": str(len(here)),
    }


def _failures(done: Sequence[Any]) -> List[Exception]:
    failures = []
    for call in done:
        try:
            ray.get(call)
        except Exception as failure:  # Ray's, which is of the class of the rank's
            failures.append(failure)
    return failures


def _is_echo(failure: Exception) -> bool:
    """Whether a rank reports the loss of another."""
    return any(kind.__name__ in ("PeerError", "HorovodInternalError") for kind in type(failure).__mro__)


class RayExecutor:
    """
    num_workers ranks, wherever Ray has room, or num_hosts times num_workers_per_host. Each has cpus_per_worker
    processors and, with use_gpu, gpus_per_worker GPUs (1), of which it sees no others. settings: of create_settings.
    """

    @classmethod
    def create_settings(cls, timeout_s: float = 30, placement_group_timeout_s: float = 100, **_: Any) -> Any:
        """timeout_s: how long a rank waits for the others when it starts. The options of ssh change nothing."""
        return SimpleNamespace(timeout_s=timeout_s, placement_group_timeout_s=placement_group_timeout_s)

    def __init__(
        self,
        settings: Any = None,
        num_workers: Optional[int] = None,
        num_hosts: Optional[int] = None,
        num_workers_per_host: int = 1,
        cpus_per_worker: int = 1,
        use_gpu: bool = False,
        gpus_per_worker: Optional[int] = None,
    ) -> None:
        if bool(num_workers) == bool(num_hosts):
            raise ValueError("one of num_workers and num_hosts is needed, and not both")
        if gpus_per_worker and not use_gpu:
            raise ValueError("gpus_per_worker is given, and use_gpu is not True")
        self._settings = settings or self.create_settings()
        self._hosts, self._per_host = num_hosts, num_workers_per_host
        self._size = num_workers or num_workers_per_host * (num_hosts or 0)
        self._cpus, self._gpus = cpus_per_worker, (gpus_per_worker or 1) if use_gpu else 0
        self._group: Any = None  # of Ray's, for num_hosts
        self._store: Any = None
        self._workers: List[Any] = []

    @property
    def num_workers(self) -> int:
        return self._size

    # ---- life ----

    def start(
        self,
        executable_cls: Optional[Callable[..., Any]] = None,
        executable_args: Optional[Sequence[Any]] = None,
        executable_kwargs: Optional[Dict[str, Any]] = None,
        extra_env_vars: Optional[Dict[str, str]] = None,
    ) -> None:
        """Starts the actors. executable_cls: what each of them makes, for execute()."""
        if self._workers:
            raise RuntimeError("the executor has been started")
        try:
            self._store = ray.remote(_Store).options(num_cpus=0).remote()
            made = [self._make_worker(number) for number in range(self._size)]
            self._workers = made
            nodes = self._get([worker.node.remote() for worker in made])
            order = sorted(range(self._size), key=lambda number: nodes.index(nodes[number]))  # a node's ranks together
            self._workers, nodes = [made[number] for number in order], [nodes[number] for number in order]
            settings = {"HALAY_START_TIMEOUT": str(self._settings.timeout_s)}
            self._get([
                worker.start.remote(rank, self._size, self._store,
                                    {**settings, **(extra_env_vars or {}), **_variables(rank, nodes)})
                for rank, worker in enumerate(self._workers)
            ])  # fmt: skip
            if executable_cls:
                self._get([worker.make.remote(executable_cls, tuple(executable_args or ()), executable_kwargs or {})
                           for worker in self._workers])  # fmt: skip
        except BaseException:
            self.shutdown()
            raise

    def _make_worker(self, number: int) -> Any:
        options: Dict[str, Any] = {"num_cpus": self._cpus, "num_gpus": self._gpus}
        if self._hosts:
            from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

            options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
                self._placement(), placement_group_bundle_index=number // self._per_host)  # fmt: skip
        return ray.remote(_Worker).options(**options).remote()

    def _placement(self) -> Any:
        """A group of Ray's with a bundle on each of num_hosts hosts."""
        if self._group is None:
            from ray.util.placement_group import placement_group

            bundle = {"CPU": self._cpus * self._per_host, "GPU": self._gpus * self._per_host}
            self._group = placement_group(
                [{kind: count for kind, count in bundle.items() if count}] * (self._hosts or 0), "STRICT_SPREAD")
            ray.get(self._group.ready(), timeout=self._settings.placement_group_timeout_s)
        return self._group

    def shutdown(self) -> None:
        """Ends the actors. start() may follow."""
        for actor in (*self._workers, self._store):
            if actor is not None:
                ray.kill(actor)
        if self._group is not None:
            from ray.util.placement_group import remove_placement_group

            remove_placement_group(self._group)
        self._workers, self._store, self._group = [], None, None

    # ---- calls ----

    def _get(self, calls: List[Any]) -> List[Any]:
        """The results, in order of rank. If one has failed the others would wait for it, so all are ended."""
        left = list(calls)
        try:
            while left:
                done, left = ray.wait(left, num_returns=1)
                if _failures(done):  # the first that is seen may only have lost another
                    more = ray.wait(left, num_returns=len(left), timeout=_NEWS_S)[0] if left else []
                    raise min(_failures([*done, *more]), key=_is_echo)
        except BaseException:
            self.shutdown()
            raise
        return list(ray.get(calls))

    def _all(self) -> List[Any]:
        if not self._workers:
            raise RuntimeError("the executor has not been started: call start()")
        return self._workers

    def run_remote(
        self, fn: Callable[..., Any], args: Optional[Sequence[Any]] = None, kwargs: Optional[Dict[str, Any]] = None
    ) -> List[Any]:
        """Starts fn(*args, **kwargs) on all ranks; returns what ray.get turns into its results, in order of rank."""
        return [worker.run.remote(fn, tuple(args or ()), kwargs or {}) for worker in self._all()]

    def run(
        self, fn: Callable[..., Any], args: Optional[Sequence[Any]] = None, kwargs: Optional[Dict[str, Any]] = None
    ) -> List[Any]:
        """The results of fn(*args, **kwargs) on all ranks, in order of rank. If it raises on one, all actors end."""
        return self._get(self.run_remote(fn, args, kwargs))

    def execute(self, fn: Callable[[Any], Any]) -> List[Any]:
        """The results of fn(executable), executable being what each rank has made in start()."""
        return self._get([worker.execute.remote(fn) for worker in self._all()])

    def execute_single(self, fn: Callable[[Any], Any]) -> Any:
        """The same on rank 0 alone."""
        return self._get([self._all()[0].execute.remote(fn)])[0]
