"""Gangs: all or nothing, after their bases."""

from __future__ import annotations

from collections.abc import Iterator

from placement_service.judge.plan import Plan


def gangs_are_all_or_nothing(plan: Plan) -> Iterator[str]:
    """A gang with new pods may have some, and has every group's minimum, also where all of them are
    moved: those are new ones, too.
    """
    gangs = {gang.gang.name: gang for gang in plan.outcome.gangs}
    for gang in plan.outcome.gangs:
        name = gang.gang.name
        for group in gang.groups if any(group.new for group in gang.groups) else ():
            if not group.has_minimum:
                yield (
                    f"gang {name}: group {group.group.name} has {group.count} pods, "
                    f"its minimum is {group.group.min_replicas}"
                )
        if not gang.has_bound:
            continue
        if gang.gang.uninitialized:
            yield f"gang {name} gets new pods but is not initialized"
        for what in gang.gang.refusals:
            yield f"gang {name} gets new pods but uses {what}, which is not supported"
        if gang.gang.base_gang:
            base = gangs.get(gang.gang.base_gang)
            if base is None or not base.placed:
                yield f"gang {name} gets new pods but its base {gang.gang.base_gang} is not placed"
