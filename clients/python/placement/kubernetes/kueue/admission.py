"""What Kueue would say to a Workload before it looks at how much quota is left.

A queue that is held admits nothing, a ClusterQueue serves the namespaces that it selects, and
it admits no pods that ask for something of which it has no quota.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from placement.kubernetes.objects import Object
from placement.kubernetes.pods.namespaces import Namespaces
from placement.kubernetes.problems import Diagnostics
from placement.kubernetes.values.reading import At, Findings
from placement.kubernetes.values.selectors import read_selector

_RUNS_ON: Final = ("", "None")


class _ClusterQueue(NamedTuple):
    """`resources` are what it has quota of, `namespaces` whom it serves, None for all."""

    held: str
    resources: frozenset[str]
    namespaces: tuple[str, ...] | None


class Admission:
    """Why Kueue would not admit a Workload, however much quota there is."""

    def __init__(
        self, cluster_queues: Mapping[str, _ClusterQueue], held_local: Mapping[tuple[str, str], str]
    ) -> None:
        self._cluster_queues = cluster_queues
        self._held_local = held_local

    def refusals(
        self, local: tuple[str, str], cluster_queue: str, resources: Iterable[str]
    ) -> list[str]:
        """What stands against it; nothing is known of queues that are not in the input."""
        result = []
        if local in self._held_local:
            result.append(f"LocalQueue {local[1]}: spec.stopPolicy {self._held_local[local]}")
        queue = self._cluster_queues.get(cluster_queue)
        if queue is None:
            return result
        name = f"ClusterQueue {cluster_queue}"
        if queue.held:
            result.append(f"{name}: spec.stopPolicy {queue.held}")
        if queue.namespaces is not None and local[0] not in queue.namespaces:
            result.append(f"{name}: spec.namespaceSelector, which leaves out {local[0]}")
        if lacking := sorted({*resources} - queue.resources - {"pods"}):
            result.append(f"{', '.join(lacking)}, of which {name} has no quota")
        return result


def read_admission(
    cluster_queues: Iterable[Object],
    local_queues: Iterable[Object],
    namespaces: Namespaces,
    diagnostics: Diagnostics,
) -> Admission:
    """`queues` reports what is wrong with quotas."""
    known = {}
    for one in cluster_queues:
        findings: Findings = {}
        spec = At(one.body, findings).get("spec")
        held = spec.get("stopPolicy").text()
        selector = read_selector(spec.get("namespaceSelector"))
        served = namespaces.matching(selector) if selector is not None else None
        if served is None:
            text = "no namespace" if selector is None else "namespaces by labels that are not known"
            where = "spec.namespaceSelector"
            diagnostics.warnings.append(one.problem(where, f"selects {text}: taken as all"))
        if spec.get("queueingStrategy").text() == "StrictFIFO":
            text = "is ignored: Workloads behind one that waits may come first"
            diagnostics.warnings.append(one.problem("spec.queueingStrategy", text))
        for field in ("admissionChecks", "admissionChecksStrategy"):
            if spec.get(field).value:
                text = "is ignored: its Workloads count as checked"
                diagnostics.warnings.append(one.problem(f"spec.{field}", text))
        diagnostics.problems += [one.problem(*finding) for finding in findings]
        resources = {
            resource.get("name").text()
            for group in At(one.body, {}).get("spec").get("resourceGroups").items()
            for flavor in group.get("flavors").items()
            for resource in flavor.get("resources").items()
        }
        known[one.name] = _ClusterQueue(
            "" if held in _RUNS_ON else held, frozenset(resources), served
        )
    local = {}
    for one in local_queues:
        findings = {}
        held = At(one.body, findings).get("spec").get("stopPolicy").text()
        diagnostics.problems += [one.problem(*finding) for finding in findings]
        if held not in _RUNS_ON:
            local[one.key] = held
    return Admission(known, local)
