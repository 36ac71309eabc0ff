"""The cluster at one moment, as the cycle and all that it calls see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.cluster.gang_state import Body, GangState, Key
from placement.resources import Resource


@dataclass(frozen=True, slots=True, eq=False)
class ClusterView:
    """The cluster at one moment, assumed bindings included. Nothing in it may be changed.

    `revision` grows with every change; `freed` with every change after which something may
    fit that did not before. `node_revisions` says for each node at which revision somebody else
    last changed it so that it may have less room: the node changed, or got a pod. `unreferenced`
    are pods of ours that could be bound if a PodGang referred to them. `vacated_nodes` are the
    nodes that pods of a gang ran on and have left, or are about to leave: the last ones, at most as
    many as the gang has pods. `others` are objects of other kinds that plans depend on: queues,
    reservations, disruption budgets, gangs of other kinds. `gangs` also has the PodGangs that stand
    for gangs of other kinds (see `cluster.gangs.others`).
    """

    revision: int
    freed: int
    node_revisions: Mapping[str, int]
    nodes: Mapping[Key, Body]
    pods: Mapping[Key, Body]
    gangs: Mapping[Key, Body]
    priority_classes: Mapping[Key, Body]
    topology_bindings: Mapping[Key, Body]
    states: Mapping[Key, GangState]
    unreferenced: frozenset[Key]
    vacated_nodes: Mapping[Key, tuple[str, ...]]
    others: Mapping[Resource, Mapping[Key, Body]] = field(default_factory=dict)
