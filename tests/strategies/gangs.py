"""Gangs: their groups, their packing scopes, and sets of them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from placement_service.entities.request import (
    HOSTNAME,
    BoundPod,
    Node,
    PackingScope,
    Pod,
    PodGang,
    PodGroup,
    PodSet,
)
from tests.strategies.pods import templates
from tests.strategies.words import AGES, NAMESPACE, NOW, Feature, Size, rarely


@st.composite
def gangs_of(
    draw: st.DrawFn,
    index: int,
    size: Size,
    features: frozenset[Feature],
    nodes: tuple[Node, ...],
    pods_left: int,
) -> PodGang:
    """A gang with up to `pods_left` pending pods."""
    name = f"g{index}"
    groups: list[PodGroup] = []
    for k in range(draw(st.integers(1, size.groups))):
        group = draw(groups_of(f"{name}-{k}", pods_left, features, nodes))
        pods_left -= group.pending_count
        groups.append(group)
    previous: tuple[str, ...] = ()
    if Feature.PREVIOUS_NODES in features:
        homes = [node.name for node in nodes] + ["nodes/gone"]
        previous = tuple(draw(st.lists(st.sampled_from(homes), max_size=2)))
    return PodGang(
        name=f"namespaces/{NAMESPACE}/podgangs/{name}",
        groups=tuple(groups),
        priority=draw(st.integers(0, 2)) if Feature.PRIORITIES in features else 0,
        packing_scopes=draw(scopes_of([g.name for g in groups], features)),
        uninitialized=Feature.NODE_RULES in features and draw(rarely),
        previous_nodes=previous,
        created=NOW - draw(st.sampled_from(AGES)) if Feature.AGES in features else None,
        unsupported=("pod: spec.magic",) if Feature.NODE_RULES in features and draw(rarely) else (),
    )


@st.composite
def groups_of(
    draw: st.DrawFn, prefix: str, most: int, features: frozenset[Feature], nodes: tuple[Node, ...]
) -> PodGroup:
    """A group whose minimum may be above, below or at what there is."""
    count = draw(st.integers(0, min(most, 4)))
    pods = tuple(Pod(f"namespaces/{NAMESPACE}/pods/{prefix}-{i}") for i in range(count))
    split = draw(st.integers(0, count)) if Feature.MIXED_SETS in features else count
    pod_sets = tuple(
        PodSet(draw(templates(features)), part) for part in (pods[:split], pods[split:]) if part
    )
    if Feature.TOLD in features and draw(st.booleans()):
        pod_sets = draw(_told(prefix, pod_sets, features, nodes))
    bound: tuple[BoundPod, ...] = ()
    if Feature.RUNNING in features:
        homes = [node.name for node in nodes] + ["nodes/gone"]
        where = draw(st.lists(st.sampled_from(homes), max_size=2)) if draw(st.booleans()) else []
        bound = tuple(
            BoundPod(f"namespaces/{NAMESPACE}/pods/{prefix}-bound-{i}", node)
            for i, node in enumerate(where)
        )
    total = count + len(bound) + sum(len(s.bound_pods) for s in pod_sets)
    minimum = draw(st.one_of(st.just(total), st.integers(0, total), st.integers(0, total + 1)))
    return PodGroup(prefix, minimum, pod_sets, bound)


@st.composite
def _told(
    draw: st.DrawFn,
    prefix: str,
    pod_sets: tuple[PodSet, ...],
    features: frozenset[Feature],
    nodes: tuple[Node, ...],
) -> tuple[PodSet, ...]:
    """Pods that run and whose template is told: of a set that waits, or of their own."""
    homes = draw(st.lists(st.sampled_from([n.name for n in nodes]), min_size=1, max_size=3))
    told = tuple(
        BoundPod(f"namespaces/{NAMESPACE}/pods/{prefix}-told-{i}", node)
        for i, node in enumerate(homes)
    )
    joined = draw(st.booleans())
    if pod_sets and joined:
        return (replace(pod_sets[0], bound_pods=told), *pod_sets[1:])
    return (*pod_sets, PodSet(draw(templates(features)), (), told))


@st.composite
def scopes_of(
    draw: st.DrawFn, groups: list[str], features: frozenset[Feature]
) -> tuple[PackingScope, ...]:
    """Scopes over the gang, over single groups and, with OVERLAPS, over any groups."""
    levels = st.sampled_from(["", "rack", "block", HOSTNAME])
    covered = [tuple(groups), *((group,) for group in groups)]
    if Feature.OVERLAPS in features:
        covered.append(tuple(draw(st.lists(st.sampled_from(groups), min_size=1, unique=True))))
    scopes = []
    for index, cover in enumerate(covered):
        required, preferred = draw(levels), draw(levels)
        # Half of the scopes ask for nothing, or contradictions would be the rule.
        if (required or preferred) and draw(st.booleans()):
            scopes.append(PackingScope(f"s{index}", cover, required, preferred))
    return tuple(scopes)


def with_bases(gangs: list[PodGang], scaled: set[int]) -> list[PodGang]:
    """Let some gangs be based on the first one."""
    return [
        replace(gang, base_gang=gangs[0].name) if index in scaled else gang
        for index, gang in enumerate(gangs)
    ]
