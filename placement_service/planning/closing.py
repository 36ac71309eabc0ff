"""Running pods that keep others from nodes until they leave, however much room there is.

They do so by required anti-affinity, theirs or that of who comes, as pods of another ComputeDomain,
and by host ports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from placement_service.entities.request import HOSTNAME, PodTemplate
from placement_service.formulation.arrays import Ints
from placement_service.formulation.levels import Levels
from placement_service.formulation.planning_questions import Closed, PodsOf
from placement_service.planning.leavers import Leavers


class Kind(NamedTuple):
    """Pods of one template in a namespace."""

    namespace: str
    template: PodTemplate


def closed(leavers: Leavers, demands: Sequence[Iterable[Kind]]) -> Iterator[Closed]:
    """The nodes that leavers keep from some demands, each of pods of some kinds."""
    snapshot = leavers.snapshot
    levels, rows = Levels(snapshot.columns), snapshot.columns.row_of
    may_leave = leavers.pods

    @cache
    def domains(key: str) -> tuple[Ints, list[Ints]]:
        """The domain of each node, and the nodes of each domain."""
        domain = levels[levels.index(key)].domain
        order = np.argsort(domain, kind="stable")
        cuts = np.searchsorted(domain[order], np.arange(int(domain.max(initial=-1)) + 1))
        return domain, np.split(order, cuts)[1:]

    for d, kinds in enumerate(demands):
        # By node label, domain and gang, the pods that keep the demand away.
        keepers: dict[tuple[str, int, str], set[str]] = {}
        for gang in snapshot.gangs:
            for group in gang.groups:
                for pod_set in group.pod_sets:
                    there = Kind(gang.namespace, pod_set.template)
                    pods = [p for p in pod_set.bound_pods if p.name in may_leave and p.node in rows]
                    # A unit of several kinds comes as soon as one of them may.
                    for key in _common(_keys(there, one) for one in kinds) if pods else ():
                        domain, _ = domains(key)
                        for pod in pods:
                            of = int(domain[rows[pod.node]])
                            if of >= 0:
                                keepers.setdefault((key, of, gang.name), set()).add(pod.name)
        for (key, of, _), pods_there in keepers.items():
            _, nodes = domains(key)
            by = Counter(v for pod in pods_there for v in leavers.of[pod])
            going = (PodsOf(v, min(n, leavers.leavers[v].pods)) for v, n in by.items())
            yield Closed(d, nodes[of], tuple(going), len(pods_there))


def _keys(there: Kind, coming: Kind) -> set[str]:
    """The node labels in whose domains running pods keep away pods that come."""
    mine, other = coming.template, there.template
    keys = {
        term.topology_key
        for term in mine.required_anti_affinity
        if term.matches(there.namespace, other.labels)
    }
    keys |= {
        term.topology_key
        for term in other.required_anti_affinity
        if term.matches(coming.namespace, mine.labels)
    }
    apart = len({mine.compute_domain, other.compute_domain} - {""}) > 1
    if apart or any(a.conflicts(b) for a in mine.host_ports for b in other.host_ports):
        keys.add(HOSTNAME)
    return keys


def _common(found: Iterable[set[str]]) -> set[str]:
    return set.intersection(*found)
