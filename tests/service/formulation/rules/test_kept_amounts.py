"""Sums of what counts in a queue where those below keep something for themselves."""

from __future__ import annotations

import random
from collections.abc import Mapping

from placement_service.entities.queues import Queue
from placement_service.entities.request import CPU
from placement_service.formulation.rules.kept_amounts import KeptAmounts


def _kept(amount: int) -> dict[str, int]:
    return {CPU: amount} if amount else {}


def _count(queues: Mapping[str, Queue], own: Mapping[str, int], name: str) -> int:
    """What counts in a queue, as it is defined."""
    below = (q for q in queues.values() if q.parent == name)
    beyond = (_count(queues, own, q.name) - q.kept.get(CPU, 0) for q in below)
    return own.get(name, 0) + sum(max(0, n) for n in beyond)


def _used(queues: Mapping[str, Queue], own: Mapping[str, int], name: str) -> int:
    below = (q.name for q in queues.values() if q.parent == name)
    return own.get(name, 0) + sum(_used(queues, own, one) for one in below)


def _path(queues: Mapping[str, Queue], name: str) -> set[str]:
    return {name, *_path(queues, queues[name].parent)} if name in queues else set()


def _largest(kept: KeptAmounts, queues: Mapping[str, Queue], new: Mapping[str, int]) -> int:
    """The largest sum of the queue "top" with what comes anew."""
    return max(
        kept.used("top", one)
        - one.kept
        + sum(n for q, n in new.items() if one.left_out.isdisjoint(_path(queues, q)))
        for one in kept.sums("top").counted
    )


def test_the_largest_sum_is_what_counts() -> None:
    for seed in range(300):
        chance = random.Random(seed)
        queues = {"top": Queue("top")}
        for i in range(chance.randint(1, 6)):
            parent, kept_of_it = chance.choice(list(queues)), chance.choice((0, 0, 1, 2, 3))
            queues[f"q{i}"] = Queue(f"q{i}", parent, kept=_kept(kept_of_it))
        own = {name: chance.randint(0, 3) for name in queues}
        asking = {name: 3 for name in queues if chance.random() < 0.5}
        asked = {name: _used(queues, asking, name) for name in queues}
        used = {name: _used(queues, own, name) for name in queues}
        kept = KeptAmounts(list(queues.values()), CPU, used, asked)
        assert kept.now("top") == _count(queues, own, "top")
        new = {name: chance.randint(0, 3) for name in asking}
        with_new = {name: own[name] + new.get(name, 0) for name in queues}
        assert kept.sums("top").exact
        assert _largest(kept, queues, new) == _count(queues, with_new, "top")


def test_where_there_are_too_many_sums_none_is_too_small() -> None:
    """Of 20 queues that keep 2 each 1 is used: what comes may count from the first on."""
    queues = {"top": Queue("top")}
    queues |= {f"q{i}": Queue(f"q{i}", "top", kept=_kept(2)) for i in range(20)}
    used = {name: 20 if name == "top" else 1 for name in queues}
    asked = {name: 60 if name == "top" else 3 for name in queues}
    strict, loose = (
        KeptAmounts(list(queues.values()), CPU, used, asked, loose=loose) for loose in (False, True)
    )
    assert not strict.sums("top").exact
    assert len(strict.sums("top").counted) <= 256
    for seed in range(30):
        chance = random.Random(seed)
        new = {name: chance.randint(0, 3) for name in queues if name != "top"}
        counts = sum(max(0, n - 1) for n in new.values())
        assert _largest(loose, queues, new) <= counts <= _largest(strict, queues, new)
