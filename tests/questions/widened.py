"""Random questions made wider: what the strategies do not draw, each in a part of the questions.

It is added after a question is drawn, so questions that were drawn before stay as they were.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from placement_service.entities.queues import GPUS, Amounts, Queue
from placement_service.entities.request import (
    CPU,
    EPHEMERAL_STORAGE,
    HOSTNAME,
    MEMORY,
    MIG,
    PackingScope,
    PodSet,
    Policy,
    Snapshot,
)
from tests.strategies.words import GPU, NOW, with_sets

NIC = "claims.resource.k8s.io/nic"
FAST = f"{NIC}.fast"

Change = Callable[[random.Random, Snapshot], Snapshot]


def widened(chance: random.Random, snapshot: Snapshot, policy: Policy) -> tuple[Snapshot, Policy]:
    """The question with some more of what may occur."""
    for change in CHANGES:
        if chance.random() < 0.25:
            snapshot = change(chance, snapshot)
    if chance.random() < 0.1:
        policy = replace(policy, deterministic=True)
    return snapshot, policy


def _with_held_devices(chance: random.Random, snapshot: Snapshot) -> Snapshot:
    """Reservations hold some free devices of their nodes, as many as they hold GPUs."""
    taken: dict[str, set[int]] = {}
    found = []
    nodes = {node.name: node for node in snapshot.nodes}
    for reservation in snapshot.reservations:
        node = nodes.get(reservation.node)
        count = reservation.held.get(GPU, 0)
        free = [
            d.index
            for d in (node.devices if node else ())
            if d.healthy
            and not (d.used_milli or d.used_memory_milli)
            and d.index not in taken.get(reservation.node, ())
        ]
        if 0 < count <= len(free):
            mine = tuple(sorted(chance.sample(free, count)))
            taken.setdefault(reservation.node, set()).update(mine)
            reservation = replace(reservation, devices=mine)
        found.append(reservation)
    return replace(snapshot, reservations=tuple(found))


def _with_slices(chance: random.Random, snapshot: Snapshot) -> Snapshot:
    """Some pods that wait ask for slices of GPUs, and nodes have some."""
    slices = f"{MIG}2g.10gb"

    def asks(s: PodSet) -> PodSet:
        t = s.template
        listed = t.device_share is not None or t.required_partition or t.same_pcie_nics
        if s.bound_pods or listed or chance.random() < 0.6:
            return s
        requests = {r: n for r, n in s.template.requests.items() if r != GPU}
        template = replace(s.template, requests={**requests, slices: chance.randint(1, 2)})
        return replace(s, template=template)

    nodes = tuple(
        replace(node, allocatable={**node.allocatable, slices: chance.choice((0, 1, 3))})
        for node in snapshot.nodes
    )
    return replace(snapshot, nodes=nodes, gangs=with_sets(snapshot, asks))


def _with_other_resources(chance: random.Random, snapshot: Snapshot) -> Snapshot:
    """Some pods ask for storage or memory, which some nodes say nothing of."""
    asked = chance.choice((EPHEMERAL_STORAGE, MEMORY))
    used: dict[str, int] = {}

    def asks(s: PodSet) -> PodSet:
        if chance.random() < 0.5:
            return s
        amount = chance.randint(1, 4)
        for pod in s.bound_pods:
            used[pod.node] = used.get(pod.node, 0) + amount
        requests = {**s.template.requests, asked: amount}
        return replace(s, template=replace(s.template, requests=requests))

    gangs = with_sets(snapshot, asks)
    nodes = []
    for node in snapshot.nodes:
        has = node.allocatable.get(asked, 0) + chance.choice((0, 4, 8))
        mine = node.requested.get(asked, 0) + used.get(node.name, 0)
        if asked == EPHEMERAL_STORAGE and chance.random() < 0.3:
            has = 0
        elif has < mine:
            has = mine
        nodes.append(
            replace(
                node,
                allocatable={**node.allocatable, asked: has},
                requested={**node.requested, asked: mine},
            )
        )
    return replace(snapshot, nodes=tuple(nodes), gangs=gangs)


def _with_a_forest(chance: random.Random, snapshot: Snapshot) -> Snapshot:
    """Two trees of three levels, with limits and guarantees of GPUs and CPU at each."""

    def amounts(*most: int) -> Amounts:
        every = {GPUS: chance.choice(most), CPU: chance.choice((2, 6, 12))}
        return {r: n for r, n in every.items() if chance.random() < (0.7 if r == GPUS else 0.2)}

    queues: list[Queue] = []
    leaves: list[str] = []
    for tree in "ab":
        top, middle = f"queues/{tree}", f"queues/{tree}m"
        shape = [(top, ""), (middle, top), *((f"{middle}{k}", middle) for k in range(2))]
        for name, parent in shape:
            limit = amounts(4, 8, 12) if chance.random() < 0.4 else {}
            queue = Queue(name, parent, limit=limit, guaranteed=amounts(0, 2, 4, 6, 8))
            safe = chance.choice((60, 200)) if chance.random() < 0.15 else 0
            queues.append(
                replace(
                    queue,
                    not_reclaimable=chance.random() < 0.15,
                    minimum_run_time_before_reclaim=safe,
                    kept=amounts(1, 2, 4) if chance.random() < 0.25 else {},
                )
            )
        leaves += [top, f"{middle}0", f"{middle}1"]
    gangs = tuple(
        replace(gang, queue=chance.choice(leaves), not_preemptible=chance.random() < 0.1)
        for gang in snapshot.gangs
    )
    return replace(snapshot, queues=tuple(queues), gangs=gangs)


def _with_previous_nodes(chance: random.Random, snapshot: Snapshot) -> Snapshot:
    names = [*(node.name for node in snapshot.nodes), "nodes/gone"]
    gangs = (
        replace(gang, previous_nodes=tuple(chance.choices(names, k=chance.randint(1, 2))))
        if chance.random() < 0.5
        else gang
        for gang in snapshot.gangs
    )
    return replace(snapshot, gangs=tuple(gangs))


def _with_run_times(chance: random.Random, snapshot: Snapshot) -> Snapshot:
    """Each minimum of a time to run is over or not, by itself."""
    gangs = (
        replace(
            gang,
            start=NOW - chance.choice((10, 100)),
            minimum_run_time=chance.choice((0, 0, 60)),
            minimum_run_time_before_reclaim=chance.choice((0, 0, 60)),
        )
        if any(group.running_count for group in gang.groups)
        else gang
        for gang in snapshot.gangs
    )
    return replace(snapshot, gangs=tuple(gangs), as_of=NOW)


def _without_some_labels(chance: random.Random, snapshot: Snapshot) -> Snapshot:
    """A node lacks the labels of its levels, and another one has those of other domains."""
    nodes = list(snapshot.nodes)
    bare = chance.randrange(len(nodes))
    nodes[bare] = replace(nodes[bare], labels={HOSTNAME: nodes[bare].short_name})
    moved = chance.randrange(len(nodes))
    labels = {**nodes[moved].labels, "block": f"b{chance.randint(0, 1)}"}
    nodes[moved] = replace(nodes[moved], labels=labels)
    return replace(snapshot, nodes=tuple(nodes))


def _with_scopes_of_groups(chance: random.Random, snapshot: Snapshot) -> Snapshot:
    """A gang has a scope for each group inside one of all, each with both kinds of levels."""
    levels = ("", HOSTNAME, "rack", "block")
    gangs = []
    for gang in snapshot.gangs:
        if chance.random() < 0.5:
            covers = [tuple(g.name for g in gang.groups), *((g.name,) for g in gang.groups)]
            scopes = (
                PackingScope(
                    f"s{i}", cover, chance.choice(("", "", *levels)), chance.choice(levels)
                )
                for i, cover in enumerate(covers)
            )
            gang = replace(
                gang,
                packing_scopes=tuple(s for s in scopes if s.required_level or s.preferred_level),
            )
        gangs.append(gang)
    return replace(snapshot, gangs=tuple(gangs))


def _with_claims(chance: random.Random, snapshot: Snapshot) -> Snapshot:
    """Pods ask for one of the network devices, some for a fast one, and others hold one of these.

    Now and then a pod holds less than it asks for.
    """
    used: dict[str, dict[str, int]] = {node.name: {} for node in snapshot.nodes}

    def asks(s: PodSet) -> PodSet:
        if chance.random() < 0.3:
            return s
        fast = chance.random() < (0.2 if s.bound_pods else 0.6)
        asked = {NIC: 1, FAST: 1} if fast else {NIC: 1}
        requests = {**s.template.requests, **asked}
        pods = []
        for pod in s.bound_pods:
            has = asked
            if chance.random() < 0.6:
                has = chance.choice(({NIC: 1, FAST: 1}, {NIC: 1}, {FAST: 1}))
                pod = replace(pod, held={**s.template.requests, **has})
            here = used.setdefault(pod.node, {})
            for resource, amount in has.items():
                here[resource] = here.get(resource, 0) + amount
            pods.append(pod)
        template = replace(s.template, requests=requests)
        return replace(s, template=template, bound_pods=tuple(pods))

    gangs = with_sets(snapshot, asks)
    nodes = []
    for node in snapshot.nodes:
        here = used[node.name]
        fast = here.get(FAST, 0) + chance.choice((0, 0, 1, 2))
        has = {FAST: fast, NIC: max(fast, here.get(NIC, 0)) + chance.choice((0, 0, 1))}
        nodes.append(
            replace(
                node,
                allocatable={**node.allocatable, **has},
                requested={**node.requested, **here},
            )
        )
    return replace(snapshot, nodes=tuple(nodes), gangs=gangs)


def _with_odd_reservations(chance: random.Random, snapshot: Snapshot) -> Snapshot:
    """Some reservations hold more than is there, and some have used up what they restrict."""
    found = []
    for reservation in snapshot.reservations:
        held = dict(reservation.held)
        if chance.random() < 0.4:
            held = {r: amount + chance.randint(1, 6) for r, amount in held.items()}
        if chance.random() < 0.3:
            held[chance.choice((GPU, CPU))] = 0
            reservation = replace(reservation, restricted=True)
        found.append(replace(reservation, held=held))
    return replace(snapshot, reservations=tuple(found))


CHANGES: Sequence[Change] = (
    _with_held_devices,
    _with_slices,
    _with_other_resources,
    _with_a_forest,
    _with_previous_nodes,
    _with_run_times,
    _without_some_labels,
    _with_scopes_of_groups,
    _with_claims,
    _with_odd_reservations,
)
