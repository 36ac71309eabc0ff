"""PodGangs: their groups, packing scopes and the pods they refer to.

Decisions where Grove leaves room:

- A PodGang with a status waits until its condition Initialized is True. One
  without any status was written by hand, and does not wait.
- References to pods that are not in the input, or have finished, are pods that
  are not there yet. A pod that is being deleted still holds its resources but
  is no member any more: its replacement will be.
- A pod of another namespace is refused by name. Grove makes no such references.
- A pod belongs to one group of one gang; a second reference is a problem.
- The base of a scaled gang is named by its pods' label. A base that is not in
  the input puts no condition on the gang, which a warning says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from placement import v1
from placement.kubernetes.objects import Object, is_part_name
from placement.kubernetes.pods import Pod
from placement.kubernetes.priorities import Priorities
from placement.kubernetes.problems import Problem
from placement.kubernetes.reading import At, Findings
from placement.kubernetes.templates import Templates

#: Label of a scaled gang's pods: the name of the base gang.
BASE_POD_GANG: Final = "grove.io/base-podgang"
_POD_INDEX: Final = "grove.io/podclique-pod-index"

Key = tuple[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """A pod group as written; `pods` are namespace and name of each reference."""

    name: str
    min_replicas: int
    pods: tuple[Key, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Gang:
    """A PodGang as written. `reuses` is the gang whose nodes it would like again."""

    object: Object
    groups: tuple[Group, ...]
    scopes: tuple[v1.PackingScope, ...]
    priority_class: str
    initialized: bool
    terminating: bool
    reuses: Key | None

    @property
    def key(self) -> Key:
        return self.object.key

    @property
    def resource_name(self) -> str:
        return f"namespaces/{self.object.namespace}/podgangs/{self.object.name}"

    def members(self, pods: Mapping[Key, Pod]) -> list[Pod]:
        """The pods of all groups that are there."""
        return [pods[key] for group in self.groups for key in group.pods if key in pods]

    def has_home(self, pod: Pod) -> bool:
        """Whether a member lives where the gang does; others are not sent."""
        return pod.namespace == self.object.namespace


def read_gangs(objects: Iterable[Object], problems: list[Problem]) -> list[Gang]:
    """All PodGangs in input order."""
    gangs = []
    owners: dict[Key, Object] = {}
    for one in objects:
        findings: Findings = {}
        gangs.append(_read_gang(one, At(one.body, findings), owners))
        problems += [one.problem(*finding) for finding in findings]
    return gangs


def _read_gang(one: Object, at: At, owners: dict[Key, Object]) -> Gang:
    spec, status = at.get("spec"), at.get("status")
    groups = _groups(one, spec, owners)
    reuse = spec.get("reuseReservationRef")
    reuses = None
    if not reuse.absent:
        reuses = (reuse.get("namespace").text(one.namespace), reuse.get("name").required_text())
    return Gang(
        object=one,
        groups=groups,
        scopes=_scopes(one, spec, {group.name for group in groups}),
        priority_class=spec.get("priorityClassName").text(),
        initialized=_is_initialized(status),
        terminating=not at.get("metadata").get("deletionTimestamp").absent,
        reuses=reuses,
    )


def _groups(one: Object, spec: At, owners: dict[Key, Object]) -> tuple[Group, ...]:
    at = spec.get("podgroups")
    if not at.value:
        hint = " (the name is in lower case)" if not spec.get("podGroups").absent else ""
        at.problem(f"must hold at least one group{hint}")
    groups: dict[str, Group] = {}
    for entry in at.items():
        name = entry.get("name").required_text()
        if name and name in groups:
            entry.get("name").problem(f"{name} is there more than once")
        elif name and not is_part_name(name):
            entry.get("name").problem(f"{name!r} cannot be a name")
        minimum = entry.get("minReplicas")
        if minimum.absent:
            minimum.problem("is missing")
        pods: dict[Key, None] = {}
        for reference in entry.get("podReferences").items():
            key = (
                reference.get("namespace").text(one.namespace) or one.namespace,
                reference.get("name").required_text(),
            )
            if key in owners:
                reference.problem(f"pod {key[0]}/{key[1]} already belongs to {owners[key]}")
            owners[key] = one
            pods[key] = None
        groups[name] = Group(name, minimum.integer(least=0), tuple(pods))
    return tuple(groups.values())


def _scopes(one: Object, spec: At, groups: set[str]) -> tuple[v1.PackingScope, ...]:
    """The packing scopes of all three places: the gang, sets of groups, single groups."""
    found = [_scope(one.name, (), spec.get("topologyConstraint"))]
    for config in spec.get("topologyConstraintGroupConfigs").items():
        at = config.get("podGroupNames")
        names = tuple(dict.fromkeys(at.texts()))
        if not names:
            # Without names it would silently cover the whole gang.
            at.problem("must name at least one group")
        for name in names:
            if name not in groups:
                at.problem(f"the gang has no group {name}")
        found.append(_scope(config.get("name").text(), names, config.get("topologyConstraint")))
    for entry in spec.get("podgroups").items():
        name = entry.get("name").text()
        found.append(_scope(name, (name,), entry.get("topologyConstraint")))
    return tuple(scope for scope in found if scope is not None)


def _scope(name: str, groups: tuple[str, ...], constraint: At) -> v1.PackingScope | None:
    pack = constraint.get("packConstraint")
    required, preferred = pack.get("required").text(), pack.get("preferred").text()
    # A field by another name would lose the rule: PodCliqueSets call it `pack`.
    if pack.absent and constraint.value:
        constraint.problem("must hold packConstraint")
    elif pack.value and pack.get("required").absent and pack.get("preferred").absent:
        pack.problem("must hold required or preferred")
    if not required and not preferred:
        return None
    return v1.PackingScope(
        name=name, groups=groups, required_level=required, preferred_level=preferred
    )


def _is_initialized(status: At) -> bool:
    initialized = not status.value
    for condition in status.get("conditions").items():
        if condition.get("type").text() == "Initialized":
            initialized = condition.get("status").text() == "True"
    return initialized


class GangMessages:
    """Puts gangs on the wire; needs all of them, for they refer to each other."""

    def __init__(
        self,
        gangs: Iterable[Gang],
        pods: Mapping[Key, Pod],
        templates: Templates,
        priorities: Priorities,
    ) -> None:
        self._gangs = {gang.key: gang for gang in gangs}
        self._pods = pods
        self._templates = templates
        self._priorities = priorities
        self._bases = {key: self._named_bases(gang) for key, gang in self._gangs.items()}

    def messages(self, problems: list[Problem], warnings: list[Problem]) -> list[v1.PodGang]:
        """All gangs in input order."""
        lost: Counter[str] = Counter()
        result = []
        for gang in self._gangs.values():
            base, refusal = self._base(gang, lost)
            members = gang.members(self._pods)
            result.append(
                v1.PodGang(
                    name=gang.resource_name,
                    priority=self._priorities.of_gang(
                        gang.object, gang.priority_class, members, problems
                    ),
                    groups=[self._group(gang, group) for group in gang.groups],
                    packing_scopes=gang.scopes,
                    base_gang=base,
                    uninitialized=not gang.initialized,
                    previous_nodes=self._previous_nodes(gang),
                    unsupported=[*refusal, *_unsupported(gang, members)],
                )
            )
        warnings += [
            Problem(
                "",
                f"PodGang {base}",
                "",
                f"the base of {count} other gang{'s' if count > 1 else ''} is not in the input:"
                " placed without regard to it",
            )
            for base, count in sorted(lost.items())
        ]
        return result

    def _group(self, gang: Gang, group: Group) -> v1.PodGroup:
        sets: dict[int, tuple[v1.PodTemplate, list[v1.Pod]]] = {}
        bound = []
        gated = 0
        for key in group.pods:
            pod = self._pods.get(key)
            if pod is None or pod.terminating or not gang.has_home(pod):
                continue
            if pod.node:
                bound.append(v1.BoundPod(name=pod.resource_name, node=f"nodes/{pod.node}"))
            elif pod.gated:
                gated += 1
            else:
                template = self._templates.of(pod)
                _, alike = sets.setdefault(id(template), (template, []))
                alike.append(v1.Pod(name=pod.resource_name, uid=pod.uid, rank=_rank(pod)))
        return v1.PodGroup(
            name=group.name,
            min_replicas=group.min_replicas,
            pod_sets=[
                v1.PodSet(template=template, pods=alike) for template, alike in sets.values()
            ],
            bound_pods=bound,
            gated_count=gated,
        )

    def _named_bases(self, gang: Gang) -> list[str]:
        labels = (pod.labels.get(BASE_POD_GANG) for pod in gang.members(self._pods))
        return sorted({name for name in labels if name})

    def _base(self, gang: Gang, lost: Counter[str]) -> tuple[str, list[str]]:
        """Resource name of the base, and why the gang must be refused for its sake."""
        names = self._bases[gang.key]
        if not names:
            return "", []
        if len(names) > 1:
            return "", [f"label {BASE_POD_GANG}: its pods name several bases: {', '.join(names)}"]
        base = self._gangs.get((gang.object.namespace, names[0]))
        if base is None:
            lost[f"{gang.object.namespace}/{names[0]}"] += 1
            return "", []
        if self._bases[base.key]:
            return "", [f"label {BASE_POD_GANG}: its base {names[0]} has a base itself"]
        return base.resource_name, []

    def _previous_nodes(self, gang: Gang) -> list[str]:
        before = self._gangs.get(gang.reuses) if gang.reuses is not None else None
        if before is None:
            return []
        return sorted({f"nodes/{pod.node}" for pod in before.members(self._pods) if pod.node})


def _rank(pod: Pod) -> int | None:
    """The index that Grove gives a pod in its clique; its name ends in random letters."""
    text = pod.labels.get(_POD_INDEX, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def _unsupported(gang: Gang, members: Iterable[Pod]) -> list[str]:
    """What the waiting pods of a gang use and cannot be honoured, each thing once."""
    result = []
    if gang.terminating:
        result.append("metadata.deletionTimestamp: the gang is being deleted")
    users: dict[str, list[Pod]] = {}
    for pod in members:
        if not gang.has_home(pod):
            users.setdefault("a pod of another namespace", []).append(pod)
        if pod.node or pod.terminating:
            continue
        for field in pod.unsupported:
            users.setdefault(field, []).append(pod)
    for field, pods in users.items():
        more = f" and {len(pods) - 1} more" if len(pods) > 1 else ""
        result.append(f"{pods[0]}{more}: {field}")
    return result
