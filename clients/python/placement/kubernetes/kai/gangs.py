"""KAI's gangs: PodGroups with sub-groups, topologies, and pods that are about to be bound.

- A sub-group with children is a scope over the leaves below it, a leaf is a pod group.
  Without sub-groups the PodGroup is one group, "default".
- A pod belongs to the PodGroup that its annotation names, and there to the sub-group that
  its label names.
- A constraint's domains are paths of labels (see `nodes.label_paths`).
- A pod with a BindRequest that has not failed for good runs on the selected node.
- A PodGroup that KAI or Grove made for a PodGang has no pods of its own: its pods are in the
  PodGang, or it has none and the PodGang's name. The PodGang is read, and the PodGroup's queue and
  preemptibility count for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from placement import v1
from placement.kubernetes.gangs import Gang, Group, Key
from placement.kubernetes.nodes.label_paths import LabelPaths
from placement.kubernetes.objects import POD_GANG, Object, is_name, is_part_name, not_a_name
from placement.kubernetes.pods.pods import Decision, Pod
from placement.kubernetes.pods.preemption import KAI_WORDS
from placement.kubernetes.problems import Diagnostics, Problem
from placement.kubernetes.values.reading import At, Findings
from placement.kubernetes.values.times import is_deleted, read_time

POD_GROUP: Final = "pod-group-name"
SUB_GROUP: Final = "kai.scheduler/subgroup-name"
#: The name of the only group of a PodGroup without sub-groups.
DEFAULT_GROUP: Final = "default"

#: From this priority on a PodGroup that says nothing is not preemptible.
_FIXED_FROM: Final = 100
_FAILED: Final = "Failed"


def read_bind_requests(
    objects: Iterable[Object],
    known: Collection[Key],
    diagnostics: Diagnostics,
) -> dict[Key, Decision]:
    """KAI's decision about each pod that it has decided about; `known` are the pods of the input,
    also those that have finished.
    """
    decisions: dict[Key, Decision] = {}
    for one in objects:
        findings: Findings = {}
        at = At(one.body, findings)
        name = at.get("spec").get("podName").required_text()
        node = at.get("spec").get("selectedNode").required_text()
        if node and not is_name(node):
            at.get("spec").get("selectedNode").problem(not_a_name(node))
        groups = at.get("spec").get("selectedGPUGroups").texts()
        key = one.namespace, name
        if not _has_failed(at):
            told = ""
            if name and key not in known:
                told = f"Pod {one.namespace}/{name} is not in the input"
            elif decisions.get(key, Decision(node)).node != node:
                told = f"another BindRequest has node {decisions[key].node} for it: this one counts"
            if told:
                diagnostics.warnings.append(one.problem("spec.podName", told))
            decisions[key] = Decision(node, groups)
        diagnostics.problems += [one.problem(*finding) for finding in findings]
    return decisions


def _has_failed(request: At) -> bool:
    """Whether KAI no longer counts a BindRequest: it failed as often as its limit allows."""
    limit = request.get("spec").get("backoffLimit")
    status = request.get("status")
    tried = status.get("failedAttempts").integer()
    return status.get("phase").text() == _FAILED and (limit.absent or tried >= limit.integer())


def read_topologies(
    objects: Iterable[Object], problems: list[Problem]
) -> dict[str, tuple[str, ...]]:
    """The node labels of each topology, from broad to narrow."""
    topologies = {}
    for one in objects:
        findings: Findings = {}
        levels = At(one.body, findings).get("spec").get("levels")
        keys = tuple(level.get("nodeLabel").required_text() for level in levels.items())
        if not keys:
            levels.problem("must hold at least one level")
        elif len(set(keys)) != len(keys):
            levels.problem("a label is there more than once")
        topologies[one.name] = keys
        problems += [one.problem(*finding) for finding in findings]
    return topologies


def read_kai_gangs(
    objects: Iterable[Object],
    pods: Mapping[Key, Pod],
    topologies: Mapping[str, tuple[str, ...]],
    paths: LabelPaths,
    taken: Mapping[Key, Gang],
    diagnostics: Diagnostics,
) -> tuple[list[Gang], dict[Key, Gang]]:
    """The gangs of PodGroups, and the gangs of others that have one, changed by what it says.

    `taken` are the gangs that pods belong to already.
    """
    members: dict[Key, list[Pod]] = {}
    for pod in pods.values():
        if name := pod.annotations.get(POD_GROUP):
            members.setdefault((pod.namespace, name), []).append(pod)
    of_grove = {gang.key: gang for gang in taken.values() if gang.object.kind == POD_GANG}
    gangs: list[Gang] = []
    changed: dict[Key, Gang] = {}
    for one in objects:
        findings: Findings = {}
        own = members.get(one.key, [])
        free = [pod for pod in own if pod.key not in taken]
        other = taken.get(own[0].key) if own and not free else None
        if not own:
            other = of_grove.get(one.key)
        if free and len(free) < len(own):
            pod = next(pod for pod in own if pod.key in taken)
            text = f"{pod} is in {taken[pod.key].object}, too: it counts there alone"
            diagnostics.warnings.append(one.problem("", text))
        reader = _Reader(one, At(one.body, findings), topologies, paths, diagnostics.warnings)
        gang = reader.gang(free)
        diagnostics.problems += [one.problem(*finding) for finding in findings]
        if other is not None:
            other = changed.get(other.key, other)
            changed[other.key] = replace(
                other,
                queue=other.queue or gang.queue,
                preemptible=gang.preemptible if other.preemptible is None else other.preemptible,
                fixed_from=_FIXED_FROM,
                created=other.created or gang.created,
            )
        else:
            gangs.append(gang)
    return gangs, changed


class _Reader:
    """Reads one PodGroup."""

    def __init__(
        self,
        one: Object,
        at: At,
        topologies: Mapping[str, tuple[str, ...]],
        paths: LabelPaths,
        warnings: list[Problem],
    ) -> None:
        self._one = one
        self._at = at
        self._topologies = topologies
        self._paths = paths
        self._warnings = warnings
        self._unsupported: list[str] = []

    def gang(self, pods: list[Pod]) -> Gang:
        spec = self._at.get("spec")
        parents, minimums = self._sub_groups(spec)
        scopes = [self._scope(self._one.name, (), spec.get("topologyConstraint"))]
        for entry in spec.get("subGroups").items():
            name = entry.get("name").text()
            below = (name,) if name in minimums else _leaves_below(name, parents, minimums)
            scopes.append(self._scope(name, below, entry.get("topologyConstraint")))
            if name not in minimums:
                self._no_more_than(sum(minimums[leaf] for leaf in below), entry.get("minMember"))
            self._all_children(entry, sum(parent == name for parent in parents.values()))
        self._all_children(spec, len({*minimums, *parents.values()} - parents.keys()))
        if minimums:
            self._no_more_than(sum(minimums.values()), spec.get("minMember"))
        return Gang(
            object=self._one,
            groups=self._groups(spec, minimums, pods),
            scopes=tuple(scope for scope in scopes if scope is not None),
            priority_class=spec.get("priorityClassName").text(),
            terminating=is_deleted(self._at.get("metadata")),
            queue=spec.get("queue").text(),
            preemptible=self._preemptible(spec.get("preemptibility")),
            fixed_from=_FIXED_FROM,
            created=read_time(self._at.get("metadata").get("creationTimestamp")),
            unsupported=tuple(self._unsupported),
        )

    def _sub_groups(self, spec: At) -> tuple[dict[str, str], dict[str, int]]:
        """Parent of each sub-group that has one, and the minimum of each leaf."""
        entries = list(spec.get("subGroups").items())
        names: dict[str, At] = {}
        for entry in entries:
            name = entry.get("name").required_text()
            if name in names:
                entry.get("name").problem(f"{name} is there more than once")
            elif name and not is_part_name(name):
                entry.get("name").problem(f"{name!r} cannot be a name")
            names[name] = entry
        lower = {name.lower(): name for name in names}
        parents: dict[str, str] = {}
        for entry in entries:
            parent = entry.get("parent").text()
            if not parent:
                continue
            if parent.lower() not in lower:
                entry.get("parent").problem(f"there is no sub-group {parent}")
            else:
                parents[entry.get("name").text()] = lower[parent.lower()]
        for name in parents:
            if _is_its_own_ancestor(name, parents):
                names[name].get("parent").problem(f"{name} is above itself")
                return {}, {}
        leaves = {n: e for n, e in names.items() if n not in parents.values()}
        return parents, {
            name: entry.get("minMember").integer(1, least=0) for name, entry in leaves.items()
        }

    def _no_more_than(self, total: int, least: At) -> None:
        """Warns of a minimum above sub-groups that asks for more than they do: KAI looks at those
        of the leaves alone.
        """
        if (asked := least.integer(least=0)) > total:
            text = f"{asked} are more than its sub-groups ask for ({total}), which count"
            self._warnings.append(self._one.problem(least.path, text))

    def _all_children(self, at: At, count: int) -> None:
        """Refuses a minimum of sub-groups that is less than all of them."""
        least = at.get("minSubGroup")
        if not least.absent and (said := least.integer(count, least=0)) < count:
            self._unsupported.append(f"{least.path}: only {said} of {count} sub-groups must run")

    def _groups(self, spec: At, minimums: Mapping[str, int], pods: list[Pod]) -> tuple[Group, ...]:
        whole = spec.get("minMember").integer(1, least=0)
        if not minimums:
            return (Group(DEFAULT_GROUP, whole, tuple(pod.key for pod in pods)),)
        by_name: dict[str, list[Key]] = {name: [] for name in minimums}
        for pod in pods:
            name = pod.labels.get(SUB_GROUP, DEFAULT_GROUP)
            if name in by_name:
                by_name[name].append(pod.key)
            else:
                self._warnings.append(
                    pod.object.problem(
                        f"metadata.labels[{SUB_GROUP}]",
                        f"{self._one} has no sub-group {name}: left alone",
                    )
                )
        return tuple(Group(name, minimums[name], tuple(keys)) for name, keys in by_name.items())

    def _scope(self, name: str, groups: tuple[str, ...], at: At) -> v1.PackingScope | None:
        required = at.get("requiredTopologyLevel").text()
        preferred = at.get("preferredTopologyLevel").text()
        if not (required or preferred):
            return None
        topology = at.get("topology").text()
        levels = self._topologies.get(topology)
        if levels is None:
            what = f"Topology {topology} is not in the input" if topology else "is missing"
            self._unsupported.append(f"{at.get('topology').path}: {what}")
            return None
        for field, level in (("requiredTopologyLevel", required),
                             ("preferredTopologyLevel", preferred)):  # fmt: skip
            if level and level not in levels:
                self._unsupported.append(
                    f"{at.get(field).path}: Topology {topology} has no level {level}"
                )
                return None
        return v1.PackingScope(
            name=name,
            groups=groups,
            required_level=required and self._paths.key(topology, levels, required),
            preferred_level=preferred and self._paths.key(topology, levels, preferred),
        )

    def _preemptible(self, at: At) -> bool | None:
        said = at.text()
        if said and said not in KAI_WORDS:
            at.problem(f"must be preemptible or non-preemptible, not {said}")
        return KAI_WORDS.get(said)


def _leaves_below(name: str, parents: Mapping[str, str], leaves: Iterable[str]) -> tuple[str, ...]:
    return tuple(leaf for leaf in leaves if name in _ancestors(leaf, parents))


def _ancestors(name: str, parents: Mapping[str, str]) -> list[str]:
    above: list[str] = []
    while (name := parents.get(name, "")) and name not in above:
        above.append(name)
    return above


def _is_its_own_ancestor(name: str, parents: Mapping[str, str]) -> bool:
    return name in _ancestors(name, parents)
