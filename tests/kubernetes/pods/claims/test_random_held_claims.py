"""Random claims of pods that run with devices of their own, where these may be moved or evicted.

The plan is judged by a plain reading of the objects: who stays keeps the devices in its claim's
status, everybody else gets some that its claim asks for, in one way or another.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

from hypothesis import event, given
from hypothesis import strategies as st

from placement_service.api.wire.requests import parse_request
from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.request import Policy
from placement_service.formulation.named_plan import name_plan
from placement_service.formulation.prepare import prepare
from tests.kubernetes.build import Body, gang, group, node, pod, request
from tests.kubernetes.pods.claims.claim_objects import (
    attribute,
    claim,
    claims,
    device_class,
    devices,
    exactly,
    template,
)
from tests.placed import solve

MODELS = ("old", "new")
#: What claims may ask for, by the names of their templates: how many devices of which model.
ASKS = {"any1": (1, ""), "any2": (2, ""), "new1": (1, "new"), "old1": (1, "old")}


class Cluster(NamedTuple):
    """The objects, the models of the devices of each node, the claim template of each pod, and by
    running pods where they are and which devices they have.
    """

    bodies: list[Body]
    models: dict[str, list[str]]
    asks: dict[str, str]
    held: dict[str, tuple[str, tuple[int, ...]]]


def _exactly(name: str) -> Body:
    count, model = ASKS[name]
    return exactly("nic", count, *([f'{attribute("model")} == "{model}"'] if model else []))


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Two nodes of a few devices, pods that have some of them, and pods that wait for some."""
    models = {
        name: draw(st.lists(st.sampled_from(MODELS), min_size=1, max_size=3)) for name in ("a", "b")
    }
    bodies = [device_class("nic"), *(template(name, _exactly(name)) for name in ASKS)]
    for name, mine in models.items():
        bodies += [node(name), devices(name, *({"model": model} for model in mine))]
    asks: dict[str, str] = {}
    held: dict[str, tuple[str, tuple[int, ...]]] = {}
    for name, mine in models.items():
        free = list(range(len(mine)))
        for i in range(draw(st.integers(0, 2))):
            wanted = draw(st.sampled_from(sorted(ASKS)))
            count, model = ASKS[wanted]
            able = [d for d in free if model in ("", mine[d])]
            if len(able) < count:
                continue
            chosen = tuple(sorted(draw(st.permutations(able))[:count]))
            free = [d for d in free if d not in chosen]
            runs = f"runs-{name}{i}"
            asks[runs], held[runs] = wanted, (name, chosen)
            body = _pod(runs, wanted, nodeName=name, phase="Running")
            body["status"]["resourceClaimStatuses"] = [
                {"name": "c0", "resourceClaimName": f"{runs}-c0"}
            ]
            given_to = claim(
                f"{runs}-c0", _exactly(wanted), given=[f"d{d}" for d in chosen], where=name
            )
            bodies += [body, given_to, gang(f"g-{runs}", podgroups=[group("w", runs)])]
    for i in range(draw(st.integers(1, 2))):
        wanted = draw(st.sampled_from(sorted(ASKS)))
        asks[f"new{i}"] = wanted
        bodies += [_pod(f"new{i}", wanted, priority=1)]
        bodies += [gang(f"g-new{i}", podgroups=[group("w", f"new{i}")])]
    return Cluster(bodies, models, asks, held)


def _pod(name: str, wanted: str, **more: Any) -> Body:
    return pod(name, containers=[{"name": "main"}], resourceClaims=claims(wanted), **more)


def _can_give(free: dict[int, str], wanted: list[tuple[int, str]]) -> bool:
    """Whether every claim gets its devices, none given twice."""
    if not wanted:
        return True
    (count, model), *rest = wanted
    able = [d for d, is_a in free.items() if model in ("", is_a)]
    return any(
        _can_give({d: m for d, m in free.items() if d not in chosen}, rest)
        for chosen in combinations(able, count)
    )


def _works(cluster: Cluster, gone: set[str], places: dict[str, str]) -> bool:
    """Whether pods that come have their devices beside those that stay."""
    for name, models in cluster.models.items():
        free = dict(enumerate(models))
        for runs, (where, chosen) in cluster.held.items():
            if where == name and runs not in gone:
                free = {d: m for d, m in free.items() if d not in chosen}
        here = [ASKS[cluster.asks[p]] for p, where in places.items() if where == name]
        if not _can_give(free, here):
            return False
    return True


@given(clusters(), st.sampled_from(EvictionPolicy))
def test_who_stays_keeps_its_devices_and_who_comes_gets_what_it_asks_for(
    cluster: Cluster, eviction: EvictionPolicy
) -> None:
    asked = parse_request(request(*cluster.bodies))
    policy = Policy(gpu_resources=asked.policy.gpu_resources, eviction=eviction)
    answer = solve(asked.snapshot, policy)[-1]
    prepared = prepare(asked.snapshot, policy)
    plan = name_plan(asked.snapshot, policy, prepared, answer.assignments)
    places = {_short(b.pod): _short(b.node) for b in plan.bindings}
    gone = {_short(e.pod) for e in plan.evictions}
    places |= {_short(e.pod): _short(e.to_node) for e in plan.evictions if e.to_node}
    assert _works(cluster, gone, places)
    waiting = [p for p in cluster.asks if p not in cluster.held and p not in places]
    if answer.proven:
        for new in waiting:
            assert not any(_works(cluster, gone, {**places, new: n}) for n in cluster.models)
        if eviction is EvictionPolicy.REPACK:
            assert not _could_be_less(cluster, places, gone)
    event(f"{eviction.value}, proven: {answer.proven}, goes: {len(gone)}")


def _could_be_less(cluster: Cluster, places: dict[str, str], gone: set[str]) -> bool:
    """Whether the same pods find places with fewer of those that run moved."""
    new = [p for p in places if p not in cluster.held]
    return any(
        _some_way(cluster, set(moved), [*new, *moved])
        for count in range(len(gone))
        for moved in combinations(cluster.held, count)
    )


def _some_way(cluster: Cluster, gone: set[str], pods: list[str]) -> bool:
    ways: list[dict[str, str]] = [{}]
    for name in pods:
        ways = [{**way, name: n} for way in ways for n in cluster.models]
    return any(_works(cluster, gone, way) for way in ways)


def _short(name: str) -> str:
    return name.rpartition("/")[2]
