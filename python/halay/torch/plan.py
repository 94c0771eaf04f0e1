# SPDX-License-Identifier: Apache-2.0
"""What the ranks agree on about the gradients of an optimizer: which there are, in which buckets, and which are sparse.

A rank sees its own gradients only. What begins on one rank, a parameter that was frozen or a sparse gradient,
must begin on all of them at the same step, as a rank that exchanges what the others do not would wait for them forever.
So at each step the ranks ask each other whether any has news, by one number; only if so they send each other a Report,
and all of them make the same Plan of the reports.
"""
from __future__ import annotations

import hashlib
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

# Of a parameter in an optimizer: the number of its group, and its number there.
Place = Tuple[int, int]


class Plan(NamedTuple):
    batches: List[List[Place]]  # the parameters whose gradients are exchanged; each batch has buckets of its own
    sparse: Dict[Place, int]  # those whose gradients travel as indices and values, and how many dimensions have indices
    number: int  # of the optimizer among those that have parameters of the same names


class Report(NamedTuple):
    plan: Optional[Plan]  # what is in force on this rank; None before its first step in a job
    batch: List[Place]  # then: the parameters that it would exchange
    number: int  # then: the lowest that it has not used
    late: List[Place]  # parameters that have begun to have gradients
    sparse: Dict[Place, int]  # those whose gradients turn out to be sparse
    shapes: Dict[Place, str]  # of all parameters
    settings: str  # of the optimizer


def digest(names: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]


def _check_settings(by_rank: Dict[int, Report]) -> None:
    first = min(by_rank)
    for rank, report in by_rank.items():
        if report.settings != by_rank[first].settings:
            raise ValueError(f"the ranks' optimizers differ: rank {first} has {by_rank[first].settings}; "
                             f"rank {rank} has {report.settings}")


def _check_shapes(batch: Sequence[Place], by_rank: Dict[int, Report]) -> None:
    first = min(by_rank)
    for place in batch:
        shapes = {rank: report.shapes.get(place, "none") for rank, report in by_rank.items()}
        for rank, shape in shapes.items():
            if shape != shapes[first]:
                raise ValueError("the ranks' optimizers have different parameters that require gradients: of parameter "
                                 f"{place[1]} in group {place[0]}, rank {first} has {shapes[first]}, rank {rank} has "
                                 f"{shape}")


def _merged(parts: Iterable[Dict[Place, int]]) -> Dict[Place, int]:
    merged: Dict[Place, int] = {}
    for part in parts:
        for place, dimensions in part.items():
            merged[place] = max(dimensions, merged.get(place, 0))
    return merged


def combine(by_rank: Dict[int, Report]) -> Tuple[Plan, Plan]:
    """
    The plan of this step, and that of the next ones. Where some ranks may have begun to exchange by the plan in force,
    this step's differs from it by new batches only. ValueError: what begins does not exist alike on all ranks, or their
    optimizers have different settings.
    """
    _check_settings(by_rank)
    reports = list(by_rank.values())
    in_force = next((report.plan for report in reports if report.plan is not None), None)
    late = {place for report in reports for place in report.late}
    found = _merged(report.sparse for report in reports)
    if in_force is None:
        batch = sorted(late.union(*(report.batch for report in reports)))
        _check_shapes(batch, by_rank)
        plan = Plan([batch], found, max(report.number for report in reports))
        return plan, plan
    late.update(place for report in reports if report.plan is None for place in report.batch)
    added = sorted(late.difference(*in_force.batches))
    _check_shapes(added, by_rank)
    batches = in_force.batches + ([added] if added else [])
    new = {place: dimensions for place, dimensions in found.items() if place in added}
    return (Plan(batches, _merged([in_force.sparse, new]), in_force.number),
            Plan(batches, _merged([in_force.sparse, found]), in_force.number))


def describe(param: Any) -> str:
    """What has to be the same on all ranks."""
    return f"{str(param.dtype).replace('torch.', '')} {list(param.shape)}"
