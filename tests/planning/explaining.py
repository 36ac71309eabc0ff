"""Questions about a gang that waits."""

from __future__ import annotations

from placement import v1
from placement.client import PlacementClient
from tests.planning.clusters import BLOCK, RACK, resource_name


def explained(
    client: PlacementClient, asked: v1.ComputePlacementRequest, name: str
) -> v1.ExplainGangResponse:
    """The answer, with time for every proof."""
    question = v1.ExplainGangRequest(question=asked, gang=resource_name(name), levels=[BLOCK, RACK])
    question.time_limit.seconds = 30
    return client.explain(question)


def remedies(
    client: PlacementClient, asked: v1.ComputePlacementRequest, name: str
) -> dict[str, tuple[object, ...]]:
    """By kind what each remedy says, all of them proven."""
    found = explained(client, asked, name)
    assert not placed(found, name)
    assert all(one.proven for one in found.remedies)
    said = {}
    for one in found.remedies:
        kind = one.WhichOneof("kind")
        assert kind
        facts = getattr(one, kind)
        said[kind] = tuple(
            tuple(value) if field.is_repeated else value for field, value in facts.ListFields()
        )
    return said


def placed(answer: v1.ExplainGangResponse, name: str) -> bool:
    return next(g.placed for g in answer.placement.gangs if g.name == resource_name(name))


def pods(gang: str, *numbers: int) -> tuple[str, ...]:
    return tuple(f"namespaces/ml/pods/{gang}-r{i}" for i in numbers)


def bound(one: v1.PodGang) -> list[v1.BoundPod]:
    return [pod for group in one.groups for s in group.pod_sets for pod in s.bound_pods]
