"""Sessions of the client: what is sent, what follows from errors, and the real service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.aio import AsyncPlacementClient
from placement.client import PlacementClient
from placement.errors import InvalidRequestError, SnapshotUnknownError, Violation
from placement.local_snapshot import LocalSnapshot, Question
from placement.testing import Event, Script, scripted_server, serve
from placement.v1 import (
    ClusterSnapshot,
    ComputeCapacityRequest,
    ComputePlacementRequest,
    ComputeRepackingRequest,
    ExplainGangRequest,
    Node,
    Placement,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Progress,
    Resources,
    RunningPod,
)
from tests.waiting import LONG

GPU = "nvidia.com/gpu"
GANG = PodGang(
    name="namespaces/ml/podgangs/train",
    groups=[
        PodGroup(
            name="worker",
            min_replicas=1,
            pod_sets=[
                PodSet(
                    template=PodTemplate(requests=Resources(extended={GPU: 8})),
                    pods=[{"name": "namespaces/ml/pods/train-0"}],
                )
            ],
        )
    ],
)
REQUEST = ComputePlacementRequest(gangs=[GANG])


def node(name: str, used: int = 0) -> Node:
    requested = Resources(extended={GPU: used}) if used else None
    allocatable = Resources(extended={GPU: 8}, pod_count=110)
    return Node(name=f"nodes/{name}", allocatable=allocatable, requested=requested)


def sent(question: Question) -> tuple[str, list[str], list[str]]:
    """The base of a question, the nodes that it sets, and those that it takes out."""
    request = question.request
    nodes = [n.name.removeprefix("nodes/") for n in request.snapshot.nodes]
    gone = [name.removeprefix("nodes/") for name in request.base.gone_nodes]
    return request.base.digest, sorted(nodes), sorted(gone)


def answer(digest: str) -> Placement:
    return Placement(snapshot_digest=digest)


def known(*names: str) -> LocalSnapshot:
    """A cluster that the service knows as D1."""
    cluster = LocalSnapshot()
    cluster.set_nodes(*map(node, names))
    cluster.answered(cluster.question(REQUEST), "D1")
    return cluster


def test_first_the_whole_then_what_has_changed() -> None:
    cluster = LocalSnapshot()
    cluster.set_nodes(node("a"), node("b"))
    question = cluster.question(REQUEST)
    assert sent(question) == ("", ["a", "b"], [])
    cluster.answered(question, "D1")
    assert sent(cluster.question(REQUEST)) == ("D1", [], [])
    cluster.set_nodes(node("a", 4), node("b"))
    cluster.remove_nodes("nodes/b", "nodes/nobody")
    assert sent(cluster.question(REQUEST)) == ("D1", ["a"], ["b"])


def test_what_came_and_went_in_between_is_not_told() -> None:
    cluster = known("a")
    cluster.set_nodes(node("b"))
    cluster.remove_nodes("nodes/b")
    cluster.remove_nodes("nodes/a")
    cluster.set_nodes(node("a", 1))
    assert sent(cluster.question(REQUEST)) == ("D1", ["a"], [])


def test_what_changes_while_a_call_runs_is_told_with_the_next() -> None:
    cluster = known("a", "b")
    cluster.set_nodes(node("a", 1))
    running = cluster.question(REQUEST)
    cluster.set_nodes(node("c"))
    cluster.remove_nodes("nodes/b")
    cluster.answered(running, "D2")
    later = cluster.question(REQUEST)
    assert sent(later) == ("D2", ["c"], ["b"])
    cluster.answered(later, "D3")
    # An answer that was overtaken says nothing new.
    cluster.answered(running, "D2")
    assert sent(cluster.question(REQUEST)) == ("D3", [], [])


def test_a_late_answer_of_before_a_lost_base_is_not_gone_on_from() -> None:
    cluster = known("a", "b", "c")
    cluster.set_nodes(node("a", 1))
    late = cluster.question(REQUEST)
    cluster.set_nodes(node("b", 1))
    cluster.answered(cluster.question(REQUEST), "D3")
    cluster.set_nodes(node("c", 1))
    lost = cluster.question(REQUEST)
    try:
        raise SnapshotUnknownError("unknown", digest="D3")
    except SnapshotUnknownError:
        whole = cluster.retold(lost, REQUEST)
    cluster.answered(late, "D2")
    assert sent(cluster.question(REQUEST)) == ("", ["a", "b", "c"], []), "D2 lacks b"
    cluster.answered(whole, "D4")
    assert sent(cluster.question(REQUEST)) == ("D4", [], [])


def test_pods_that_went_are_told_by_name() -> None:
    cluster = LocalSnapshot()
    cluster.set_pods(
        RunningPod(name="namespaces/ml/pods/a"), RunningPod(name="namespaces/ml/pods/b")
    )
    cluster.answered(cluster.question(REQUEST), "D1")
    cluster.remove_pods("namespaces/ml/pods/a", "namespaces/ml/pods/nobody")
    request = cluster.question(REQUEST).request
    assert list(request.base.gone_pods) == ["namespaces/ml/pods/a"]
    assert not request.snapshot.pods


def test_replacing_all_tells_what_differs() -> None:
    cluster = known("a", "b", "c")
    pod = RunningPod(name="namespaces/ml/pods/p", node="nodes/a")
    cluster.replace([node("c", 2), node("a"), node("d")], [pod])
    question = cluster.question(REQUEST)
    assert sent(question) == ("D1", ["c", "d"], ["b"])
    assert [p.name for p in question.request.snapshot.pods] == [pod.name]


def test_messages_are_copied() -> None:
    cluster = LocalSnapshot()
    mine = node("a")
    cluster.set_nodes(mine)
    mine.name = "nodes/other"
    question = cluster.question(REQUEST)
    question.request.snapshot.nodes[0].unschedulable = True
    assert cluster.question(REQUEST).request.snapshot.nodes[0] == node("a")


@pytest.mark.parametrize(
    "request_of_its_own",
    [
        ComputePlacementRequest(snapshot=ClusterSnapshot(nodes=[node("a")])),
        ComputePlacementRequest(snapshot=ClusterSnapshot(pods=[RunningPod()])),
        ComputePlacementRequest(base={"digest": "D"}),
    ],
)
def test_a_request_that_says_itself_what_is_there_is_a_mistake(
    request_of_its_own: ComputePlacementRequest,
) -> None:
    with pytest.raises(ValueError, match="a session adds"):
        LocalSnapshot().question(request_of_its_own)


def test_reprs_are_short() -> None:
    with PlacementClient("localhost:1") as client:
        session = client.session()
        session.cluster.set_nodes(*(node(f"n{i}") for i in range(1000)))
        assert repr(session) == (
            "<Session: <PlacementClient: localhost:1>,"
            " <LocalSnapshot: 1000 nodes, 0 pods, the service knows nothing>>"
        )


#: Asks once in a session, without or with asyncio: the events of the answer.
Ask = Callable[[str, LocalSnapshot, bool], list[Event]]


def blocking(address: str, cluster: LocalSnapshot, stream: bool) -> list[Event]:
    with PlacementClient(address, timeout=LONG) as client:
        session = client.session(cluster)
        if not stream:
            return [session.compute(REQUEST)]
        with session.stream(REQUEST) as events:
            return list(events)


def awaited(address: str, cluster: LocalSnapshot, stream: bool) -> list[Event]:
    async def work() -> list[Event]:
        async with AsyncPlacementClient(address, timeout=LONG) as client:
            session = client.session(cluster)
            if not stream:
                return [await session.compute(REQUEST)]
            async with aclosing(session.stream(REQUEST)) as events:
                return [event async for event in events]

    return asyncio.run(work())


both = pytest.mark.parametrize("ask", [blocking, awaited])
ways = pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])


@both
@ways
def test_the_whole_follows_in_the_same_call_when_the_base_is_unknown(
    ask: Ask, stream: bool
) -> None:
    cluster = known("a", "b")
    cluster.set_nodes(node("a", 1))
    script: Script = [SnapshotUnknownError(digest="D1"), [Progress(phase="greedy"), answer("D2")]]
    with scripted_server(script) as server:
        assert ask(server.address, cluster, stream)[-1] == answer("D2")
    first, second = (call.request for call in server.calls)
    assert (first.base.digest, len(first.snapshot.nodes)) == ("D1", 1)
    assert (second.HasField("base"), len(second.snapshot.nodes)) == (False, 2)
    assert sent(cluster.question(REQUEST)) == ("D2", [], [])


@both
@ways
def test_a_service_of_before_sessions_is_told_the_whole(ask: Ask, stream: bool) -> None:
    cluster = known("a")
    with scripted_server([Placement(revision="half"), Placement(revision="whole")]) as server:
        found = ask(server.address, cluster, stream)
    assert found[-1] == Placement(revision="whole")
    assert not server.calls[1].request.HasField("base")


@both
@ways
def test_other_errors_are_the_callers_and_forget_nothing(ask: Ask, stream: bool) -> None:
    cluster = known("a")
    for error in (InvalidRequestError("wrong"), SnapshotUnknownError(digest="D9")):
        script = [error] * 2
        with scripted_server(script) as server, pytest.raises(type(error)):
            ask(server.address, cluster, stream)
    assert isinstance(error, SnapshotUnknownError)
    assert len(server.calls) == 2


@both
@ways
def test_faults_are_told_by_name(ask: Ask, stream: bool) -> None:
    cluster = known("a", "b")
    cluster.set_nodes(node("b", -1))
    fault = Violation("snapshot.nodes[0].requested", "also of snapshot.nodes[9]")
    error = InvalidRequestError("wrong", violations=[fault], violation_count=7)
    with scripted_server([error]) as server, pytest.raises(InvalidRequestError) as found:
        ask(server.address, cluster, stream)
    assert found.value.violations == (
        Violation("snapshot.nodes[nodes/b].requested", "also of snapshot.nodes[9]"),
    )
    assert found.value.violation_count == 7


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    with serve() as address:
        yield address


@both
@ways
def test_the_real_service(service: str, ask: Ask, stream: bool) -> None:
    cluster = LocalSnapshot()
    cluster.set_nodes(node("a"), node("b", 8))

    def where() -> list[str]:
        last = ask(service, cluster, stream)[-1]
        assert isinstance(last, Placement)
        return [binding.node for binding in last.bindings]

    assert where() == ["nodes/a"]
    assert not cluster.question(REQUEST).is_whole
    cluster.set_nodes(node("b"))
    cluster.remove_nodes("nodes/a")
    assert where() == ["nodes/b"]
    cluster.set_nodes(node("b", 1))
    assert where() == []


def test_questions_of_planning_name_a_base_too(service: str) -> None:
    """The cluster is told again where the service does not know it, and not where it does."""
    cluster = known("a", "b")
    with PlacementClient(service, timeout=LONG) as client:
        session = client.session(cluster)
        asked = ComputeCapacityRequest(question=REQUEST)
        asked.copies.gang = GANG.name
        assert session.capacity(asked).amount.value == 2
        assert sent(cluster.question(REQUEST))[1:] == ([], [])
        cluster.set_nodes(node("b", 1))
        assert session.capacity(asked).amount.value == 1
        cluster.remove_nodes("nodes/a")
        why = session.explain(ExplainGangRequest(question=REQUEST, gang=GANG.name))
        assert [one.add_nodes.count for one in why.remedies] == [1]
        host = ComputeRepackingRequest(question=REQUEST, level="zone", count=1)
        with pytest.raises(InvalidRequestError, match="no node label zone"):
            session.repack(host)
        with session.steer(REQUEST) as events:
            *_, last = events
        assert isinstance(last, Placement)
        assert not cluster.question(REQUEST).is_whole
        assert sent(cluster.question(REQUEST))[0] == last.snapshot_digest


def test_questions_of_planning_in_an_asynchronous_session(service: str) -> None:
    async def work() -> list[int]:
        async with AsyncPlacementClient(service, timeout=LONG) as client:
            session = client.session(known("a"))
            asked = ComputeCapacityRequest(question=REQUEST)
            asked.copies.gang = GANG.name
            found = [(await session.capacity(asked)).amount.value]
            session.cluster.remove_nodes("nodes/a")
            session.cluster.set_nodes(node("b", 1))
            why = await session.explain(ExplainGangRequest(question=REQUEST, gang=GANG.name))
            return [*found, *(one.add_nodes.count for one in why.remedies)]

    assert asyncio.run(work()) == [1, 1]


doings = st.sampled_from(["set", "remove", "replace", "ask"])
steps = st.lists(st.tuples(doings, st.sets(st.sampled_from("abcd"))), max_size=12)


@settings(max_examples=60)
@given(steps)
def test_what_is_told_makes_what_is_there(steps: list[tuple[str, set[str]]]) -> None:
    """A server that takes changes as the service does always ends up with the same nodes."""
    cluster = LocalSnapshot()
    kept: dict[str, dict[str, Node]] = {}
    for count, (what, names) in enumerate([*steps, ("ask", set[str]())]):
        some = [node(name, count % 8) for name in sorted(names)]
        if what == "set":
            cluster.set_nodes(*some)
        elif what == "remove":
            cluster.remove_nodes(*(n.name for n in some))
        elif what == "replace":
            cluster.replace(some)
        else:
            question = cluster.question(REQUEST)
            there = dict(kept[question.request.base.digest]) if not question.is_whole else {}
            for name in question.request.base.gone_nodes:
                del there[name]
            there.update((n.name, n) for n in question.request.snapshot.nodes)
            kept[str(count)] = there
            cluster.answered(question, str(count))
            assert there == {
                n.name: n for n in cluster.question(REQUEST, whole=True).request.snapshot.nodes
            }
