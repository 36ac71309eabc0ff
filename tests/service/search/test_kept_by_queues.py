"""What queues keep for themselves, in plans: all rules are held against the oracle elsewhere."""

from __future__ import annotations

from dataclasses import replace

from placement_service.entities.queues import GPUS, Queue
from placement_service.entities.request import Policy, Snapshot
from tests.judged import no_answer_is_false, oracle
from tests.service.questions import gang, node

#: Two lend 2 of their 8 GPUs each to "borrows", which has none.
QUEUES = (
    Queue("queues/all", limit={GPUS: 4}),
    Queue("queues/borrows", "queues/all"),
    *(Queue(f"queues/{name}", "queues/all", kept={GPUS: 6}) for name in "ab"),
)


def _placed(*asked: tuple[str, int]) -> set[int]:
    """The numbers of the gangs that are placed, which is proven to be the best."""
    gangs = tuple(
        replace(gang(f"g{i}", pods=1, gpus=gpus), queue=f"queues/{name}")
        for i, (name, gpus) in enumerate(asked)
    )
    nodes = tuple(node(f"n{i}", gpus=8) for i in range(3))
    question = Snapshot(nodes, gangs, queues=QUEUES)
    best = oracle(question, Policy())
    assert no_answer_is_false(best, question, Policy())
    return {int(binding.pod.rpartition("/g")[2].partition("-")[0]) for binding in best.plan}


def test_what_several_keep_nobody_borrows() -> None:
    borrows = ("borrows", 2)
    placed = _placed(("a", 6), ("b", 6), borrows, borrows, borrows)
    assert len(placed) == 4
    assert {0, 1} < placed


def test_what_is_kept_and_not_used_is_for_nobody() -> None:
    """Of the first 2 GPUs count, so that 2 are left."""
    assert _placed(("a", 8), ("borrows", 4)) == {0}
    assert _placed(("a", 6), ("borrows", 4)) == {0, 1}
