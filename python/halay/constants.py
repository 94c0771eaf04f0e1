# SPDX-License-Identifier: Apache-2.0
"""The numbers of halay's C API that programs see: what went wrong, element types, reductions, operations."""

import enum


class Status(enum.IntEnum):
    """What a call or a request ended with (enum halay_status)."""

    OK = 0
    IN_PROGRESS = 1
    ARGUMENT = 2
    NO_MEMORY = 3
    SYSTEM = 4
    UNSUPPORTED = 5
    CONFIG = 6
    MISMATCH = 7
    DUPLICATE = 8
    PEER = 9
    TIMEOUT = 10
    CLOSED = 11
    CANCELED = 12
    AUTH = 13
    VERSION = 14
    FORMAT = 15


class DType(enum.IntEnum):
    """Element types (enum halay_dtype)."""

    F32 = 0
    F64 = 1
    F16 = 2
    BF16 = 3
    I32 = 4
    I64 = 5
    U8 = 6
    I8 = 7
    U16 = 8
    I16 = 9
    BOOL = 10


# Bytes of one element, by type.
ITEM_SIZES = (4, 8, 2, 2, 4, 8, 1, 1, 2, 2, 1)


class Reduction(enum.IntEnum):
    """How the ranks' elements become one (enum halay_reduction)."""

    SUM = 0
    AVERAGE = 1
    MIN = 2
    MAX = 3
    PRODUCT = 4
    BIT_AND = 5
    BIT_OR = 6
    ADASUM = 7


class Wire(enum.IntEnum):
    """What float32 travels as in an all-reduce (enum halay_wire)."""

    AS_IS = 0
    F16 = 1
    BF16 = 2


class Collective(enum.IntEnum):
    """Operations (enum halay_collective)."""

    ALLREDUCE = 0
    BROADCAST = 1
    ALLGATHER = 2
    REDUCE_SCATTER = 3
    ALLTOALL = 4
    BARRIER = 5
    REDUCE = 6
    GATHER = 7
    SCATTER = 8
    SEND = 9
    RECEIVE = 10
    JOIN = 11


DIMENSIONS_MAX = 8
ANY_RANK = -1  # the peer of a receive that takes a send of any rank
