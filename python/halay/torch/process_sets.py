# SPDX-License-Identifier: Apache-2.0
"""Process sets: some of the ranks, which run collectives of their own."""
from __future__ import annotations

from typing import Iterable, List, Optional, Sequence, Union

from halay.torch import _job


class ProcessSet:
    """Some ranks, in ascending order. It can be used once init() or add_process_set() has given it a number."""

    process_set_id: Optional[int] = None
    ranks: Optional[List[int]] = None

    def __init__(self, ranks: Iterable[int]) -> None:
        try:
            self.ranks = sorted(ranks)
        except TypeError:
            self.ranks = None
        if self.ranks is None or any(not isinstance(rank, int) for rank in self.ranks):
            raise ValueError("ProcessSet should be initialized with a list of process ranks")

    def size(self) -> Optional[int]:
        """The number of its ranks; None if it has no number yet."""
        if self.process_set_id is None:
            return None
        return _job.size() if self.process_set_id == 0 else len(self.ranks or ())

    def rank(self) -> Optional[int]:
        """This rank's place in it; None if the set has no number yet. ValueError: it is not a member."""
        if self.process_set_id is None:
            return None
        if self.process_set_id == 0:
            return _job.rank()
        if not self.included():
            raise ValueError("Process is not part of provided process set.")
        return (self.ranks or []).index(_job.rank())

    def included(self) -> Optional[bool]:
        """Whether this rank is a member."""
        return None if self.ranks is None else _job.rank() in self.ranks

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"

    __repr__ = __str__


global_process_set = ProcessSet([])
global_process_set.process_set_id = 0


def _take_all_ranks() -> None:
    global_process_set.ranks = list(range(_job.size()))


_job.on_change.append(_take_all_ranks)


def _begin(sets: Union[None, str, Sequence[ProcessSet]]) -> None:
    """After init: the global set's ranks, and the sets that it was given."""
    _take_all_ranks()
    if sets is None or isinstance(sets, str):  # "dynamic", which Horovod needs before it allows add_process_set
        return
    given = list(sets)
    seen = {tuple(global_process_set.ranks)}
    for number, process_set in enumerate(given):
        if tuple(process_set.ranks or ()) in seen:
            process_set.process_set_id = None
            raise ValueError("Horovod could not be initialized because process_sets entry number "
                             f"{number} is a duplicate: {process_set}")
        seen.add(tuple(process_set.ranks or ()))
    for process_set in given:
        add_process_set(process_set)


def add_process_set(process_set: Union[ProcessSet, Sequence[int]]) -> ProcessSet:
    """Make a set. All ranks of the job call it, members or not, in the same order: so a set has one number on all.
    ValueError: a set of these ranks exists, or the job lacks one of them."""
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    process_set.process_set_id = _job.add_set(process_set.ranks or [], process_set)
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Remove a set, all ranks together. False: it has no number, or is the global one."""
    number = process_set.process_set_id
    if not number:
        return False
    process_set.process_set_id = None
    return _job.remove_set(number)
