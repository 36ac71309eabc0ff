"""What planning found, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from placement.cli.answer import Json, answer, reason, warnings_as_data
from placement.cli.options import GangName
from placement.cli.words import count, gang_title, node_name
from placement.kubernetes import Problem
from placement.planning.capacity import Bounded, Copies, FurtherDomains
from placement.v1 import ExplainGangResponse, GangResult, Remedy


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
        if explanation.remedies:
            lines.append("Each of these alone lets it in, and displaces no other gang:")
            lines += [f"  {one.message}" for one in explanation.remedies]
        else:
            lines.append("No eviction, opening, relaxing, reducing or adding of nodes was found.")
    return "".join(f"{line}\n" for line in lines)


def _result(gang: GangName, explanation: ExplainGangResponse) -> GangResult:
    results = (one for one in explanation.placement.gangs if one.name == gang.resource_name)
    return next(results, GangResult())


def copies_as_data(gang: GangName, found: Copies, warnings: Iterable[Problem]) -> Json:
    """`capacity --gang` for programs."""
    return {
        "gang": str(gang),
        "copies": _bounded(found.copies),
        "warnings": warnings_as_data(warnings),
    }


def copies_as_text(gang: GangName, found: Copies) -> str:
    """`capacity --gang` for people."""
    value, bound = found.copies.value, found.copies.bound
    fit = "fits" if value == 1 else "fit"
    known = "which is proven" if value == bound else f"at most {bound} could"
    return f"{count(value or 0, 'copy')} of {gang} {fit} beside all that is placed; {known}.\n"


def domains_as_data(found: FurtherDomains, warnings: Iterable[Problem]) -> Json:
    """`capacity --add` for programs."""
    return {
        "level": found.level,
        "like": found.like,
        "domains": _bounded(found.domains),
        "plan": None if found.plan is None else answer(found.plan),
        "warnings": warnings_as_data(warnings),
    }


def domains_as_text(found: FurtherDomains) -> str:
    """`capacity --add` for people."""
    value, bound = found.domains.value, found.domains.bound
    if value is None:
        return f"No number of further domains like {found.like} was found to be enough.\n"
    if value == 0:
        return "Every gang is placed already.\n"
    known = "fewer are not enough" if value == bound else f"at least {bound} are needed"
    return f"{value} more of {found.level} like {found.like} place every gang; {known}.\n"


def _bounded(amount: Bounded) -> Json:
    return {"value": amount.value, "bound": amount.bound}


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
