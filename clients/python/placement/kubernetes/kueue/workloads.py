"""Kueue's Workloads as gangs: every pod set is a group.

A Workload that has its quota already has pods of its own and is left out, and so is one that
is finished; one that is not active waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from placement.kubernetes.kueue.flavor_choice import Choice, Chooser, PodSet, free_gpus, order
from placement.kubernetes.kueue.flavors import requested
from placement.kubernetes.kueue.kueue import Kueue
from placement.kubernetes.kueue.quota_use import has_finished, has_quota
from placement.kubernetes.nodes.label_paths import LabelPaths
from placement.kubernetes.objects import Object, Objects
from placement.kubernetes.problems import Diagnostics
from placement.kubernetes.schema import kinds
from placement.kubernetes.values.reading import At, Findings
from placement.kubernetes.workloads.kueue_levels import levels_in, roles_of
from placement.kubernetes.workloads.workloads import Made, Role, Terms, note, template_of


def level_labels(
    topologies: Mapping[str, Sequence[str]], paths: LabelPaths
) -> Callable[[str], str]:
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
    objects: Objects,
    kueue: Kueue,
    made: Made,
    diagnostics: Diagnostics,
) -> None:
    """The Workloads that wait for quota."""
    workloads = objects.of_kind(kinds.KUEUE_WORKLOADS)
    if not workloads:
        return
    gpus = free_gpus(kueue.flavors, objects.nodes, objects.pods)
    chooser = Chooser(kueue.queues, kueue.flavors, workloads, gpus)
    waiting = [one for one in workloads if _waits(one)]
    choices = {one.key: _choose(one, kueue, chooser) for one in sorted(waiting, key=order)}
    for one in waiting:
        findings: Findings = {}
        at = At(one.body, findings)
        spec = at.get("spec")
        local, queue = spec.get("queueName").text(), _queue(one, kueue)
        choice = choices[one.key]
        active, priority = spec.get("active"), spec.get("priority")
        refusals = ["spec.active: false"] if not active.absent and not active.flag() else []
        roles: list[Role] = []
        resources: set[str] = set()
        for entry in spec.get("podSets").items():
            pods = _pod_set(entry)
            resources |= requested(pods.template)
            name = entry.get("name").text("main") or "main"
            template = kueue.flavors.restricted(pods.template, queue, choice.flavor)
            levels = levels_in(entry.get("topologyRequest"))
            more, lacking = roles_of(name, template, pods.number, pods.minimum, levels)
            roles += more
            refusals += lacking
        if local:
            refusals += kueue.admission.refusals((one.namespace, local), queue, resources)
        if not choice.choices:
            text = "pods that no flavor takes: they do not tolerate its taints or select its labels"
            refusals.append(f"ClusterQueue {queue}: {text}")
        if choice.choices > 1:
            text = f"flavor {choice.flavor} is taken; others of {queue} are not tried"
            diagnostics.warnings.append(one.problem("spec.podSets", text))
        terms = Terms(
            priority=None if priority.absent else priority.integer(least=-(2**31)),
            queue=kueue.queues.name(queue, choice.flavor),
            unsupported=refusals,
        )
        made.add(one, at, one.name, roles, terms)
        note(one, findings, diagnostics.problems)


def owners_of_waiting(workloads: Iterable[Object]) -> set[tuple[str, str, str]]:
    """Kind, namespace and name of the objects for which Workloads wait for quota."""
    return {
        (owner.get("kind").text(), one.namespace, owner.get("name").text())
        for one in workloads
        if _waits(one)
        for owner in At(one.body, {}).get("metadata").get("ownerReferences").items()
    }


def _waits(one: Object) -> bool:
    status = At(one.body, {}).get("status")
    return not (has_finished(status) or has_quota(status))


def _queue(one: Object, kueue: Kueue) -> str:
    """The ClusterQueue of a Workload; empty for none."""
    local = At(one.body, {}).get("spec").get("queueName").text()
    return local and kueue.local_queues.get((one.namespace, local), f"{one.namespace}.{local}")


def _pod_set(entry: At) -> PodSet:
    count = entry.get("count").integer(1, least=0, most=100_000)
    template = template_of(entry.get("template"))
    return PodSet(template, count, entry.get("minCount").integer(count, least=0))


def _choose(one: Object, kueue: Kueue, chooser: Chooser) -> Choice:
    entries = At(one.body, {}).get("spec").get("podSets").items()
    return chooser.choose(_queue(one, kueue), [_pod_set(entry) for entry in entries])
