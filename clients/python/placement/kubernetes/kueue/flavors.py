"""Kueue's ResourceFlavors: on which nodes the pods of a Workload may run.

Kueue gives each resource of a Workload one of the flavors that its ClusterQueue has quota of, and
adds the flavor's node labels and tolerations to the pods. Where flavors are told apart (`choice`)
one is chosen here, too; of others the pods may run on the nodes of any: pod by pod, where Kueue
takes one flavor for all pods of a set.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, Final, NamedTuple

from placement import v1
from placement.kubernetes.objects import Object
from placement.kubernetes.pods.narrowed_affinity import REQUIRED, narrowed
from placement.kubernetes.pods.taints import read_taint, read_tolerations, tolerates
from placement.kubernetes.problems import Problem
from placement.kubernetes.values.reading import At, Findings
from placement.kubernetes.values.selectors import read_requirement

#: Ways to combine flavors of several resource groups; beyond it they do not restrict.
_MOST_WAYS: Final = 64

#: Kueue compares others, too; here these may hold for any flavor.
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


class Flavor(NamedTuple):
    """`taints` are those of its nodes that pods have to tolerate to take it."""

    labels: Mapping[str, str]
    tolerations: tuple[Any, ...] = ()
    taints: tuple[v1.Taint, ...] = ()


#: A flavor about which nothing is known restricts nothing.
_ANY: Final = Flavor({})


class _Group(NamedTuple):
    """Resources of a ClusterQueue, and the flavors that may provide them, by name."""

    resources: frozenset[str]
    flavors: Mapping[str, Flavor]


@dataclass(frozen=True, slots=True)
class Flavors:
    """The flavors that are known, and the resource groups of each ClusterQueue."""

    known: Mapping[str, Flavor]
    _groups: Mapping[str, tuple[_Group, ...]]

    def open_to(
        self, template: Mapping[str, Any], queue: str, among: Collection[str]
    ) -> list[str] | None:
        """Those among some flavors of a queue that pods of a template may take, in the queue's
        order; None where they ask for nothing that these provide.
        """
        wanted = requested(template)
        for group in self._groups.get(queue, ()):
            mine = [name for name in group.flavors if name in among]
            if mine and wanted & group.resources:
                keys = {key for flavor in group.flavors.values() for key in flavor.labels}
                return [n for n in mine if _takes(template, group.flavors[n], keys)]
        return None

    def restricted(
        self, template: Mapping[str, Any], queue: str, chosen: str = ""
    ) -> Mapping[str, Any]:
        """A pod template whose pods run where flavors of the queue let them: of the group that
        has it the chosen one, else any that they may take.
        """
        spec = template.get("spec")
        if not isinstance(spec, dict):
            return template
        wanted = requested(template)
        choices = []
        for group in self._groups.get(queue, ()):
            if wanted & group.resources:
                keys = {key for flavor in group.flavors.values() for key in flavor.labels}
                mine = [f for f in group.flavors.values() if _takes(template, f, keys)]
                if chosen in group.flavors:
                    mine = [group.flavors[chosen]]
                choices.append(mine or [*group.flavors.values()])
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
        if all(labels) and (affinity := narrowed(spec.get("affinity") or {}, labels)):
            changed["affinity"] = affinity
        return {**template, "spec": changed}


def read_flavors(
    flavors: Iterable[Object], cluster_queues: Iterable[Object], problems: list[Problem]
) -> Flavors:
    """`queues` reports what is wrong with a ClusterQueue."""
    known: dict[str, Flavor] = {}
    for one in flavors:
        findings: Findings = {}
        spec = At(one.body, findings).get("spec")
        known[one.name] = Flavor(
            spec.get("nodeLabels").labels(),
            tuple(entry.value for entry in spec.get("tolerations").items()),
            tuple(read_taint(entry) for entry in spec.get("nodeTaints").items()),
        )
        problems += [one.problem(*finding) for finding in findings]
    return Flavors(known, {one.name: _groups(one, known) for one in cluster_queues})


def _groups(one: Object, known: Mapping[str, Flavor]) -> tuple[_Group, ...]:
    groups = []
    for group in At(one.body, {}).get("spec").get("resourceGroups").items():
        resources: set[str] = set()
        flavors = {}
        for flavor in group.get("flavors").items():
            name = flavor.get("name").text()
            flavors[name] = known.get(name, _ANY)
            resources |= {r.get("name").text() for r in flavor.get("resources").items()}
        groups.append(_Group(frozenset(resources), flavors))
    return tuple(groups)


def _takes(template: Mapping[str, Any], flavor: Flavor, keys: Collection[str]) -> bool:
    """Whether pods tolerate the taints of a flavor, and select its labels.

    As Kueue does, of what they select only `keys` count: labels that the flavors of the same
    resources have.
    """
    spec = At(template, {}).get("spec")
    own = (spec.get("tolerations"), At([*flavor.tolerations], {}))
    tolerations = [one for at in own for one in read_tolerations(at, [])]
    if not all(tolerates(tolerations, taint) for taint in flavor.taints):
        return False
    selected = spec.get("nodeSelector").labels()
    if any(flavor.labels.get(key) != selected[key] for key in selected if key in keys):
        return False
    terms = [
        [
            r
            for entry in term.get("matchExpressions").items()
            if (r := read_requirement(entry, _OPERATORS)) is not None and r.key in keys
        ]
        for term in spec.get("affinity").get("nodeAffinity").get(REQUIRED)
        .get("nodeSelectorTerms").items()
    ]  # fmt: skip
    return not terms or any(all(r.matches(flavor.labels) for r in term) for term in terms)


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
