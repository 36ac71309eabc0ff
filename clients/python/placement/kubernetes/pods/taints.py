"""Taints of nodes, of flavors and of reservations, and the tolerations of pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from placement import v1
from placement.kubernetes.values.reading import At

_TAINT_EFFECTS: Final[Mapping[str, v1.TaintEffect]] = {
    "NoSchedule": v1.TaintEffect.TAINT_EFFECT_NO_SCHEDULE,
    "PreferNoSchedule": v1.TaintEffect.TAINT_EFFECT_PREFER_NO_SCHEDULE,
    "NoExecute": v1.TaintEffect.TAINT_EFFECT_NO_EXECUTE,
}


def read_tolerations(at: At, unsupported: list[str]) -> tuple[v1.Toleration, ...]:
    """The tolerations of a pod; those that cannot be honoured are named in `unsupported`."""
    result = []
    for toleration in at.items():
        key = toleration.get("key").text()
        operator = toleration.get("operator").text("Equal") or "Equal"
        value = toleration.get("value").text()
        effect = _effect(toleration.get("effect"), none=v1.TaintEffect.TAINT_EFFECT_UNSPECIFIED)
        if operator in ("Lt", "Gt"):
            unsupported.append(toleration.get("operator").path + f" {operator}")
        elif operator not in ("Exists", "Equal"):
            toleration.get("operator").problem(f"must be Exists or Equal, not {operator}")
        elif operator == "Equal" and not key:
            toleration.get("operator").problem("must be Exists when the key is empty")
        elif operator == "Exists" and value:
            toleration.get("value").problem("must be empty when the operator is Exists")
        else:
            result.append(
                v1.Toleration(
                    key=key,
                    operator=v1.TolerationOperator.TOLERATION_OPERATOR_EXISTS
                    if operator == "Exists"
                    else v1.TolerationOperator.TOLERATION_OPERATOR_EQUAL,
                    value=value,
                    effect=effect,
                )
            )
    return tuple(result)


def read_taint(at: At) -> v1.Taint:
    """A taint of a node."""
    return v1.Taint(
        key=at.get("key").required_text(),
        value=at.get("value").text(),
        effect=_effect(at.get("effect"), none=None),
    )


def tolerates(tolerations: Iterable[v1.Toleration], taint: v1.Taint) -> bool:
    """Whether a taint lets pods come that have these tolerations; one that only prefers others lets
    all come.
    """
    if taint.effect == v1.TaintEffect.TAINT_EFFECT_PREFER_NO_SCHEDULE:
        return True
    exists = v1.TolerationOperator.TOLERATION_OPERATOR_EXISTS
    return any(
        (
            t.key in ("", taint.key)
            if t.operator == exists
            else t.key == taint.key and t.value == taint.value
        )
        and t.effect in (v1.TaintEffect.TAINT_EFFECT_UNSPECIFIED, taint.effect)
        for t in tolerations
    )


def _effect(at: At, *, none: v1.TaintEffect | None) -> v1.TaintEffect:
    """A taint effect; `none` stands for an absent one, which is wrong when it is None."""
    text = at.text()
    if not text and none is not None:
        return none
    effect = _TAINT_EFFECTS.get(text)
    if effect is None:
        at.problem(f"must be one of {', '.join(_TAINT_EFFECTS)}, not {text or 'empty'}")
        return v1.TaintEffect.TAINT_EFFECT_NO_SCHEDULE
    return effect
