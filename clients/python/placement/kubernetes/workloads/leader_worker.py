"""LeaderWorkerSets and RoleBasedGroups as gangs.

- Each replica of a LeaderWorkerSet is a gang of a leader and its workers.
- A RoleBasedGroup with the annotation for gang scheduling is one gang, with a group for each
  role; of a role of leaders and workers, with a group for each instance. Without it every
  instance of a role of leaders and workers is a gang, and every pod of other roles.
- An exclusive topology puts a gang into one domain and excludes others from it. The exclusion has
  no counterpart, and is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from placement.kubernetes.objects import Object
from placement.kubernetes.problems import Problem
from placement.kubernetes.values.reading import At
from placement.kubernetes.workloads.kueue_levels import Levels, levels_of
from placement.kubernetes.workloads.made_volumes import of_templates
from placement.kubernetes.workloads.workloads import Made, Role, Terms, template_of, without_pods

_LWS_EXCLUSIVE: Final = "leaderworkerset.sigs.k8s.io/exclusive-topology"
_LWS_LABEL: Final = "leaderworkerset.sigs.k8s.io/name"
_RBG_GANG: Final = "rbg.workloads.x-k8s.io/group-gang-scheduling"
_RBG_PRIORITY: Final = "rbg.workloads.x-k8s.io/group-gang-scheduling-volcano-priority"
_RBG_EXCLUSIVE: Final = (
    "rolebasedgroup.workloads.x-k8s.io/exclusive-topology",
    "rbg.workloads.x-k8s.io/group-exclusive-topology",
)
_RBG_LABELS: Final = (
    "rolebasedgroup.workloads.x-k8s.io/name", "rbg.workloads.x-k8s.io/group-name",
)  # fmt: skip
#: Replicas, and pods of one replica.
_MOST: Final = 100_000


def make_leader_worker_sets(
    objects: Iterable[Object], pods: Iterable[Object], made: Made, problems: list[Problem]
) -> None:
    """Every replica of every LeaderWorkerSet."""
    for one, at in without_pods(objects, pods, (_LWS_LABEL,), problems):
        spec = at.get("spec")
        inside = spec.get("leaderWorkerTemplate")
        workers = inside.get("workerTemplate")
        leader = workers if inside.get("leaderTemplate").absent else inside.get("leaderTemplate")
        size = inside.get("size").integer(1, least=1, most=_MOST)
        notes = at.get("metadata").get("annotations").labels()
        unsupported = [f"annotation {_LWS_EXCLUSIVE}"] if _LWS_EXCLUSIVE in notes else []
        if not inside.get("subGroupPolicy").absent:
            unsupported.append(inside.get("subGroupPolicy").path)
        levels = levels_of(workers)
        unsupported += levels.unsupported
        if levels.slices[0]:
            unsupported.append(levels.cut)
        first = levels if leader is workers else levels_of(leader)
        # Kueue makes one pod set without a template for leaders, else two.
        whole = leader is workers or (levels.together and levels.together == first.together)
        mine, theirs = (Levels(), Levels()) if whole else (first, levels)
        required, preferred = (levels.required, levels.preferred) if whole else ("", "")
        roles = [Role("leader", template_of(leader), 1, 1, mine.required, mine.preferred)]
        if size > 1:
            template, rest = template_of(workers), size - 1
            asked = theirs.required, theirs.preferred
            roles.append(Role("worker", template, rest, rest, *asked))
        claims = list(inside.get("volumeClaimTemplates").items())
        for replica in range(spec.get("replicas").integer(1, least=0, most=_MOST)):
            name = f"{one.name}-{replica}"
            mounted = list(_with_claims(roles, name, claims, made.has_claim(one.namespace)))
            made.add(one, at, name, mounted, Terms(required, preferred, unsupported=unsupported))


def _with_claims(
    roles: Iterable[Role], name: str, claims: Sequence[At], is_there: Callable[[str], bool]
) -> Iterator[Role]:
    """The roles of a replica: the leader has its name, and the workers are numbered behind it."""
    for role in roles:
        pod = partial(_pod_name, name, 0 if role.name == "leader" else 1)
        yield replace(role, volumes=of_templates(claims, pod, is_there))


def _pod_name(name: str, first: int, i: int) -> str:
    return f"{name}-{first + i}" if first + i else name


def make_role_based_groups(
    objects: Iterable[Object], pods: Iterable[Object], made: Made, problems: list[Problem]
) -> None:
    """Every RoleBasedGroup."""
    for one, at in without_pods(objects, pods, _RBG_LABELS, problems):
        notes = at.get("metadata").get("annotations").labels()
        unsupported = [f"annotation {key}" for key in _RBG_EXCLUSIVE if key in notes]
        templates = {
            entry.get("name").text(): entry.get("template")
            for entry in at.get("spec").get("roleTemplates").items()
        }
        instances = [
            instance
            for role in at.get("spec").get("roles").items()
            for instance in _instances(role, templates)
        ]
        terms = Terms(priority_class=notes.get(_RBG_PRIORITY, ""), unsupported=unsupported)
        if notes.get(_RBG_GANG) == "true":
            everything = [role for _, roles in instances for role in roles]
            made.add(one, at, one.name, everything, terms)
        else:
            for name, roles in instances:
                made.add(one, at, f"{one.name}-{name}", roles, terms)


def _instances(role: At, templates: Mapping[str, At]) -> list[tuple[str, list[Role]]]:
    """The instances of a role by name: what of it can run without the rest."""
    name = role.get("name").required_text()
    replicas = role.get("replicas").integer(1, least=0, most=_MOST)
    pattern = role.get("leaderWorkerPattern")
    if pattern.absent and not role.get("leaderWorkerSet").absent:
        pattern = role.get("leaderWorkerSet")
    if pattern.absent:
        alone = role.get("standalonePattern")
        template = _template(role if alone.absent else alone, templates)
        return [(f"{name}-{i}", [Role(f"{name}-{i}", template, 1, 1)]) for i in range(replicas)]
    own = role if pattern.get("template").absent and not role.get("template").absent else pattern
    template = _template(own, templates)
    size = pattern.get("size").integer(1, least=1, most=_MOST)
    leader = _patched(template, pattern, ("leaderTemplatePatch", "patchLeaderTemplate"))
    worker = _patched(template, pattern, ("workerTemplatePatch", "patchWorkerTemplate"))
    result = []
    for i in range(replicas):
        roles = [Role(f"{name}-{i}-leader", leader, 1, 1)]
        if size > 1:
            roles.append(Role(f"{name}-{i}-worker", worker, size - 1, size - 1))
        result.append((f"{name}-{i}", roles))
    return result


def _template(at: At, templates: Mapping[str, At]) -> Mapping[str, Any]:
    """The pod template of a role: its own, or one that it names, with its patch."""
    reference = at.get("templateRef")
    if reference.absent:
        return template_of(at.get("template"))
    name = reference.get("name").required_text()
    if name not in templates:
        reference.get("name").problem(f"there is no role template {name}")
        return {}
    return _patched(template_of(templates[name]), reference, ("patch",))


def _patched(template: Mapping[str, Any], at: At, fields: tuple[str, ...]) -> Mapping[str, Any]:
    for field in fields:
        patch = at.get(field).value
        if isinstance(patch, dict):
            template = _merged(template, patch)
    return template


def _merged(one: Any, patch: Any) -> Any:
    """A strategic merge: mappings by key, lists of named things by name, all else replaced."""
    if isinstance(one, dict) and isinstance(patch, dict):
        return {**one, **{k: _merged(one.get(k), v) for k, v in patch.items()}}
    if isinstance(one, list) and isinstance(patch, list) and _are_named(one) and _are_named(patch):
        by_name = {e["name"]: e for e in one}
        for entry in patch:
            by_name[entry["name"]] = _merged(by_name.get(entry["name"]), entry)
        return list(by_name.values())
    return patch


def _are_named(values: list[Any]) -> bool:
    return all(isinstance(v, dict) and isinstance(v.get("name"), str) for v in values)
