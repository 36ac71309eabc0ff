"""Questions like another one: whose plans it allows as well, or that allow its plans.

Nobody says which: a plan of any of them is a witness where the judge finds nothing broken.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

from placement_service.entities.eviction import Eviction, EvictionPolicy
from placement_service.entities.request import (
    HOSTNAME,
    Binding,
    Node,
    PodGang,
    PodTemplate,
    Policy,
    Snapshot,
)


class Plan(NamedTuple):
    """A plan in names."""

    bindings: tuple[Binding, ...]
    evictions: tuple[Eviction, ...]


class Variant(NamedTuple):
    """A question; `back` names what it names otherwise as the original does."""

    name: str
    snapshot: Snapshot
    policy: Policy
    back: Mapping[str, str]


Change = Callable[[random.Random, Snapshot, Policy, Plan], Variant]


def translated(thing: Any, words: Mapping[str, str]) -> Any:
    """The same with other words wherever they occur."""
    if isinstance(thing, str):
        return words.get(thing, thing)
    if is_dataclass(thing) and not isinstance(thing, type):
        found = {f.name: translated(getattr(thing, f.name), words) for f in fields(thing) if f.init}
        return type(thing)(**found)
    if isinstance(thing, tuple) and hasattr(thing, "_fields"):
        return type(thing)(*(translated(part, words) for part in thing))
    if isinstance(thing, Mapping):
        return {key: translated(value, words) for key, value in thing.items()}
    if isinstance(thing, Sequence):
        return tuple(translated(part, words) for part in thing)
    return thing


def _renamed(rng: random.Random, asked: Snapshot, policy: Policy, plan: Plan) -> Variant:
    """Nodes, gangs and their pods swap names, and all is in another order."""
    words: dict[str, str] = {}
    nodes = [node.name for node in asked.nodes]
    for old, new in zip(nodes, rng.sample(nodes, len(nodes)), strict=True):
        words[old] = new
        words[old.removeprefix("nodes/")] = new.removeprefix("nodes/")
    for k, gang in enumerate(rng.sample(asked.gangs, len(asked.gangs))):
        words[gang.name] = f"namespaces/{gang.namespace}/podgangs/x{k}"
        for group in gang.groups:
            for s in group.pod_sets:
                for pod in s.pods:
                    words[pod.name] = f"namespaces/{gang.namespace}/pods/x{len(words)}"
                for told in s.bound_pods:
                    words[told.name] = f"namespaces/{gang.namespace}/pods/x{len(words)}"
    other: Snapshot = translated(asked, words)
    other = replace(
        other,
        nodes=tuple(rng.sample(list(other.nodes), len(other.nodes))),
        gangs=tuple(rng.sample(other.gangs, len(other.gangs))),
    )
    return Variant("renamed", other, policy, {new: old for old, new in words.items()})


def _cut_out(rng: random.Random, asked: Snapshot, policy: Policy, plan: Plan) -> Variant:
    """Nothing is free but what the plan uses, on most nodes."""
    used = _used(asked, plan)
    tight = rng.choice((0.5, 1.0))

    def filled(node: Node) -> Node:
        mine = used.get(node.name, Counter())
        taken = {
            r: n - mine[r]
            for r, n in node.allocatable.items()
            if node.free(r) >= mine[r] >= 0 and rng.random() < tight
        }
        return replace(node, requested={**node.requested, **taken})

    return Variant("cut out", replace(asked, nodes=tuple(map(filled, asked.nodes))), policy, {})


def _used(asked: Snapshot, plan: Plan) -> dict[str, Counter[str]]:
    templates: dict[str, PodTemplate] = {}
    for gang in asked.gangs:
        for group in gang.groups:
            for s in group.pod_sets:
                templates |= dict.fromkeys((pod.name for pod in s.pods), s.template)
                templates |= dict.fromkeys((pod.name for pod in s.bound_pods), s.template)
    used: dict[str, Counter[str]] = {}
    for binding in plan.bindings:
        used.setdefault(binding.node, Counter()).update(templates[binding.pod].requests)
    for gone in plan.evictions:
        here = used.setdefault(gone.node, Counter())
        here.subtract(templates[gone.pod].requests)
        if gone.to_node:
            used.setdefault(gone.to_node, Counter()).update(templates[gone.pod].requests)
    return used


def _planted(rng: random.Random, asked: Snapshot, policy: Policy, plan: Plan) -> Variant:
    """As cut out, of the gangs that the plan places and no others: all have room."""
    cut = _cut_out(rng, asked, policy, plan).snapshot
    placed = {b.gang for b in plan.bindings}
    stays = [g for g in cut.gangs if g.name in placed or any(x.running_count for x in g.groups)]
    return Variant("planted", _only(cut, stays), policy, {})


def _fewer_gangs(rng: random.Random, asked: Snapshot, policy: Policy, plan: Plan) -> Variant:
    stays = [g for g in asked.gangs if rng.random() < 0.7] or list(asked.gangs)
    kept = [g for g in asked.gangs if g in stays or any(x.running_count for x in g.groups)]
    return Variant("fewer gangs", _only(asked, kept), policy, {})


def _only(asked: Snapshot, gangs: Sequence[PodGang]) -> Snapshot:
    names = {g.name for g in gangs}
    kept = (replace(g, base_gang=g.base_gang if g.base_gang in names else "") for g in gangs)
    return replace(asked, gangs=tuple(kept))


def _fewer_nodes(rng: random.Random, asked: Snapshot, policy: Policy, plan: Plan) -> Variant:
    """Some nodes that the plan does not use take nobody."""
    used = {b.node for b in plan.bindings}
    nodes = (
        replace(n, unschedulable=n.unschedulable or (n.name not in used and rng.random() < 0.5))
        for n in asked.nodes
    )
    return Variant("fewer nodes", replace(asked, nodes=tuple(nodes)), policy, {})


def _more_nodes(rng: random.Random, asked: Snapshot, policy: Policy, plan: Plan) -> Variant:
    """Some more that are like others and empty."""
    more = []
    for k, model in enumerate(rng.sample(list(asked.nodes), rng.randint(1, 3))):
        labels = {**model.labels, HOSTNAME: f"more{k}"}
        fresh = Node(f"nodes/more{k}", labels, model.allocatable)
        more.append(fresh)
    return Variant("more nodes", replace(asked, nodes=(*asked.nodes, *more)), policy, {})


def _with_fewer_rules(rng: random.Random, asked: Snapshot, policy: Policy, plan: Plan) -> Variant:
    """Some rules are gone."""
    rules = rng.sample(("levels", "queues", "held", "pods", "nodes"), 2)
    gangs = asked.gangs
    if "levels" in rules:
        scopes = [
            tuple(
                replace(s, required_level="", preferred_level=s.preferred_level or s.required_level)
                for s in g.packing_scopes
            )
            for g in gangs
        ]
        gangs = tuple(replace(g, packing_scopes=s) for g, s in zip(gangs, scopes, strict=True))

    def template(t: PodTemplate) -> PodTemplate:
        if "pods" in rules:
            t = replace(t, required_anti_affinity=(), required_affinity=(), spread_constraints=())
        if "nodes" in rules:
            t = replace(t, required_node_affinity=None, node_selector=())
        return t

    gangs = tuple(
        replace(
            g,
            groups=tuple(
                replace(
                    x,
                    pod_sets=tuple(replace(s, template=template(s.template)) for s in x.pod_sets),
                )
                for x in g.groups
            ),
        )
        for g in gangs
    )
    queues = asked.queues
    if "queues" in rules:
        queues = tuple(replace(q, limit={}) for q in queues)
    other = replace(asked, gangs=gangs, queues=queues)
    if "held" in rules and not any(
        s.template.required_reservation for g in gangs for x in g.groups for s in x.pod_sets
    ):
        other = replace(other, reservations=())
    return Variant(f"without {' and '.join(sorted(rules))}", other, policy, {})


def _still(rng: random.Random, asked: Snapshot, policy: Policy, plan: Plan) -> Variant:
    """Nothing that runs may give way, or by another policy."""
    kinds = [kind for kind in EvictionPolicy if kind is not policy.eviction]
    return Variant("other evictions", asked, replace(policy, eviction=rng.choice(kinds)), {})


def _with_hopeless_gangs(
    rng: random.Random, asked: Snapshot, policy: Policy, plan: Plan
) -> Variant:
    """Some gangs more that no node has room for."""
    models = [g for g in asked.gangs if not any(x.running_count for x in g.groups)]
    more = []
    for k, model in enumerate(rng.sample(models, min(3, len(models)))):
        words = {model.name: f"namespaces/{model.namespace}/podgangs/more{k}"}
        for group in model.groups:
            for s in group.pod_sets:
                for pod in s.pods:
                    name = f"namespaces/{model.namespace}/pods/more{k}-{len(words)}"
                    words[pod.name] = name
        gang: PodGang = translated(model, words)
        group = gang.groups[0]
        huge = tuple(
            replace(
                s,
                template=replace(
                    s.template, requests={**s.template.requests, "nvidia.com/gpu": 999}
                ),
            )
            for s in group.pod_sets
        )
        if not group.min_replicas:
            continue
        gang = replace(gang, base_gang="", groups=(replace(group, pod_sets=huge), *gang.groups[1:]))
        more.append(gang)
    return Variant("hopeless gangs", replace(asked, gangs=(*asked.gangs, *more)), policy, {})


CHANGES: Sequence[Change] = (
    _renamed,
    _cut_out,
    _planted,
    _fewer_gangs,
    _fewer_nodes,
    _more_nodes,
    _with_fewer_rules,
    _still,
    _with_hopeless_gangs,
)
