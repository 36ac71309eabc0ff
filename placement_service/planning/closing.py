"""Running pods that keep others from nodes until they leave, however much room there is.

They do so by required anti-affinity, theirs or that of who comes, as pods of another ComputeDomain,
and by host ports.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


class _Staying(NamedTuple):
    """Pods of one kind and gang that may leave, and where they run: rows of nodes."""

    gang: str
    kind: Kind
    rows: Mapping[str, int]


def closed(leavers: Leavers, demands: Sequence[Iterable[Kind]]) -> Iterator[Closed]:
    """The nodes that leavers keep from some demands, each of pods of some kinds."""
    levels = Levels(leavers.snapshot.columns)
    staying = tuple(_staying(leavers))

    @cache
    def domains(key: str) -> tuple[Ints, list[Ints]]:
        """The domain of each node, and the nodes of each domain."""
        domain = levels[levels.index(key)].domain
        order = np.argsort(domain, kind="stable")
        cuts = np.searchsorted(domain[order], np.arange(int(domain.max(initial=-1)) + 1))
        return domain, np.split(order, cuts)[1:]

    for d, kinds in enumerate(demands):
        # By node label, domain and gang, the pods that keep the demand away.
        keepers: defaultdict[tuple[str, int, str], set[str]] = defaultdict(set)
        for there in staying:
            # A unit of several kinds comes as soon as one of them may.
            for key in set.intersection(*(_keys(there.kind, one) for one in kinds)):
                domain, _ = domains(key)
                for pod, row in there.rows.items():
                    keepers[key, int(domain[row]), there.gang].add(pod)
        for (key, of, _), pods in keepers.items():
            if of >= 0:
                _, nodes = domains(key)
                by = Counter(v for pod in pods for v in leavers.of[pod])
                going = (PodsOf(v, min(n, leavers.leavers[v].pods)) for v, n in by.items())
                yield Closed(d, nodes[of], tuple(going), len(pods))


def _staying(leavers: Leavers) -> Iterator[_Staying]:
    row_of, may_leave = leavers.snapshot.columns.row_of, leavers.pods
    for gang in leavers.snapshot.gangs:
        for group in gang.groups:
            for s in group.pod_sets:
                running = (p for p in s.bound_pods if p.name in may_leave and p.node in row_of)
                rows = {pod.name: row_of[pod.node] for pod in running}
                if rows:
                    yield _Staying(gang.name, Kind(gang.namespace, s.template), rows)


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
