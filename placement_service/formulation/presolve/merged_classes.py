"""Fewer pod classes: those that nothing tells apart are one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placement_service.formulation.indices import ClassIdx
from placement_service.formulation.problem import Problem
from placement_service.formulation.rules.queues import QueueRow


def merged(problem: Problem) -> Problem:
    """The question with pod classes as one that nothing tells apart; with rules across nodes, which
    may, as it is.
    """
    if problem.rules:
        return problem
    facts: list[NDArray[Any]] = [
        problem.request,
        np.packbits(problem.eligible, axis=1),
        np.column_stack([problem.gpus, problem.pods_without_gpus, problem.special]),
        *(np.array(row.take)[:, None] for row in problem.queue_rows),
        *(row.excess.weight[:, None] for row in problem.queue_rows if row.excess is not None),
    ]
    number: dict[bytes, int] = {}
    first: list[int] = []
    of: list[ClassIdx] = []
    for s in range(problem.class_count):
        key = b"".join(fact[s].tobytes() for fact in facts)
        if key not in number:
            number[key] = len(first)
            first.append(s)
        of.append(ClassIdx(number[key]))

    def row_of(row: QueueRow) -> QueueRow:
        excess = row.excess
        return replace(
            row,
            take=tuple(row.take[s] for s in first),
            weight=row.weight[first],
            excess=excess and excess._replace(weight=excess.weight[first]),
        )

    return replace(
        problem,
        request=problem.request[first],
        eligible=problem.eligible[first],
        gpus=problem.gpus[first],
        pods_without_gpus=problem.pods_without_gpus[first],
        special=problem.special[first],
        queue_rows=tuple(map(row_of, problem.queue_rows)),
        gangs=tuple(
            replace(g, demands=tuple(replace(d, pod_class=of[d.pod_class]) for d in g.demands))
            for g in problem.gangs
        ),
    )
