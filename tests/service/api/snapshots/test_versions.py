"""Versions of snapshots: the same content has the same digest and makes the same request."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.v1 import (
    ClusterSnapshot,
    ComputePlacementRequest,
    Node,
    Reservation,
    ReservationOwner,
    Resources,
    RunningPod,
    SnapshotBase,
)
from placement_service.api.snapshots import content
from placement_service.api.snapshots.held import MOST_CHANGES, Held
from placement_service.api.snapshots.whole import whole_request
from placement_service.entities.errors import InvalidRequest, SnapshotUnknown
from tests.service.questions import message

MANY = 2**30


def node(name: str, used: int = 0) -> Node:
    return Node(
        name=f"nodes/{name}",
        labels={"rack": name[:1], "app": "x", "app/name": ""},
        allocatable=Resources(extended={"nvidia.com/gpu": 8}),
        requested=Resources(extended={"nvidia.com/gpu": used}) if used else None,
    )


def pod(name: str, where: str) -> RunningPod:
    return RunningPod(name=f"namespaces/ml/pods/{name}", node=f"nodes/{where}")


def whole(nodes: dict[str, Node], pods: dict[str, RunningPod]) -> ComputePlacementRequest:
    there = message()
    there.snapshot.ClearField("nodes")
    there.snapshot.nodes.extend(nodes.values())
    there.snapshot.pods.extend(pods.values())
    return there


def change(
    base: bytes,
    *,
    nodes: tuple[Node, ...] = (),
    gone: tuple[str, ...] = (),
    pods: tuple[RunningPod, ...] = (),
    gone_pods: tuple[str, ...] = (),
) -> ComputePlacementRequest:
    there = whole({n.name: n for n in nodes}, {p.name: p for p in pods})
    there.base.MergeFrom(
        SnapshotBase(digest=content.text(base), gone_nodes=gone, gone_pods=gone_pods)
    )
    return there


names = st.text("abc-", min_size=1, max_size=3).filter(lambda name: name.strip("-") == name)
uses = st.integers(0, 8)
changes = st.lists(
    st.fixed_dictionaries(
        {
            "nodes": st.dictionaries(names, uses, max_size=3),
            "pods": st.dictionaries(names, names, max_size=3),
            "gone": st.sets(names, max_size=2),
            "gone_pods": st.sets(names, max_size=2),
        }
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=40)
@given(st.dictionaries(names, uses, max_size=5), changes, st.randoms(use_true_random=False))
def test_changes_lead_to_what_the_whole_leads_to(
    first: dict[str, int], steps: list[dict[str, Any]], random: Any
) -> None:
    nodes = {f"nodes/{n}": node(n, used) for n, used in first.items()}
    pods: dict[str, RunningPod] = {}
    versions = Held(MANY)
    told = [whole(nodes, pods).SerializeToString()]
    found = versions.read(whole(nodes, pods))
    for step in steps:
        new = tuple(node(n, used) for n, used in step["nodes"].items())
        new_pods = tuple(pod(n, where) for n, where in step["pods"].items())
        gone = {f"nodes/{n}" for n in step["gone"]} & nodes.keys() - {n.name for n in new}
        gone_pods = {f"namespaces/ml/pods/{n}" for n in step["gone_pods"]} & pods.keys()
        gone_pods -= {p.name for p in new_pods}
        there = change(
            found.version.digest,
            nodes=new,
            pods=new_pods,
            gone=tuple(gone),
            gone_pods=tuple(gone_pods),
        )
        told.append(there.SerializeToString())
        nodes = {k: v for k, v in nodes.items() if k not in gone} | {n.name: n for n in new}
        pods = {k: v for k, v in pods.items() if k not in gone_pods} | {p.name: p for p in new_pods}
        found = versions.read(there)

        shuffled = list(nodes.items())
        random.shuffle(shuffled)
        direct = Held(MANY).read(whole(dict(shuffled), pods))
        assert found.version.digest == direct.version.digest
        assert found.request == direct.request
    saved = ComputePlacementRequest.FromString(whole_request(told[:-1], told[-1]))
    assert Held(MANY).read(saved).version.digest == found.version.digest
    again = ComputePlacementRequest.FromString(found.version.whole())
    assert Held(MANY).read(again).version.digest == found.version.digest


def test_the_digest_is_what_the_protos_say() -> None:
    """Computed by hand: any language can."""
    found = Held(MANY).read(whole({"nodes/b": Node(name="nodes/b"), "nodes/a": node("a")}, {}))

    def text(field: int, value: str) -> bytes:
        return bytes((field << 3 | 2, len(value))) + value.encode()

    def entry(key: str, value: str) -> bytes:
        body = text(1, key) + text(2, value)
        return bytes((2 << 3 | 2, len(body))) + body

    # "app/name" before "app", of which 0xFF follows.
    labels = entry("app/name", "") + entry("app", "x") + entry("rack", "a")
    gpus = b"\x0a\x0envidia.com/gpu" + b"\x10\x08"
    allocatable = bytes((5 << 3 | 2, len(gpus))) + gpus
    first = text(1, "nodes/a") + labels + bytes((3 << 3 | 2, len(allocatable))) + allocatable
    hashes = sha256(first).digest() + sha256(text(1, "nodes/b")).digest()
    digest = sha256(sha256(hashes).digest() + sha256(b"").digest()).digest()
    assert content.text(found.version.digest) == f"sha256:{digest.hex()}"


def test_a_field_that_is_not_known_does_not_change_the_digest() -> None:
    newer = Node.FromString(node("a").SerializeToString() + b"\xfa\x3f\x01x")
    assert newer.SerializeToString() != node("a").SerializeToString()
    digests = [Held(MANY).read(whole({"a": one}, {})).version.digest for one in (newer, node("a"))]
    assert digests[0] == digests[1]


FAULTS: dict[str, tuple[Callable[[ComputePlacementRequest], Any], str, str]] = {
    "a node that is not there is gone": (
        lambda m: m.base.gone_nodes.append("nodes/x"),
        "base.gone_nodes[0]",
        '"nodes/x" is not in the base',
    ),
    "a pod that is not there is gone": (
        lambda m: m.base.gone_pods.append("namespaces/ml/pods/x"),
        "base.gone_pods[0]",
        "is not in the base",
    ),
    "a node is gone twice": (
        lambda m: m.base.gone_nodes.extend(["nodes/b", "nodes/b"]),
        "base.gone_nodes[1]",
        "is named twice",
    ),
    "a node is set and gone": (
        lambda m: m.MergeFrom(
            ComputePlacementRequest(
                base=SnapshotBase(gone_nodes=["nodes/a"]),
                snapshot=ClusterSnapshot(nodes=[node("a")]),
            )
        ),
        "base.gone_nodes[0]",
        "is set by this request as well",
    ),
    "a node is set twice": (
        lambda m: m.snapshot.nodes.extend([node("a"), node("a")]),
        "snapshot.nodes[1].name",
        "is also the name of snapshot.nodes[0]",
    ),
    "a node that is set breaks a rule": (
        lambda m: m.snapshot.nodes.append(Node(name="nodes/a", requested=Resources(cpu_millis=-1))),
        "snapshot.nodes[0].requested.cpu_millis",
        "negative",
    ),
    "a pod of the base is to be placed": (
        lambda m: m.gangs[0].groups[0].pod_sets[0].pods.add(name="namespaces/ml/pods/runs"),
        "gangs[0].groups[0].pod_sets[0].pods[2].name",
        "is a running pod as well",
    ),
    "a reservation is on a node that is gone": (
        lambda m: m.MergeFrom(
            ComputePlacementRequest(
                base=SnapshotBase(gone_nodes=["nodes/b"]),
                snapshot=ClusterSnapshot(
                    reservations=[
                        Reservation(
                            name="reservations/r",
                            node="nodes/b",
                            owners=[ReservationOwner(namespace="ml")],
                        )
                    ]
                ),
            )
        ),
        "snapshot.reservations[0].node",
        "is not a node of this snapshot",
    ),
}


@pytest.mark.parametrize(("spoil", "path", "what"), FAULTS.values(), ids=FAULTS)
def test_changes_that_break_a_rule_are_refused_by_name_and_kept_nowhere(
    spoil: Callable[[ComputePlacementRequest], Any], path: str, what: str
) -> None:
    versions = Held(MANY)
    nodes = {f"nodes/{n}": node(n) for n in "ab"}
    base = versions.read(whole(nodes, {"runs": pod("runs", "a")})).version
    there = change(base.digest)
    spoil(there)
    with pytest.raises(InvalidRequest) as refused:
        versions.read(there)
    assert [v.field for v in refused.value.violations] == [path]
    assert what in refused.value.violations[0].description
    assert list(versions.digests()) == [base.digest]


@pytest.mark.parametrize(
    "digest", ["", "sha256:", "sha256:" + "g" * 64, "sha256:" + "0" * 64, "md5:" + "0" * 64]
)
def test_a_base_that_is_not_held_is_unknown(digest: str) -> None:
    versions = Held(MANY)
    versions.read(message())
    there = ComputePlacementRequest(base=SnapshotBase(digest=digest))
    with pytest.raises(SnapshotUnknown) as unknown:
        versions.read(there)
    assert unknown.value.metadata == {"digest": digest}


def test_a_version_shares_what_did_not_change() -> None:
    versions = Held(MANY)
    before = versions.read(whole({n: node(n) for n in "abc"}, {})).version
    after = versions.read(change(before.digest, nodes=(node("b", 3),))).version
    assert after.nodes.names is before.nodes.names
    assert after.node_entries.names is before.node_entries.names


def test_the_least_recently_used_go_first_and_the_latest_stays() -> None:
    versions = Held(1)
    first = versions.read(message()).version
    second = versions.read(change(first.digest, nodes=(node("a"),))).version
    assert list(versions.digests()) == [second.digest]
    nothing = Held(0)
    nothing.read(message())
    assert not nothing.digests()


def test_after_many_changes_the_whole_is_told_again() -> None:
    versions = Held(MANY)
    nodes = [node(n) for n in "abcdefgh"] + [node(f"n{i}") for i in range(200)]
    digest = versions.read(whole({n.name: n for n in nodes}, {})).version.digest
    for i in range(MOST_CHANGES):
        assert versions.whole() is None
        digest = versions.read(change(digest, nodes=(node("a", i % 7),))).version.digest
    found = versions.whole()
    assert found is not None
    assert found.digest == digest
    told = ComputePlacementRequest.FromString(found.told)
    assert told == ComputePlacementRequest(snapshot=ClusterSnapshot(nodes=told.snapshot.nodes))
    assert Held(MANY).read(told).version.digest == digest
    assert versions.whole() is None
