"""Kueue's Workloads as gangs: every pod set is a group.

A Workload that has its quota already has pods of its own and is left out, and so is one that
is finished; one that is not active waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from placement.kubernetes.kueue_flavors import Flavors
from placement.kubernetes.label_paths import LabelPaths
from placement.kubernetes.objects import Object
from placement.kubernetes.problems import Problem
from placement.kubernetes.reading import At, Findings
from placement.kubernetes.workloads import Made, Role, note, template_of

_HAS_PODS: Final = ("QuotaReserved", "Admitted", "Finished")


def levels_in(topologies: Mapping[str, Sequence[str]], paths: LabelPaths) -> Callable[[str], str]:
    """A function from a level to the node label of its domains, which Kueue distinguishes by path.

    The first Topology that has the level counts; without one its own label says it all.
    """

    def key(level: str) -> str:
        for name, levels in sorted(topologies.items()):
            if level in levels:
                return paths.key(name, levels, level)
        return level

    return key


def make_kueue_workloads(
    objects: Iterable[Object],
    local_queues: Mapping[tuple[str, str], str],
    flavors: Flavors,
    made: Made,
    problems: list[Problem],
) -> None:
    """The Workloads that wait for quota. `local_queues` lead to their ClusterQueues.

    `flavors` say where their pods may run.
    """
    for one in objects:
        findings: Findings = {}
        at = At(one.body, findings)
        spec = at.get("spec")
        if _has_pods(at.get("status")):
            continue
        local = spec.get("queueName").text()
        queue = local and local_queues.get((one.namespace, local), f"{one.namespace}.{local}")
        roles = []
        for entry in spec.get("podSets").items():
            count = entry.get("count").integer(1, least=0, most=100_000)
            request = entry.get("topologyRequest")
            roles.append(
                Role(
                    entry.get("name").text("main") or "main",
                    flavors.restricted(template_of(entry.get("template")), queue),
                    count,
                    entry.get("minCount").integer(count, least=0),
                    request.get("required").text(),
                    request.get("preferred").text(),
                )
            )
        active = spec.get("active")
        priority = spec.get("priority")
        made.add(
            one, at, one.name, roles,
            priority=None if priority.absent else priority.integer(least=-(2**31)),
            queue=queue,
            unsupported=["spec.active: false"] if not active.absent and not active.flag() else [],
        )  # fmt: skip
        note(one, findings, problems)


def _has_pods(status: At) -> bool:
    return any(
        condition.get("type").text() in _HAS_PODS and condition.get("status").text() == "True"
        for condition in status.get("conditions").items()
    )
