"""Workloads of other controllers as the gangs and pods that they stand for.

So a manifest can be planned before it is applied. A workload whose pods are in the input
already is left to them. Each kind has a reader beside this module; what they share is here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from placement import v1
from placement.kubernetes.gangs import Gang, Group, Key
from placement.kubernetes.objects import POD, Object
from placement.kubernetes.problems import Problem
from placement.kubernetes.values.reading import At, Finding, Findings
from placement.kubernetes.values.times import read_time
from placement.kubernetes.workloads.made_volumes import Volume, with_volumes

#: Kueue's label of a workload that says how urgent it is.
_PRIORITY: Final = "kueue.x-k8s.io/priority-class"
#: More pods of one workload are a typing error, and would fill the memory.
_MOST_PODS: Final = 200_000


@dataclass(frozen=True, slots=True, eq=False)
class Role:
    """Alike pods of a workload: a group of the gang.

    `template` is a pod template as parsed, `count` how many there are, of which `minimum` must
    run. `required` and `preferred` are levels for the pods of the role, or of all roles with the
    same `scope` together; `alone` is a required level for those of the role itself. `volumes` are
    those that its i-th pod has besides.
    """

    name: str
    template: Mapping[str, Any]
    count: int
    minimum: int
    required: str = ""
    preferred: str = ""
    scope: str = ""
    alone: str = ""
    volumes: Callable[[int], Sequence[Volume]] | None = None

    def pod(self, i: int) -> Mapping[str, Any]:
        """The template of its i-th pod."""
        return (
            self.template if self.volumes is None else with_volumes(self.template, self.volumes(i))
        )


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """What a workload says of its whole gang.

    `required` and `preferred` are levels for all its pods; `priority` comes before the value of
    `priority_class`. `unsupported` names what cannot be honoured. With `together` the pods of all
    roles are one group, of which so many must run.
    """

    required: str = ""
    preferred: str = ""
    priority_class: str = ""
    priority: int | None = None
    queue: str = ""
    unsupported: Sequence[str] = ()
    preemptible: bool | None = None
    together: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """The gangs of workloads, and pods for them.

    `level` is the node label for a level that Kueue's words name, a label itself; `claims` are the
    claims of volumes that there are, and `priorities` the values of Kueue's classes.
    """

    level: Callable[[str], str] = lambda key: key
    claims: Collection[Key] = ()
    priorities: Mapping[str, int] = field(default_factory=dict)
    warnings: list[Problem] = field(default_factory=list)
    gangs: list[Gang] = field(default_factory=list)
    pods: list[Object] = field(default_factory=list)

    def add(
        self,
        one: Object,
        at: At,
        name: str,
        roles: Sequence[Role],
        terms: Terms = Terms(),
    ) -> None:
        """Adds the gang `name` of a workload: `one`, read at `at`."""
        if sum(role.count for role in roles) > _MOST_PODS:
            at.get("spec").problem(f"makes more than {_MOST_PODS:,} pods")
            return
        metadata = at.get("metadata")
        scopes = [_scope(name, (), terms.required, terms.preferred)]
        groups = []
        everybody: list[tuple[str, str]] = []
        for role in roles:
            pods = [_pod(one, f"{name}-{role.name}-{i}", role.pod(i)) for i in range(role.count)]
            self.pods.extend(pods)
            everybody += (pod.key for pod in pods)
            groups.append(Group(role.name, role.minimum, tuple(pod.key for pod in pods)))
        if terms.together is None:
            scopes += self._scopes(roles)
        else:
            groups = [Group("pods", terms.together, tuple(everybody))]
        labels = metadata.get("labels").labels()
        priority = terms.priority
        if priority is None and labels.get(_PRIORITY):
            priority = self._priority(one, labels[_PRIORITY])
        body = {"metadata": {"labels": labels, "annotations": metadata.get("annotations").labels()}}
        made = Object(one.kind, one.namespace, name, body, one.file, one.document, one)
        self.gangs.append(
            Gang(
                object=made,
                groups=tuple(groups),
                scopes=tuple(scope for scope in scopes if scope is not None),
                priority_class=terms.priority_class,
                priority=priority,
                queue=terms.queue,
                preemptible=terms.preemptible,
                created=read_time(metadata.get("creationTimestamp")),
                unsupported=tuple(terms.unsupported),
            )
        )

    def _priority(self, one: Object, name: str) -> int | None:
        """The value of a class of Kueue, for which the priority of the pods does not count."""
        if name not in self.priorities:
            text = f"WorkloadPriorityClass {name} is not in the input: that of its pods counts"
            self.warnings.append(one.problem(f"metadata.labels[{_PRIORITY}]", text))
        return self.priorities.get(name)

    def has_claim(self, namespace: str) -> Callable[[str], bool]:
        """Whether there is a claim of a name in a namespace."""
        return lambda name: (namespace, name) in self.claims

    def _scopes(self, roles: Sequence[Role]) -> Iterator[v1.PackingScope | None]:
        shared: dict[str, list[Role]] = {}
        for role in roles:
            shared.setdefault(role.scope or role.name, []).append(role)
        for name, several in shared.items():
            groups = tuple(role.name for role in several)
            levels = self.level(several[0].required), self.level(several[0].preferred)
            yield _scope(name, groups, *levels)
        for role in roles:
            yield _scope(role.name, (role.name,), self.level(role.alone), "")


def template_of(at: At) -> Mapping[str, Any]:
    """A pod template; noted when it has no spec."""
    if not isinstance(at.get("spec").value, dict):
        at.get("spec").problem("is missing")
        return {}
    return dict(at.value)


class Workload(NamedTuple):
    """An object, and its body to be read."""

    object: Object
    at: At


def without_pods(
    objects: Iterable[Object],
    pods: Iterable[Object],
    labels: Sequence[str],
    problems: list[Problem],
) -> Iterator[Workload]:
    """The workloads that have no pods in the input yet.

    Pods name theirs by one of the labels or by owner references. What is found wrong with a
    workload while it is read is noted as a problem.
    """
    owners = _owners_of(pods, labels)
    for one in objects:
        if one.key in owners:
            continue
        findings: Findings = {}
        yield Workload(one, At(one.body, findings))
        note(one, findings, problems)


def _owners_of(pods: Iterable[Object], labels: Sequence[str]) -> set[Key]:
    """Namespace and name of the workloads that pods of the input belong to."""
    found = set()
    for pod in pods:
        metadata = At(pod.body, {}).get("metadata")
        told = metadata.get("labels").labels()
        found |= {(pod.namespace, told[label]) for label in labels if label in told}
        for owner in metadata.get("ownerReferences").items():
            found.add((pod.namespace, owner.get("name").text()))
    return found


def note(one: Object, findings: Iterable[Finding], problems: list[Problem]) -> None:
    """Notes what was found wrong with an object."""
    problems += [one.problem(*finding) for finding in findings]


def _scope(
    name: str, groups: tuple[str, ...], required: str, preferred: str
) -> v1.PackingScope | None:
    if not (required or preferred):
        return None
    return v1.PackingScope(
        name=name, groups=groups, required_level=required, preferred_level=preferred
    )


def _pod(one: Object, name: str, template: Mapping[str, Any]) -> Object:
    told = template.get("metadata")
    kept = {f: told[f] for f in ("labels", "annotations") if f in told} if isinstance(
        told, dict) else {}  # fmt: skip
    body = {
        "apiVersion": "v1",
        "kind": POD,
        "metadata": {**kept, "name": name, "namespace": one.namespace},
        "spec": template.get("spec"),
    }
    return Object(POD, one.namespace, name, body, one.file, one.document, one)
