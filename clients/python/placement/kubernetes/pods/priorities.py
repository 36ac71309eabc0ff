"""Priority classes, and which priority a gang has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from placement.kubernetes.objects import Object
from placement.kubernetes.pods.pods import Pod
from placement.kubernetes.pods.preemption import says_never
from placement.kubernetes.problems import Problem
from placement.kubernetes.values.reading import At, Findings

#: Classes that every cluster has.
_BUILT_IN: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


class Priorities:
    """The priority classes of the input."""

    def __init__(
        self, values: Mapping[str, int], default: int, never: frozenset[str] = frozenset()
    ) -> None:
        self._values = values
        self._default = default
        self._never = never

    def of_gang(
        self,
        gang: Object,
        class_name: str,
        pods: Iterable[Pod],
        problems: list[Problem],
        *,
        own: int | None = None,
    ) -> int:
        """The priority of a gang; `own` is what its object says explicitly.

        Grove writes a class on the PodGang alone and leaves it off the pods, so the
        gang's own class counts first. Then what the API server wrote in the pods'
        `spec.priority`, the highest; then their class names; then the default.
        A class that is not in the input is a problem: guessing would put gangs in
        the wrong order.
        """
        if own is not None:
            return own
        if class_name:
            return self._value(class_name, gang, "spec.priorityClassName", problems)
        members = tuple(pods)
        numbers = [pod.priority for pod in members if pod.priority is not None]
        if numbers:
            return max(numbers)
        named = {pod.priority_class: pod for pod in members if pod.priority_class}
        return max(
            (
                self._value(name, pod.object, "spec.priorityClassName", problems)
                for name, pod in named.items()
            ),
            default=self._default,
        )

    def never_preempts(self, class_name: str, pods: Iterable[Pod]) -> bool:
        """Whether a gang never preempts others, because its class says so or one of its pods."""
        if class_name:
            return class_name in self._never
        return any(pod.never_preempts or pod.priority_class in self._never for pod in pods)

    def _value(self, name: str, user: Object, field: str, problems: list[Problem]) -> int:
        value = self._values.get(name)
        if value is not None:
            return value
        message = f"PriorityClass {name} is not in the input"
        if user.origin is None:
            problems.append(user.problem(field, message))
        else:
            # Expanded objects cannot be corrected; their set can, and reports it once.
            problems.append(user.origin.problem("spec.template", f"{message} ({field})"))
        return 0


def read_workload_priorities(objects: Iterable[Object], problems: list[Problem]) -> dict[str, int]:
    """The value of each of Kueue's WorkloadPriorityClasses."""
    values = {}
    for one in objects:
        findings: Findings = {}
        number = At(one.body, findings).get("value")
        if number.absent:
            number.problem("is missing")
        values[one.name] = number.integer(least=-(2**31))
        problems += [one.problem(*finding) for finding in findings]
    return values


def read_priorities(objects: Iterable[Object], problems: list[Problem]) -> Priorities:
    """All priority classes; of several global defaults the lowest counts, as in Kubernetes."""
    values = dict(_BUILT_IN)
    defaults = []
    never = set()
    for one in objects:
        findings: Findings = {}
        at = At(one.body, findings)
        number = at.get("value")
        if number.absent:
            number.problem("is missing")
        values[one.name] = number.integer(least=-(2**31))
        if says_never(at.get("preemptionPolicy")):
            never.add(one.name)
        if at.get("globalDefault").flag():
            defaults.append(values[one.name])
        problems += [one.problem(*finding) for finding in findings]
    return Priorities(values, min(defaults, default=0), frozenset(never))
