"""Kueue's Workloads as gangs: every pod set is a group.

A Workload that has its quota already has pods of its own and is left out, and so is one that
is finished; one that is not active waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from placement.kubernetes.kueue_admission import Admission
from placement.kubernetes.kueue_flavors import Flavors, requested
from placement.kubernetes.kueue_use import has_finished, has_quota
from placement.kubernetes.label_paths import LabelPaths
from placement.kubernetes.objects import Object
from placement.kubernetes.problems import Problem
from placement.kubernetes.reading import At, Findings
from placement.kubernetes.workloads import Made, Role, note, template_of


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
    admission: Admission,
    made: Made,
    problems: list[Problem],
) -> None:
    """The Workloads that wait for quota. `local_queues` lead to their ClusterQueues.

    `flavors` say where their pods may run, `admission` whether they are let in at all.
    """
    for one in objects:
        findings: Findings = {}
        at = At(one.body, findings)
        spec = at.get("spec")
        if has_finished(at.get("status")) or has_quota(at.get("status")):
            continue
        local = spec.get("queueName").text()
        queue = local and local_queues.get((one.namespace, local), f"{one.namespace}.{local}")
        roles = []
        resources: set[str] = set()
        for entry in spec.get("podSets").items():
            count = entry.get("count").integer(1, least=0, most=100_000)
            request = entry.get("topologyRequest")
            template = template_of(entry.get("template"))
            resources |= requested(template)
            roles.append(
                Role(
                    entry.get("name").text("main") or "main",
                    flavors.restricted(template, queue),
                    count,
                    entry.get("minCount").integer(count, least=0),
                    request.get("required").text(),
                    request.get("preferred").text(),
                )
            )
        active = spec.get("active")
        priority = spec.get("priority")
        refusals = ["spec.active: false"] if not active.absent and not active.flag() else []
        if local:
            refusals += admission.refusals((one.namespace, local), queue, resources)
        made.add(
            one, at, one.name, roles,
            priority=None if priority.absent else priority.integer(least=-(2**31)),
            queue=queue,
            unsupported=refusals,
        )  # fmt: skip
        note(one, findings, problems)
