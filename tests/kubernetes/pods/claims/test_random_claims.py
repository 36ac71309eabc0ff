"""Random claims, volumes and ComputeDomains: the plan, judged by a plain reading of the objects.

The reading here shares no code with the package: which devices a pod may have, where its volumes
are and whom it shares memory with is read off the objects as they are, and every way to give the
pods of a node their devices is tried. Every pod of a plan has what it claims, and where the plan
is proven no gang waits that could be added to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import NamedTuple

from hypothesis import assume, event, given
from hypothesis import strategies as st

from placement_service.api.wire.requests import parse_request
from placement_service.entities.request import Request
from placement_service.formulation.named_plan import name_plan
from placement_service.formulation.prepare import prepare
from tests.kubernetes.build import Body, gang, group, node, pod, request
from tests.kubernetes.pods.claims.claim_objects import (
    attribute,
    claims,
    device_class,
    devices,
    domain,
    exactly,
)
from tests.kubernetes.pods.claims.claim_objects import template as claim_template
from tests.kubernetes.pods.volume_objects import ZONE, claim, mounts, storage_class, volume
from tests.placed import solve

NODES = ("n1", "n2", "n3")
MODELS = ("old", "new")
ZONES = ("z1", "z2")

#: Where pods are, by their names: those that run and those that a plan places.
Places = dict[str, str]


def _expression(model: str) -> str:
    return f'{attribute("model")} == "{model}"'


@st.composite
def clusters(draw: st.DrawFn) -> list[Body]:
    """Nodes with a few devices, gangs of one or two pods, and all that these refer to."""
    bodies: list[Body] = [device_class("gpu"), device_class("new", _expression("new"))]
    for name in NODES[: draw(st.integers(1, len(NODES)))]:
        bodies.append(node(name, labels={ZONE: draw(st.sampled_from(ZONES))}))
        models = draw(st.lists(st.sampled_from(MODELS), min_size=1, max_size=4))
        bodies.append(devices(name, *({"model": model} for model in models)))
    for kind, model, count in product(("gpu", "new"), ("", "old"), (1, 2)):
        expressions = [_expression(model)] if model else []
        bodies.append(claim_template(f"{kind}{model}{count}", exactly(kind, count, *expressions)))
    bodies += [domain("one", "ch-1"), domain("two", "ch-2")]
    bodies += [
        storage_class("late"),
        storage_class("now", "Immediate"),
        storage_class("near", allowedTopologies=[
            {"matchLabelExpressions": [{"key": ZONE, "values": ["z1"]}]}
        ]),
        volume("pv1", zone=["z1"]),
        volume("pv2", zone=["z2"]),
        claim("at-1", "pv1"), claim("at-2", "pv2"),
        claim("late", storage_class="late"), claim("near", storage_class="near"),
        claim("now", storage_class="now"),
    ]  # fmt: skip
    for g in range(draw(st.integers(1, 3))):
        names = [f"p{g}{i}" for i in range(draw(st.integers(1, 2)))]
        bodies += [draw(_pods(name)) for name in names]
        bodies.append(gang(f"g{g}", podgroups=[group("w", *names)]))
    for i in range(draw(st.integers(0, 1))):
        bodies.append(draw(_pods(f"r{i}", where=draw(st.sampled_from(NODES)))))
    return bodies


@st.composite
def _pods(draw: st.DrawFn, name: str, where: str = "") -> Body:
    kinds = st.sampled_from(["gpu1", "gpu1", "gpu2", "gpuold1", "new1", "new2", "newold1"])
    used = draw(st.lists(kinds, min_size=1, max_size=draw(st.sampled_from([1, 1, 2]))))
    if draw(st.integers(0, 3)) == 3:
        used.append(draw(st.sampled_from(["ch-1", "ch-2"])))
    spec: Body = {"containers": [{"name": "main"}], "resourceClaims": claims(*used)}
    if where:
        return pod(name, phase="Running", **spec, nodeName=where)
    kept = st.lists(st.sampled_from(["at-1", "at-2", "late", "near", "now"]), max_size=1)
    return pod(name, **spec, volumes=mounts(*draw(st.one_of(st.just([]), kept))))


# --- a plain reading ------------------------------------------------------------------


class Reading:
    """What the objects say, one by one."""

    def __init__(self, bodies: Sequence[Body]) -> None:
        self._by_name = {(b["kind"], b["metadata"]["name"]): b for b in bodies}
        self.pods = {b["metadata"]["name"]: b["spec"] for b in bodies if b["kind"] == "Pod"}
        self.gangs = {
            b["metadata"]["name"]: [r["name"] for r in b["spec"]["podgroups"][0]["podReferences"]]
            for b in bodies
            if b["kind"] == "PodGang"
        }
        self.nodes = [b["metadata"]["name"] for b in bodies if b["kind"] == "Node"]
        self.running = {p: s["nodeName"] for p, s in self.pods.items() if "nodeName" in s}

    def keeps_the_rules(self, places: Places) -> bool:
        """Whether all pods have their devices, volumes and domain where they are."""
        return all(self._serves(name, places) for name in self.nodes)

    def could_be_added(self, pods: Sequence[str], places: Places) -> bool:
        """Whether there is a way to place some more pods."""
        return any(
            self.keeps_the_rules({**places, **dict(zip(pods, where, strict=True))})
            for where in product(self.nodes, repeat=len(pods))
        )

    def uses(self, pod: str) -> list[str]:
        """What a pod claims: devices, a domain, a volume."""
        return self._templates(pod) + self._volumes(pod)

    def _serves(self, name: str, places: Places) -> bool:
        here = [pod for pod, where in places.items() if where == name]
        used = [claim for pod in here for claim in self._templates(pod)]
        if len({claim for claim in used if claim.startswith("ch-")}) > 1:
            return False
        new = [pod for pod in here if pod not in self.running]
        if not all(self._reaches(pod, name) for pod in new):
            return False
        wanted = [self._wanted(claim) for claim in used if not claim.startswith("ch-")]
        return _can_give(self._models(name), wanted)

    def _templates(self, pod: str) -> list[str]:
        return [use["resourceClaimTemplateName"] for use in self.pods[pod]["resourceClaims"]]

    def _wanted(self, claim: str) -> tuple[int, Callable[[str], bool]]:
        count = int(claim[-1])
        if claim.startswith("newold"):
            return count, lambda model: False
        if claim.startswith("gpuold"):
            return count, lambda model: model == "old"
        return count, lambda model: claim.startswith("gpu") or model == "new"

    def _models(self, name: str) -> list[str]:
        body = self._by_name.get(("ResourceSlice", f"slice-{name}"))
        found = body["spec"]["devices"] if body else []
        return [device["attributes"]["model"]["string"] for device in found]

    def _reaches(self, pod: str, name: str) -> bool:
        zone = self._by_name["Node", name]["metadata"]["labels"][ZONE]
        zones = {"at-1": "z1", "at-2": "z2", "near": "z1", "late": zone, "now": ""}
        return all(zones[claim] == zone for claim in self._volumes(pod))

    def _volumes(self, pod: str) -> list[str]:
        return [v["persistentVolumeClaim"]["claimName"] for v in self.pods[pod].get("volumes", [])]


def _can_give(models: list[str], wanted: list[tuple[int, Callable[[str], bool]]]) -> bool:
    """Whether every request gets as many devices as it wants, none given twice."""
    if not wanted:
        return True
    (count, suits), rest = wanted[0], wanted[1:]
    able = [i for i, model in enumerate(models) if suits(model)]
    return any(
        _can_give([m for i, m in enumerate(models) if i not in chosen], rest)
        for chosen in combinations(able, count)
    )


# --- the plan -------------------------------------------------------------------------


class Planned(NamedTuple):
    """Where new pods go, and whether that is proven to be best."""

    places: Places
    proven: bool


def _plan(asked: Request) -> Planned:
    snapshot, policy = asked.snapshot, asked.policy
    answer = solve(snapshot, policy)[-1]
    named = name_plan(snapshot, policy, prepare(snapshot, policy), answer.assignments)
    places = {b.pod.rpartition("/")[2]: b.node.rpartition("/")[2] for b in named.bindings}
    return Planned(places, answer.proven)


@given(clusters())
def test_pods_have_what_they_claim_and_nobody_waits_for_nothing(bodies: list[Body]) -> None:
    reading = Reading(bodies)
    # What runs has what it claims.
    assume(reading.keeps_the_rules(reading.running))
    plan = _plan(parse_request(request(*bodies)))
    places = {**reading.running, **plan.places}
    assert reading.keeps_the_rules(places)
    for pods in reading.gangs.values():
        placed = [p in plan.places for p in pods]
        assert all(placed) or not any(placed)
        if plan.proven and not any(placed):
            assert not reading.could_be_added(pods, places)
    event(f"proven: {plan.proven}, placed: {bool(plan.places)}")
    for word in {use for p in plan.places for use in reading.uses(p)}:
        event(f"placed with {word}")
