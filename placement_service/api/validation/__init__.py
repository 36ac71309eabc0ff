"""The rules that a request must obey to be answered, one small function per rule.

Each rule reads the whole request and yields a violation, with the field path as
in the message, for every place where it is broken: a caller sees all faults at
once. Values that no type can hold are found in `wire`. Limits of size are in `size`, and stop the
reading at once. A gang that cannot be placed is not a fault. Neither is a reference that a changing
cluster may leave behind: running pods on nodes that are gone, previous nodes and previous
placements that no longer exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice

from placement_service.api.validation import cluster, policy, workload
from placement_service.entities.errors import MAX_VIOLATIONS, Violation
from placement_service.entities.request import Request

RULES = (*cluster.RULES, *workload.RULES, *policy.RULES)

#: Rules on how nodes and running pods relate to the rest: they need all of them.
RULES_ACROSS = (*cluster.RULES_ACROSS, *workload.RULES_ACROSS)


def violations(told: Request, whole: Request | None = None) -> Iterator[Violation]:
    """Every violation of every rule.

    `told` may hold only the nodes and running pods that are not checked yet, if in `whole`
    are all of them.
    """
    return chain(
        chain.from_iterable(rule(told) for rule in RULES),
        chain.from_iterable(rule(whole or told) for rule in RULES_ACROSS),
    )


def first_violations(every: Iterable[Violation]) -> tuple[tuple[Violation, ...], int]:
    """The first violations, at most MAX_VIOLATIONS, and how many there are in all."""
    rest = iter(every)
    first = tuple(islice(rest, MAX_VIOLATIONS))
    return first, len(first) + sum(1 for _ in rest)
