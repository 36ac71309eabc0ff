"""Blocks beside pods that stay: the columns say of every board just what is left of it."""

from __future__ import annotations

import random
from itertools import combinations, product

import pytest

from placement_service.entities.devices import Device
from placement_service.entities.request import Node
from placement_service.formulation.devices.boards import without
from placement_service.formulation.devices.device_blocks import DeviceBlocks
from placement_service.formulation.devices.homes import HomeColumns, HomePod, SetKey, ways_to_stay
from placement_service.formulation.devices.wants import Want
from tests.service.boards import board

WANTS = [Want(4), Want(2), Want(1), Want(1, 500, 500, whole=False)]


def random_homes(rng: random.Random) -> tuple[Node, list[HomePod]]:
    """A board of eight GPUs, some in use for good, and pods on some of the others."""
    free = rng.sample(range(8), 8)
    node = board(*(free.pop() for _ in range(rng.randint(0, 2))))
    pods = []
    for k in range(rng.randint(1, 3)):
        size = rng.choice([1, 1, 2])
        devices = tuple(sorted(free.pop() for _ in range(size)))
        # Two halves on one GPU, or a pod with all of its devices.
        if size == 1 and rng.random() < 0.5:
            half = Want(1, 500, 500, whole=False)
            pods += [HomePod(SetKey(k, 0, part), devices, half, (k, part)) for part in (0, 1)]
        else:
            pods.append(HomePod(SetKey(k, 0, 0), devices, Want(size), k))
    return node, pods


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_columns_say_what_is_left_beside_those_that_stay(seed: int, moves: bool) -> None:
    rng = random.Random(seed)
    node, pods = random_homes(rng)
    blocks = DeviceBlocks([node], WANTS)
    columns = HomeColumns(blocks, {node.name: node}, {node.name: pods}, moves=moves)
    offers = columns.offers(node)
    for number in range(len(pods) + 1):
        for staying in combinations(pods, number):
            stays = [columns.takes(pod.key, pod.want) for pod in staying]
            really = blocks.offers(_with(node, staying))
            for counts in product(*(range(rng.choice([1, 2, 3])) for _ in WANTS)):
                news = [columns.takes(SetKey(99, 0, 0), w) for w in WANTS]
                said = all(
                    sum(t.get(c, 0) for t in stays)
                    + sum(n * t.get(c, 0) for n, t in zip(counts, news, strict=True))
                    <= most
                    for c, most in offers.items()
                )
                fits = all(
                    sum(n * blocks.takes(w).get(c, 0) for n, w in zip(counts, WANTS, strict=True))
                    <= most
                    for c, most in really.items()
                )
                assert said == fits, (staying, counts)


def _with(node: Node, pods: tuple[HomePod, ...]) -> Node:
    """The node with pods on their devices: what they leave, the other way round."""
    loads = [
        (pod.devices, pod.want._replace(compute=-pod.want.compute, memory=-pod.want.memory))
        for pod in pods
    ]
    return without(node, loads)


def test_too_many_shares_that_go_alone_cannot_be_told_apart() -> None:
    half = Want(1, 500, 500, whole=False)
    node = Node("h0", devices=tuple(Device(i) for i in range(8)))
    pods = [HomePod(SetKey(i, 0, 0), (i // 2,), half, i) for i in range(16)]
    blocks = DeviceBlocks([node], [Want(1)])
    assert ways_to_stay(blocks, node, pods[:8]) == 2**4
    assert ways_to_stay(blocks, node, pods) is None
    # Of gangs that go whole there is less to tell apart.
    assert ways_to_stay(blocks, node, [p._replace(tie=0) for p in pods]) == 1
