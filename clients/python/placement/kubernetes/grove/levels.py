"""Grove's topology domains, such as "rack", to node labels.

A ClusterTopologyBinding says which label stands for which domain. As in Grove, a
domain that no binding of the input has drops the constraint, and a warning says so.
"""

from __future__ import annotations

from collections.abc import Mapping

from placement.kubernetes.objects import Object, Objects
from placement.kubernetes.problems import Problem
from placement.kubernetes.values.reading import At, Findings


class Levels:
    """Resolves domains for all PodCliqueSets of an input."""

    def __init__(self, bindings: Mapping[str, Mapping[str, str]]) -> None:
        self._bindings = bindings
        self._warnings: dict[Problem, None] = {}

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What was dropped so far, each once."""
        return tuple(self._warnings)

    def key(self, user: Object, topology: str, domain: str) -> str:
        """The node label for a domain; empty when the constraint must be dropped."""
        if not topology and len(self._bindings) == 1:
            (topology,) = self._bindings
        key = self._bindings.get(topology, {}).get(domain, "")
        if not key:
            if topology in self._bindings:
                reason = f"ClusterTopologyBinding {topology} has no such domain"
            elif not self._bindings:
                reason = "there is no ClusterTopologyBinding in the input"
            elif topology:
                reason = f"ClusterTopologyBinding {topology} is not in the input"
            else:
                reason = "of several ClusterTopologyBindings it names none"
            self._warnings[user.problem("", f'constraint to "{domain}" dropped: {reason}')] = None
        return key

    @property
    def only(self) -> str:
        """The name of the binding, where there is exactly one."""
        return next(iter(self._bindings)) if len(self._bindings) == 1 else ""


def read_levels(objects: Objects, problems: list[Problem]) -> Levels:
    """The levels that the input's bindings define."""
    bindings = {}
    for one in objects.topology_bindings:
        findings: Findings = {}
        bindings[one.name] = _read_binding(At(one.body, findings).get("spec").get("levels"))
        problems += [one.problem(*finding) for finding in findings]
    return Levels(bindings)


def _read_binding(at: At) -> dict[str, str]:
    levels: dict[str, str] = {}
    if not at.value:
        at.problem("must hold at least one level")
    for level in at.items():
        domain, key = level.get("domain").required_text(), level.get("key").required_text()
        if domain and domain in levels:
            level.get("domain").problem(f"{domain} is there more than once")
        elif key and key in levels.values():
            level.get("key").problem(f"{key} is there more than once")
        levels.setdefault(domain, key)
    return levels
