"""Kueue's ResourceFlavors: on which nodes the pods of a Workload may run.

Kueue gives each resource of a Workload one of the flavors that its ClusterQueue has quota of, and
adds the flavor's node labels and tolerations to the pods. Which one is not chosen yet while the
Workload waits, so its pods may run on the nodes of any: here pod by pod, where Kueue takes one
flavor for all pods of a set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, Final, NamedTuple

from placement.kubernetes.objects import Object
from placement.kubernetes.problems import Problem
from placement.kubernetes.reading import At, Findings

#: Ways to combine flavors of several resource groups; beyond it they do not restrict.
_MOST_WAYS: Final = 64

_AFFINITY: Final = "requiredDuringSchedulingIgnoredDuringExecution"


class _Flavor(NamedTuple):
    labels: Mapping[str, str]
    tolerations: tuple[Any, ...]


#: A flavor about which nothing is known restricts nothing.
_ANY: Final = _Flavor({}, ())


class _Group(NamedTuple):
    """Resources of a ClusterQueue, and the flavors that may provide them."""

    resources: frozenset[str]
    flavors: tuple[_Flavor, ...]


@dataclass(frozen=True, slots=True)
class Flavors:
    """The resource groups of each ClusterQueue."""

    _groups: Mapping[str, tuple[_Group, ...]]

    def restricted(self, template: Mapping[str, Any], queue: str) -> Mapping[str, Any]:
        """A pod template whose pods run where flavors of the queue let them."""
        spec = template.get("spec")
        if not isinstance(spec, dict):
            return template
        wanted = requested(template)
        choices = [g.flavors for g in self._groups.get(queue, ()) if wanted & g.resources]
        ways = list(islice(product(*choices), _MOST_WAYS + 1))
        if not choices or len(ways) > _MOST_WAYS:
            return template
        every = [{pair for flavor in way for pair in flavor.labels.items()} for way in ways]
        # Where no node can have all labels of any way, the first says so.
        labels = [one for one in every if len(dict(one)) == len(one)] or every[:1]
        tolerations = [t for way in ways for flavor in way for t in flavor.tolerations]
        changed = dict(spec)
        if tolerations and isinstance(spec.get("tolerations", []), list):
            known = list(spec.get("tolerations", []))
            changed["tolerations"] = known + [t for t in tolerations if t not in known]
        if all(labels) and (affinity := _narrowed(spec.get("affinity") or {}, labels)):
            changed["affinity"] = affinity
        return {**template, "spec": changed}


def read_flavors(
    flavors: Iterable[Object], cluster_queues: Iterable[Object], problems: list[Problem]
) -> Flavors:
    """`kueue_queues` reports what is wrong with a ClusterQueue."""
    known: dict[str, _Flavor] = {}
    for one in flavors:
        findings: Findings = {}
        spec = At(one.body, findings).get("spec")
        tolerations = tuple(entry.value for entry in spec.get("tolerations").items())
        known[one.name] = _Flavor(spec.get("nodeLabels").labels(), tolerations)
        problems += [one.problem(*finding) for finding in findings]
    if not known:
        return Flavors({})
    return Flavors({one.name: _groups(one, known) for one in cluster_queues})


def _groups(one: Object, known: Mapping[str, _Flavor]) -> tuple[_Group, ...]:
    groups = []
    for group in At(one.body, {}).get("spec").get("resourceGroups").items():
        resources: set[str] = set()
        flavors = []
        for flavor in group.get("flavors").items():
            flavors.append(known.get(flavor.get("name").text(), _ANY))
            resources |= {r.get("name").text() for r in flavor.get("resources").items()}
        groups.append(_Group(frozenset(resources), tuple(flavors)))
    return tuple(groups)


def requested(template: Mapping[str, Any]) -> set[str]:
    """The names of resources that any container of a pod template asks for."""
    found = {"pods"}
    spec = At(template, {}).get("spec")
    for field in ("containers", "initContainers"):
        for container in spec.get(field).items():
            for kind in ("requests", "limits"):
                amounts = container.get("resources").get(kind).value
                found |= set(amounts) if isinstance(amounts, dict) else set()
    return found


def _narrowed(affinity: Any, labels: Iterable[set[tuple[str, str]]]) -> dict[str, Any] | None:
    """Affinity to nodes with any of these labels, too; None where the affinity is malformed."""
    try:
        near = affinity.get("nodeAffinity") or {}
        terms = (near.get(_AFFINITY) or {}).get("nodeSelectorTerms") or [{}]
        narrowed = [
            {
                **term,
                "matchExpressions": [
                    *(term.get("matchExpressions") or []),
                    *({"key": k, "operator": "In", "values": [v]} for k, v in sorted(of)),
                ],
            }
            for term in terms
            for of in labels
        ]
    except (AttributeError, TypeError):
        return None
    required = {_AFFINITY: {"nodeSelectorTerms": narrowed}}
    return {**affinity, "nodeAffinity": {**near, **required}}
