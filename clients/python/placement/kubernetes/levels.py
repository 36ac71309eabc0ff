"""Grove's topology domains, such as "rack", to node labels.

A ClusterTopologyBinding says which label stands for which domain. As in Grove, a
domain that the binding lacks drops the constraint, and a warning says so. Without
any binding in the input, which is common while planning offline, the label is
guessed from the nodes, and a warning says what was taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from placement.kubernetes.nodes import HOSTNAME
from placement.kubernetes.objects import Object, Objects
from placement.kubernetes.problems import Problem
from placement.kubernetes.reading import At, Findings

#: Labels that Kubernetes itself defines.
_WELL_KNOWN: Final = {
    "host": HOSTNAME,
    "zone": "topology.kubernetes.io/zone",
    "region": "topology.kubernetes.io/region",
}


class Levels:
    """Resolves domains for all PodCliqueSets of an input."""

    def __init__(
        self, bindings: Mapping[str, Mapping[str, str]], node_labels: Iterable[str]
    ) -> None:
        self._bindings = bindings
        self._node_labels = frozenset(node_labels)
        self._warnings: dict[Problem, None] = {}

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What was dropped or guessed so far, each once."""
        return tuple(self._warnings)

    def key(self, user: Object, topology: str, domain: str) -> str:
        """The node label for a domain; empty when the constraint must be dropped."""
        if not self._bindings:
            key = self._guess(domain)
            text = f'no ClusterTopologyBinding in the input: "{domain}" taken as node label {key}'
            self._warnings[Problem("", "", "", text)] = None
            return key
        if not topology and len(self._bindings) == 1:
            (topology,) = self._bindings
        key = self._bindings.get(topology, {}).get(domain, "")
        if not key:
            if topology in self._bindings:
                reason = f"ClusterTopologyBinding {topology} has no such domain"
            elif topology:
                reason = f"ClusterTopologyBinding {topology} is not in the input"
            else:
                reason = "of several ClusterTopologyBindings it names none"
            self._warnings[user.problem("", f'constraint to "{domain}" dropped: {reason}')] = None
        return key

    def _guess(self, domain: str) -> str:
        well_known = _WELL_KNOWN.get(domain, "")
        if domain == "host" or well_known in self._node_labels:
            return well_known
        alike = [k for k in self._node_labels if k == domain or k.endswith(f"/{domain}")]
        return alike[0] if len(alike) == 1 else well_known or domain


def read_levels(objects: Objects, problems: list[Problem]) -> Levels:
    """The levels that the input's bindings define."""
    bindings = {}
    for one in objects.topology_bindings:
        findings: Findings = {}
        bindings[one.name] = _read_binding(At(one.body, findings).get("spec").get("levels"))
        problems += [one.problem(*finding) for finding in findings]
    return Levels(bindings, () if bindings else _node_labels(objects.nodes))


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


def _node_labels(nodes: Iterable[Object]) -> set[str]:
    return {
        key
        for node in nodes
        # Anything wrong with the labels is noted where the nodes are read.
        for key in At(node.body, {}).get("metadata").get("labels").labels()
    }
