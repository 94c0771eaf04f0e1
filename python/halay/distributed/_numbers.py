# SPDX-License-Identifier: Apache-2.0
"""
The numbers that name a group's collectives.

A number that is used again should stand for the same collective as before: the engine then knows it, and replays steps
that repeat. So numbers come again after a multiple of the calls of a step, which is found in the calls themselves.

    calls    0 ... 128 ............ 383 ... 511 | 512 ...
                   `-- looked at ---'           | the number of call n is n mod slots

All ranks must come to the same number, also when their calls differ: that must end in an error, not in a rank that
waits. So a call has its number before it is looked at, slots change after BLOCK calls only, and what is looked at has
ended by then, as its number was taken again. Calls that ended well were the same on all ranks; from a block in which
one failed nothing is concluded.
"""

from typing import Hashable, List

SLOTS, SLOTS_MAX = 64, 128  # at least, at most
BLOCK = 4 * SLOTS_MAX
LOOK = range(SLOTS_MAX, BLOCK - SLOTS_MAX)  # of a block: what begins is not periodic yet


def find_period(calls: List[Hashable]) -> int:
    """The smallest number of calls after which all come again."""
    border = [0] * len(calls)  # of each beginning: how long the longest end of it is that it begins with, too
    for at in range(1, len(calls)):
        length = border[at - 1]
        while length and calls[at] != calls[length]:
            length = border[length - 1]
        border[at] = length + (calls[at] == calls[length])
    return len(calls) - border[-1]


class Numbers:
    """Not for several threads at once."""

    def __init__(self) -> None:
        self.calls = 0  # so far
        self.slots = SLOTS
        self._block: List[Hashable] = []
        self._failed = -1  # the last block in which a call failed that is looked at

    def take(self, kind: Hashable) -> int:
        """The number of the next call. kind: what is the same on all ranks, and wherever the number is used again."""
        if self.calls % BLOCK == 0 and self._block:
            self._conclude()
        number = self.calls % self.slots
        if self.calls % BLOCK in LOOK:
            self._block.append(kind)
        self.calls += 1
        return number

    def note_failure(self, call: int) -> None:
        """This call has failed on all ranks: its number is taken again."""
        if call >= 0 and call % BLOCK in LOOK:
            self._failed = max(self._failed, call // BLOCK)

    def _conclude(self) -> None:
        """A block is over. Without a period slots stay as they are: names that the engine knows."""
        period = find_period(self._block)
        self._block = []
        if self._failed != self.calls // BLOCK - 1 and period <= SLOTS_MAX:
            self.slots = -(-SLOTS // period) * period
