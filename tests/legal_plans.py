"""Plans that break no rule, made by chance and `verify`, without the engine."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from placement_service.entities.naming.reservation_users import use_reservations
from placement_service.entities.request import (
    Binding,
    Node,
    PodGang,
    PodTemplate,
    Policy,
    Snapshot,
)
from placement_service.judge.verify import verify

#: Draws for a place of one gang.
TRIES = 8


def legal_plan(rng: random.Random, snapshot: Snapshot) -> tuple[Binding, ...]:
    """A plan that breaks no rule, of gangs in random order at random places."""
    plan: tuple[Binding, ...] = ()
    waiting: tuple[Binding, ...] = ()
    order = list(snapshot.gangs)
    rng.shuffle(order)
    # Mostly bases first; a gang whose base is not there only counts together with it.
    if rng.random() < 0.8:
        order.sort(key=lambda gang: bool(gang.base_gang))

    def broken(*bindings: Binding) -> bool:
        return bool(verify(snapshot, Policy(), use_reservations(snapshot, bindings)))

    for gang in order:
        for _ in range(TRIES):
            mine = _somewhere(rng, snapshot, gang, (*plan, *waiting))
            if not mine:
                continue
            if not broken(*plan, *mine):
                plan += mine
                break
            if waiting and not broken(*plan, *waiting, *mine):
                plan, waiting = (*plan, *waiting, *mine), ()
                break
        else:
            waiting = waiting or mine
    return plan


def _somewhere(
    rng: random.Random, snapshot: Snapshot, gang: PodGang, plan: Sequence[Binding]
) -> tuple[Binding, ...]:
    """Bindings of a gang's minimum and some extras, or none where chance finds no room.

    Looks at resources, single nodes and required scopes; the rest is for `verify`.
    """
    templates = {
        pod.name: s.template
        for other in snapshot.gangs
        for g in other.groups
        for s in g.pod_sets
        for pod in s.pods
    }
    used: dict[str, Counter[str]] = {node.name: Counter() for node in snapshot.nodes}
    for binding in plan:
        used[binding.node].update(templates[binding.pod].requests)
    able = _domains(rng, snapshot, gang)
    homes = {*gang.previous_nodes, *(p.node for g in gang.groups for p in g.running_pods)}
    home = rng.choice([n for n in snapshot.nodes if n.name in homes] or snapshot.nodes)
    close = rng.random() < 0.7
    share = rng.choice((0.0, 0.5, 1.0))
    found: list[Binding] = []
    for group in gang.groups:
        pods = [(pod, s.template) for s in group.pod_sets for pod in s.pods]
        rng.shuffle(pods)
        missing = group.missing
        nodes = [node for node in snapshot.nodes if node.name in able[group.name]]
        rng.shuffle(nodes)
        if close:
            nodes.sort(key=lambda node: -len(node.labels.items() & home.labels.items()))
        for i, (pod, template) in enumerate(pods):
            if i >= group.missing and rng.random() >= share:
                continue
            if not close:
                rng.shuffle(nodes)
            node = next((n for n in nodes if _fits(n, template, used[n.name])), None)
            if node is not None:
                missing -= 1
                used[node.name].update(template.requests)
                found.append(Binding(pod.name, node.name, gang.name, group.name, pod.uid))
        if missing > 0:
            return ()
    return tuple(found)


def _domains(rng: random.Random, snapshot: Snapshot, gang: PodGang) -> dict[str, set[str]]:
    """The nodes that random domains for the required scopes leave to each group."""
    able = {group.name: {node.name for node in snapshot.nodes} for group in gang.groups}
    bound = {g.name: {p.node for p in g.running_pods} for g in gang.groups}
    for scope in sorted(gang.packing_scopes, key=lambda s: -len(s.groups)):
        if not scope.required_level:
            continue
        running = {name for g in scope.groups for name in bound[g]}
        level = {n.name: n.labels.get(scope.required_level) for n in snapshot.nodes}
        common = set.intersection(*(able[g] for g in scope.groups))
        values = sorted({v for n in running or common if (v := level.get(n)) is not None})
        domain = rng.choice(values) if values else None
        inside = {n for n, v in level.items() if v is not None and v == domain}
        for g in scope.groups:
            able[g] &= inside
    return able


def _fits(node: Node, template: PodTemplate, used: Counter[str]) -> bool:
    return (
        node.ready
        and not node.unschedulable
        and template.selects(node)
        and template.tolerates(node)
        and all(used[r] + amount <= node.free(r) for r, amount in template.requests.items())
    )
