"""What planning found, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from placement.cli.options.option_values import GangName
from placement.cli.plan.answer import Json, answer, reason, warnings_as_data
from placement.cli.words import count, gang_title, node_name, printable
from placement.kubernetes import Problem
from placement.kubernetes.level_names import spoken
from placement.v1 import (
    Amount,
    ComputeCapacityResponse,
    ExplainGangResponse,
    FrontierRow,
    FurtherDomains,
    GangResult,
    Remedy,
)


def as_data(gang: GangName, explanation: ExplainGangResponse, warnings: Iterable[Problem]) -> Json:
    """`explain` for programs."""
    result = _result(gang, explanation)
    return {
        "gang": str(gang),
        "placed": result.placed,
        "reasons": [reason(one) for one in result.reasons],
        "remedies": [_remedy(one) for one in explanation.remedies],
        "warnings": warnings_as_data(warnings),
    }


def as_text(gang: GangName, explanation: ExplainGangResponse) -> str:
    """`explain` for people."""
    result = _result(gang, explanation)
    lines = [f"{gang} {'is placed' if result.placed else 'waits'}"]
    lines += [f"  {one.message}" for one in result.reasons]
    if not result.placed:
        lines.append("")
        if not explanation.HasField("elapsed"):
            lines.append("What would let it in was not looked for.")
        elif explanation.remedies:
            lines.append("Each of these alone lets it in, and displaces no other gang:")
            lines += [f"  {one.message}" for one in explanation.remedies]
        else:
            lines.append("No eviction, opening, relaxing, reducing or adding of nodes was found.")
    return "".join(f"{printable(line)}\n" for line in lines)


def _result(gang: GangName, explanation: ExplainGangResponse) -> GangResult:
    results = (one for one in explanation.placement.gangs if one.name == gang.resource_name)
    return next(results, GangResult())


def capacity_as_data(
    gangs: Sequence[GangName],
    asked: FurtherDomains,
    found: ComputeCapacityResponse,
    warnings: Iterable[Problem],
) -> Json:
    """`capacity` for programs."""
    told: Json = {"warnings": warnings_as_data(warnings)}
    if not asked.level:
        return {"gang": str(gangs[0]), "copies": _amount(found.amount), **told}
    added: Json = {"level": asked.level, "like": found.domains.like or asked.like or None}
    if gangs:
        rows = [
            {
                "domains": row.domains,
                "copies": {
                    str(gang): _amount(amount)
                    for gang, amount in zip(gangs, row.copies, strict=True)
                },
            }
            for row in found.rows
        ]
        return {**added, "frontier": rows, **told}
    plan = answer(found.placement) if found.HasField("placement") else None
    if found.amount.impossible:
        added["impossible"] = True
    return {**added, "domains": _amount(found.amount), "plan": plan, **told}


def capacity_as_text(
    gangs: Sequence[GangName], asked: FurtherDomains, found: ComputeCapacityResponse
) -> str:
    """`capacity` for people."""
    if not asked.level:
        return _copies_as_text(gangs[0], found.amount)
    asked_for = FurtherDomains(
        level=printable(found.domains.level), like=printable(found.domains.like)
    )
    if gangs:
        return _frontier_as_text(gangs, asked_for, found.rows)
    return _domains_as_text(asked_for, found.amount)


def _copies_as_text(gang: GangName, copies: Amount) -> str:
    value, bound = copies.value, copies.bound
    if not copies.HasField("value"):
        return f"Copies of {gang} were not counted.\n"
    fit = "fits" if value == 1 else "fit"
    known = f"at most {bound} could"
    if not copies.HasField("bound"):
        known = "how many could is not known"
    elif value == bound:
        known = "more do not" if value else "explain tells why"
    return f"{count(value, 'copy')} of {gang} {fit} beside all that is placed; {known}.\n"


def _domains_as_text(domains: FurtherDomains, amount: Amount) -> str:
    if amount.impossible:
        return (
            f"No number of further domains like {domains.like} places every gang; this is proven."
            " What else a gang needs, explain tells; --without leaves a gang out.\n"
        )
    if not amount.HasField("value"):
        least = f"; at least {amount.bound} are needed" if amount.HasField("bound") else ""
        return f"No number of further domains like {domains.like} was found to be enough{least}.\n"
    value, bound = amount.value, amount.bound
    if value == 0:
        return "Every gang is placed already.\n"
    known = "fewer are not enough" if value == bound else f"at least {bound} are needed"
    more = "1 further domain" if value == 1 else f"{value:,} further domains"
    verb = "places" if value == 1 else "place"
    return f"{more} of {domains.level} like {domains.like} {verb} every gang; {known}.\n"


def _frontier_as_text(
    gangs: Sequence[GangName], domains: FurtherDomains, counted: Sequence[FrontierRow]
) -> str:
    """A table; where the bound differs from the value it follows after a dash."""
    if not counted:
        return "Copies were not counted.\n"
    title = f"more {domains.level.rpartition('/')[2]} like {domains.like}"
    rows = [[title, *map(str, gangs)]]
    for row in counted:
        amounts = (
            f"{one.value}" if one.value == one.bound else f"{one.value}-{one.bound}"
            for one in row.copies
        )
        rows.append([str(row.domains), *amounts])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    told = [f"{line}\n" for line in lines]
    for column, gang in enumerate(gangs):
        counts = [row.copies[column] for row in counted]
        if all(one.HasField("bound") and one.bound == 0 for one in counts):
            told.append(f"No domain lets {gang} in; explain tells why it waits.\n")
    return "".join(told)


def _amount(amount: Amount) -> Json:
    return {
        "value": amount.value if amount.HasField("value") else None,
        "bound": amount.bound if amount.HasField("bound") else None,
    }


def say_levels(remedy: Remedy, own: Mapping[str, str]) -> None:
    """Names levels in a remedy as the input does; `own` are the labels by those of the request."""
    remedy.message = spoken(remedy.message, own)
    if remedy.WhichOneof("kind") == "relax":
        remedy.relax.level = own.get(remedy.relax.level, remedy.relax.level)
        remedy.relax.to = own.get(remedy.relax.to, remedy.relax.to)


def _remedy(remedy: Remedy) -> Json:
    facts: dict[str, Any] = {}
    kind = remedy.WhichOneof("kind") or ""
    match kind:
        case "evict":
            names = [gang_title(name) for name in remedy.evict.gangs]
            facts = {"gangs": names, "pods": len(remedy.evict.pods)}
        case "uncordon":
            facts = {"nodes": [node_name(name) for name in remedy.uncordon.nodes]}
        case "relax":
            found = remedy.relax
            facts = {"scope": found.scope or "gang", "level": found.level, "to": found.to or None}
        case "reduce":
            facts = {"group": remedy.reduce.group, "to": remedy.reduce.to}
        case "add_nodes":
            added = remedy.add_nodes
            facts = {"like": node_name(added.like), "count": added.count}
    return {"kind": kind.upper(), **facts, "proven": remedy.proven, "message": remedy.message}
