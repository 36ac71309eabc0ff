"""What planning found, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from placement.cli.answer import Json, answer, reason, warnings_as_data
from placement.cli.options import GangName
from placement.cli.words import count, gang_title, node_name
from placement.kubernetes import Problem
from placement.planning.capacity import Bounded, Copies, FurtherDomains
from placement.planning.explain import Explanation
from placement.planning.remedies import AddNodes, Evict, Reduce, Relax, Remedy, Uncordon

#: Most names of one kind in a sentence.
_MOST_NAMES = 8


def as_data(gang: GangName, explanation: Explanation, warnings: Iterable[Problem]) -> Json:
    """`explain` for programs."""
    return {
        "gang": str(gang),
        "placed": explanation.placed,
        "reasons": [reason(one) for one in explanation.reasons],
        "remedies": [_remedy(one) for one in explanation.remedies],
        "warnings": warnings_as_data(warnings),
    }


def as_text(gang: GangName, explanation: Explanation) -> str:
    """`explain` for people."""
    lines = [f"{gang} {'is placed' if explanation.placed else 'waits'}"]
    lines += [f"  {one.message}" for one in explanation.reasons]
    if not explanation.placed:
        lines.append("")
        if explanation.remedies:
            lines.append("Each of these alone lets it in, and displaces no other gang:")
            lines += [f"  {_sentence(one)}" for one in explanation.remedies]
        else:
            lines.append("No eviction, opening, relaxing, reducing or adding of nodes was found.")
    return "".join(f"{line}\n" for line in lines)


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
    facts: dict[str, Any]
    match remedy:
        case Evict():
            facts = {"gangs": [gang_title(name) for name in remedy.gangs], "pods": remedy.pods}
        case Uncordon():
            facts = {"nodes": [node_name(name) for name in remedy.nodes]}
        case Relax():
            facts = {"scope": remedy.scope, "level": remedy.level, "to": remedy.to or None}
        case Reduce():
            facts = {"group": remedy.group, "to": remedy.to}
        case AddNodes():
            facts = {"like": node_name(remedy.like), "count": remedy.count}
    message = _sentence(remedy)
    return {"kind": remedy.kind, **facts, "proven": remedy.proven, "message": message}


def _sentence(remedy: Remedy) -> str:
    match remedy:
        case Evict():
            names = _names(gang_title(name) for name in remedy.gangs)
            told = f"evict {count(remedy.pods, 'pod')} of {names}"
        case Uncordon():
            told = f"open {_names(node_name(name) for name in remedy.nodes)}"
        case Relax():
            instead = f"require only {remedy.to}" if remedy.to else "require no one domain"
            told = f"{remedy.scope}: {instead} instead of {remedy.level}"
        case Reduce():
            told = f"{remedy.group}: be content with {remedy.to} of {count(remedy.minimum, 'pod')}"
        case AddNodes():
            told = f"add {count(remedy.count, 'node')} like {node_name(remedy.like)}"
    return f"{told} ({'proven to be the least' if remedy.proven else 'perhaps not the least'})"


def _names(names: Iterable[str]) -> str:
    several = list(names)
    more = f" and {len(several) - _MOST_NAMES} more" if len(several) > _MOST_NAMES else ""
    return ", ".join(several[:_MOST_NAMES]) + more
