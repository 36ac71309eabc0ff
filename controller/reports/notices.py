"""Why a gang waits, or how well it is placed, in the words of the reports. A notice is made from an
answer, or from what prevented one; `report` writes it where people and programs read it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from controller.binding.apply import Outcome
from controller.cluster.gang_state import GangState, Key, key_of_resource
from controller.eviction.plan import EvictionPlan
from placement import v1

#: Longer texts are cut; an answer may list a reason for every group.
_LONGEST: Final = 1500
#: How the service names a gang whose room another gang needs.
_WITH_PRIORITY: Final = re.compile(r"(?P<name>[^\s,]+) \(priority -?[0-9]+\)")
#: Gangs that one message names.
_MOST_NAMED: Final = 3

PLACED: Final = "Placed"
REFUSED: Final = "Refused"
WAITING_FOR_PODS: Final = "WaitingForPods"
HALF_BOUND: Final = "HalfBound"
NO_ANSWER: Final = "NoAnswer"
NOT_BOUND: Final = "NotBound"
NO_POD_GANG: Final = "NoPodGang"
EVICTING: Final = "Evicting"


@dataclass(frozen=True, slots=True)
class Notice:
    """`reason` is one CamelCase word, `message` one or more sentences; both are empty when the gang
    does not wait. `score` is its placement score, if known. `request` is the digest of the request
    that was answered, which names its dump.
    """

    reason: str = ""
    message: str = ""
    score: float | None = None
    request: str = field(default="", compare=False)


def word_of(code: v1.ReasonCode) -> str:
    """A reason of the service as one CamelCase word."""
    name = v1.ReasonCode.Name(code).removeprefix("REASON_CODE_")
    return "".join(part.capitalize() for part in name.split("_"))


def of_result(result: v1.GangResult, *, kept: Iterable[Key] = (), request: str = "") -> Notice:
    """The answer about a gang. `kept` are gated gangs for which room is kept, which the
    message names where others took the room; `request` is the digest of the request."""
    score = result.placement_score if result.HasField("placement_score") else None
    if not result.reasons:
        return Notice(score=score)
    held = frozenset(kept)
    texts = [reason.message for reason in result.reasons]
    if held:
        about = key_of_resource(result.name)
        texts = [_without_lift(text, about, held) for text in texts]
    names = sorted(map("/".join, held))
    if names and any(r.code == v1.ReasonCode.REASON_CODE_OUTCOMPETED for r in result.reasons):
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        texts.append(
            "room is kept for a moment for scaled gangs whose pods Grove still holds back: "
            + ", ".join(names[:_MOST_NAMED])
            + more
        )
    return Notice(word_of(result.reasons[0].code), _joined(texts), score, request)


def of_refusal(fault: str) -> Notice:
    """The gang, or an object that it needs, cannot be read."""
    return Notice(REFUSED, _joined([fault]))


def of_failure(message: str) -> Notice:
    """The service gave no answer."""
    return Notice(NO_ANSWER, _joined([f"the placement service gave no answer: {message}"]))


def of_waiting(state: GangState) -> Notice:
    """Pods that the minimum needs are missing or gated."""
    return Notice(
        WAITING_FOR_PODS,
        _joined(
            f"group {group.name} has {group.bound + len(group.free)} of {group.minimum} pods"
            f" that run or may be bound"
            + (f", {_are(group.gated)} gated" if group.gated else "")
            + (f", {_are(group.lost)} on nodes that are gone" if group.lost else "")
            for group in state.groups
            if not group.could_be_met
        ),
    )


def of_unreferenced(scheduler_name: str) -> Notice:
    """A pod of ours that belongs to no gang."""
    return Notice(
        NO_POD_GANG, f"no PodGang refers to this pod, and {scheduler_name} places pods of PodGangs"
    )


def of_half_bound(state: GangState, why: Notice | None, outcome: Outcome | None) -> Notice:
    """Some pods are bound, but too few: exactly which, and why."""
    told = [
        f"group {group.name} runs {group.bound} of {group.minimum} pods"
        for group in state.groups
        if not group.is_met
    ]
    if why is not None and why.message:
        told.append(f"the rest waits: {why.message}")
    if outcome is not None and outcome.why:
        told.append(f"the last binding failed: {outcome.why}")
    return Notice(HALF_BOUND, _joined(told), None if why is None else why.score)


def of_eviction(plan: EvictionPlan, left: int) -> Notice:
    """Running pods give way to the gang."""
    victims = sorted(map(str, plan.victims))
    more = f" and {len(victims) - _MOST_NAMED} more" if len(victims) > _MOST_NAMED else ""
    text = f"waits until evicted pods are gone: {', '.join(victims[:_MOST_NAMED])}{more}"
    if left:
        text += f"; {left} of them cannot be evicted yet"
    return Notice(EVICTING, text)


def of_outcome(outcome: Outcome, answer: Notice | None) -> Notice:
    """There is a place, but the gang is not bound."""
    what = "plans are overtaken by events" if outcome.stale else "pods cannot be bound"
    score = None if answer is None else answer.score
    return Notice(NOT_BOUND, _joined([f"there is a place, but {what}: {outcome.why}"]), score)


def _are(count: int) -> str:
    return f"{count} {'is' if count == 1 else 'are'}"


def _without_lift(message: str, about: Key, kept: Collection[Key]) -> str:
    """The message without the priorities of the gangs `kept`: the request gave them another
    priority than their own. A gang in the namespace of the gang `about` is named without its
    namespace.
    """

    def told(found: re.Match[str]) -> str:
        namespace, _, name = found["name"].rpartition("/")
        return found["name"] if (namespace or about[0], name) in kept else found[0]

    return _WITH_PRIORITY.sub(told, message)


def _joined(texts: Iterable[str]) -> str:
    *before, last = list(filter(None, texts)) or [""]
    text = "; ".join([*(one.removesuffix(".") for one in before), last])
    return text if len(text) <= _LONGEST else text[: _LONGEST - 4] + " ..."
