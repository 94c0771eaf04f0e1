# SPDX-License-Identifier: Apache-2.0
"""What halay raises. Every error that the library reports is a HalayError, most of them one of its subclasses."""

import builtins
import re
from typing import Dict, NamedTuple, Optional, Tuple, Type

from .constants import Status


class Place(NamedTuple):
    """
    Where an error is. subject: the name of the table or file, or None. row: from 1, or None. column: its name, or None.
    rank: whose failure it is, or None.
    """

    subject: Optional[str] = None
    row: Optional[int] = None
    column: Optional[str] = None
    rank: Optional[int] = None


NOWHERE = Place()


class LibraryError(ImportError):
    """libhalay cannot be loaded, or does not fit this package."""


class HalayError(RuntimeError):
    """
    An error that the library reports. str() is its text.

    status: the C API's status. tensor: the name of the tensor that it is about, or None. place: the cell of a table
    that it is about. ranks: the ranks that the text names, ascending.
    """

    def __init__(
        self, text: str, status: int = Status.SYSTEM, tensor: Optional[str] = None, place: Place = NOWHERE
    ) -> None:
        super().__init__(text)
        self.place = place
        try:
            self.status = Status(status)
        except ValueError:  # of a later library
            self.status = Status.SYSTEM
        self.tensor = tensor

    @property
    def ranks(self) -> Tuple[int, ...]:
        """The ranks that the text names, ascending."""
        return tuple(sorted(_ranks_in(str(self))))


class ArgumentError(HalayError, ValueError):
    """An argument is out of range or contradicts another."""


class NoMemoryError(HalayError, MemoryError):
    """Memory or room is not to be had."""


class UnsupportedError(HalayError):
    """Not built in, or not possible with these types, transports or hosts, or in a child of fork."""


class ConfigError(HalayError):
    """An environment variable or an option does not parse."""


class MismatchError(HalayError):
    """The ranks disagree about a tensor. No data were touched, and the job continues."""


class DuplicateError(HalayError):
    """A tensor of that name is in flight already."""


class PeerError(HalayError):
    """A rank is dead, has left or does not answer: the job is over."""


class TimeoutError(HalayError, builtins.TimeoutError):
    """The time that a request or the start was given is over; it has ended."""


class ClosedError(HalayError):
    """Called after the end of the context."""


class CanceledError(HalayError):
    """The program gave it up."""


class AuthError(HalayError):
    """The other side does not belong to the job."""


class VersionError(HalayError):
    """The other side speaks another version of the protocol."""


class FormatError(HalayError, ValueError):
    """A table or a file does not say what it should."""


_CLASSES: Dict[int, Type[HalayError]] = {
    Status.ARGUMENT: ArgumentError,
    Status.NO_MEMORY: NoMemoryError,
    Status.UNSUPPORTED: UnsupportedError,
    Status.CONFIG: ConfigError,
    Status.MISMATCH: MismatchError,
    Status.DUPLICATE: DuplicateError,
    Status.PEER: PeerError,
    Status.TIMEOUT: TimeoutError,
    Status.CLOSED: ClosedError,
    Status.CANCELED: CanceledError,
    Status.AUTH: AuthError,
    Status.VERSION: VersionError,
    Status.FORMAT: FormatError,
}


def _ranks_in(text: str) -> "set[int]":
    """The numbers of "rank 3", "ranks 0, 2 and 5"."""
    lists = re.findall(r"\branks? (\d+(?:(?:, | and |, and )\d+)*)", text)
    return {int(number) for some in lists for number in re.findall(r"\d+", some)}


def error(status: int, text: str, tensor: Optional[str] = None, place: Place = NOWHERE) -> HalayError:
    """The exception for a status."""
    return _CLASSES.get(status, HalayError)(text, status, tensor, place)
