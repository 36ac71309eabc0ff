"""Questions made harder: levels, ages, sets, protection, deep queues and used reservations are
mixed into whatever question comes, so that they meet evictions and each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from placement_service.entities.eviction import DisruptionBudget
from placement_service.entities.queues import GPUS, MILLIGPUS, Amounts, Queue
from placement_service.entities.request import CPU, Pod, PodSet, PodTemplate, Snapshot
from placement_service.entities.reservations import ReservationSelector
from placement_service.entities.selectors import (
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
)
from tests.strategies.gangs import scopes_of
from tests.strategies.running import protections
from tests.strategies.words import AGES, APPS, NAMESPACE, NOW, Feature, rarely, with_sets

_CHAIN = ("queues/top", "queues/middle", "queues/leaf", "queues/beside")


@st.composite
def crossed(draw: st.DrawFn, questions: st.SearchStrategy[Snapshot]) -> Snapshot:
    """The same nodes and pods under more rules, each of them in about half of the questions."""
    snapshot = replace(draw(questions), as_of=NOW)
    changes = (
        _with_scopes,
        _with_ages,
        _with_sets,
        _protected,
        _with_deep_queues,
        _in_reservations,
        _lacking,
    )
    for change in changes:
        if draw(st.booleans()):
            snapshot = draw(change(snapshot))
    return snapshot


@st.composite
def with_lacking_gangs(draw: st.DrawFn, questions: st.SearchStrategy[Snapshot]) -> Snapshot:
    """Gangs that run lack pods or wait for more, sets of them and gangs with levels among them."""
    snapshot = draw(_lacking(draw(questions)))
    snapshot = draw(_with_sets(snapshot)) if draw(st.booleans()) else snapshot
    return draw(_with_scopes(snapshot)) if draw(st.booleans()) else snapshot


@st.composite
def _with_scopes(draw: st.DrawFn, snapshot: Snapshot) -> Snapshot:
    """Some gangs name levels, also such that run across several domains of them."""
    anywhere = frozenset({Feature.OVERLAPS})
    gangs = (
        replace(gang, packing_scopes=draw(scopes_of([g.name for g in gang.groups], anywhere)))
        if draw(st.booleans())
        else gang
        for gang in snapshot.gangs
    )
    return replace(snapshot, gangs=tuple(gangs))


@st.composite
def _lacking(draw: st.DrawFn, snapshot: Snapshot) -> Snapshot:
    """Gangs that run lack a pod of their minimum, or wait for more; some pods may be there."""
    gangs = []
    for gang in snapshot.gangs:
        groups = list(gang.groups)
        at = draw(st.integers(0, len(groups) - 1))
        group = groups[at]
        if any(s.bound_pods for s in group.pod_sets) and draw(st.booleans()):
            sets = list(group.pod_sets)
            name = f"{gang.name.replace('podgangs', 'pods')}-{at}-more"
            more = tuple(Pod(f"{name}-{i}") for i in range(draw(st.sampled_from([0, 0, 1, 2]))))
            sets[0] = replace(sets[0], pods=(*sets[0].pods, *more))
            lacks = group.running_count + draw(st.integers(0, 1))
            groups[at] = replace(group, pod_sets=tuple(sets), min_replicas=lacks)
        gangs.append(replace(gang, groups=tuple(groups)))
    return replace(snapshot, gangs=tuple(gangs))


@st.composite
def _with_ages(draw: st.DrawFn, snapshot: Snapshot) -> Snapshot:
    gangs = (replace(gang, created=NOW - draw(st.sampled_from(AGES))) for gang in snapshot.gangs)
    return replace(snapshot, gangs=tuple(gangs))


@st.composite
def _with_sets(draw: st.DrawFn, snapshot: Snapshot) -> Snapshot:
    """One gang is the base of one or two others, whichever of them run."""
    base, *others = draw(st.permutations(range(len(snapshot.gangs))))
    gangs = list(snapshot.gangs)
    bases = {gang.base_gang for gang in gangs}
    if gangs[base].base_gang:
        return snapshot
    for scaled in others[: draw(st.integers(1, 2))]:
        if gangs[scaled].name not in bases:
            gangs[scaled] = replace(gangs[scaled], base_gang=gangs[base].name)
    return replace(snapshot, gangs=tuple(gangs))


@st.composite
def _protected(draw: st.DrawFn, snapshot: Snapshot) -> Snapshot:
    """Gangs that are not to be disturbed, and two budgets that may cover the same pods."""
    apps = sorted(
        {
            s.template.labels["app"]
            for gang in snapshot.gangs
            for group in gang.groups
            for s in group.pod_sets
            if "app" in s.template.labels
        }
    )
    budgets = tuple(
        DisruptionBudget(
            f"namespaces/{NAMESPACE}/poddisruptionbudgets/{name}",
            draw(
                st.sampled_from(
                    [LabelSelector(), None, *(LabelSelector((("app", app),)) for app in apps)]
                )
            ),
            draw(st.integers(0, 2)),
        )
        for name in draw(st.sampled_from([(), ("b",), ("b", "c")]))
    )
    gangs = tuple(replace(gang, **draw(protections)) for gang in snapshot.gangs)
    return replace(snapshot, gangs=gangs, disruption_budgets=budgets)


@st.composite
def _with_deep_queues(draw: st.DrawFn, snapshot: Snapshot) -> Snapshot:
    """Three queues in a chain and one beside the last, with several resources and parts of GPUs."""
    counts = st.sampled_from([0, 1, 2, 4, 6, 8, 8, 12])
    amounts: st.SearchStrategy[Amounts] = st.one_of(
        st.just({}),
        st.fixed_dictionaries({GPUS: counts}),
        st.fixed_dictionaries({GPUS: counts, CPU: counts}),
        st.fixed_dictionaries({GPUS: counts, MILLIGPUS: st.sampled_from([0, 500])}),
    )
    queues = []
    for name, parent in zip(_CHAIN, ("", *_CHAIN[:2], _CHAIN[1]), strict=True):
        fixed = draw(st.sampled_from([{}, {}, {GPUS: 1}]))
        used = draw(st.sampled_from([fixed, fixed, {GPUS: 2}]))
        queues.append(
            Queue(
                name,
                parent,
                limit=draw(st.one_of(st.just({}), amounts)),
                guaranteed=draw(amounts),
                used=used,
                used_not_preemptible=fixed,
                not_reclaimable=draw(rarely),
                minimum_run_time_before_reclaim=20 if draw(rarely) else 0,
                kept=draw(st.one_of(st.just({}), st.just({}), amounts)),
            )
        )
    names: Sequence[str] = ["", *_CHAIN, *_CHAIN[2:], *_CHAIN[2:]]
    gangs = (
        replace(gang, queue=draw(st.sampled_from(names)), not_preemptible=draw(rarely))
        for gang in snapshot.gangs
    )
    return replace(snapshot, queues=tuple(queues), gangs=tuple(gangs))


@st.composite
def _in_reservations(draw: st.DrawFn, snapshot: Snapshot) -> Snapshot:
    """Some pods run in reservations, some that wait require one by its labels."""
    if not snapshot.reservations:
        return snapshot
    here = {r.node: r.name for r in snapshot.reservations}
    teams = st.sampled_from(APPS).map(
        lambda app: ReservationSelector(
            terms=(NodeSelectorTerm((Requirement("team", Operator.IN, (app,)),)),)
        )
    )

    def told(s: PodSet) -> PodSet:
        pods = tuple(
            replace(pod, reservation=here[pod.node]) if pod.node in here and draw(rarely) else pod
            for pod in s.bound_pods
        )
        template: PodTemplate = s.template
        if s.pods and not s.bound_pods and draw(rarely):
            template = replace(template, required_reservation=draw(teams))
        return replace(s, bound_pods=pods, template=template)

    return replace(snapshot, gangs=with_sets(snapshot, told))
