# SPDX-License-Identifier: Apache-2.0
"""How the ranks of a group find each other."""

from typing import Any

from ..context import Context


def start(store: Any, rank: int, size: int, timeout_ms: int) -> Context:
    """A context of these ranks, which find each other over torch's store."""
    return Context()
