"""Grove's PodGangs: their groups, packing scopes and the pods they refer to.

Decisions where Grove leaves a choice:

- A PodGang with a status waits until its condition Initialized is True. One
  without any status was written by hand, and does not wait.
- References to pods that are not in the input, or have finished, are pods that
  are not there yet. A pod that is being deleted still holds its resources but is no longer a
  member: its replacement will be.
- A pod of another namespace is refused by name. Grove makes no such references.
- A pod belongs to one group of one gang; a second reference is a problem.
"""

from __future__ import annotations

from collections.abc import Iterable

from placement import v1
from placement.kubernetes.gangs import Gang, Group, Key
from placement.kubernetes.objects import Object, is_part_name
from placement.kubernetes.problems import Problem
from placement.kubernetes.values.reading import At, Findings
from placement.kubernetes.values.times import is_deleted, read_time


def read_pod_gangs(objects: Iterable[Object], problems: list[Problem]) -> list[Gang]:
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
        created=read_time(at.get("metadata").get("creationTimestamp")),
        initialized=_is_initialized(status),
        terminating=is_deleted(at.get("metadata")),
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
            # Without names the scope would silently cover the whole gang.
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
    # With another field name the rule would be lost: PodCliqueSets call it `pack`.
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
    told = status.condition("Initialized")
    return told == "True" if told else not status.value
