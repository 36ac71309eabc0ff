"""Full clusters that queues of two organisations share: small gangs wait where large pods run.

So one pod may give way for several gangs, of which some reclaim and others stand above it.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from placement_service.entities.queues import GPUS, Queue
from placement_service.entities.request import PodGang, Snapshot
from tests.service.evictions import running
from tests.service.questions import gang, node
from tests.strategies.words import NOW

#: Queues by their organisation, one of which mostly has less than it is guaranteed.
_SHORT = ("queues/a0", "queues/a1")
_RICH = ("queues/b0", "queues/b1")


def _queues(draw: st.DrawFn) -> tuple[Queue, ...]:
    def guaranteed(*amounts: int) -> dict[str, int]:
        return {GPUS: draw(st.sampled_from(amounts))}

    return (
        Queue("queues/a", guaranteed=guaranteed(4, 6, 8, 10, 12)),
        Queue("queues/b", guaranteed=guaranteed(0, 0, 4, 8)),
        *(Queue(name, "queues/a", guaranteed=guaranteed(0, 4, 8)) for name in _SHORT),
        *(Queue(name, "queues/b", guaranteed=guaranteed(0, 0, 4)) for name in _RICH),
    )


@st.composite
def contested_clusters(draw: st.DrawFn) -> Snapshot:
    """Up to three nodes with 8 GPUs each, three gangs that run, and four that wait."""
    free = [8] * draw(st.integers(1, 3))
    gangs: list[PodGang] = []
    for r in range(draw(st.integers(1, 3))):
        gpus, at = draw(st.sampled_from([2, 4, 8, 8])), []
        for _ in range(draw(st.integers(1, 2))):
            able = [i for i, left in enumerate(free) if left >= gpus]
            if able:
                at.append(draw(st.sampled_from(able)))
                free[at[-1]] -= gpus
        if at:
            priority, minimum = draw(st.sampled_from([0, 0, 10])), draw(st.sampled_from([None, 1]))
            names = [f"n{i}" for i in at]
            one = running(f"r{r}", *names, gpus=gpus, priority=priority, minimum=minimum)
            gangs.append(replace(one, queue=draw(st.sampled_from([*_RICH, *_RICH, *_SHORT]))))
    for w in range(draw(st.integers(1, 4))):
        one = gang(f"w{w}", pods=draw(st.integers(1, 2)), gpus=draw(st.sampled_from([1, 2, 4, 4])))
        gangs.append(
            replace(
                one,
                priority=draw(st.sampled_from([0, 0, 0, 10])),
                queue=draw(st.sampled_from([*_SHORT, *_SHORT, *_RICH])),
                created=NOW - draw(st.integers(0, 1000)),
            )
        )
    nodes = tuple(node(f"n{i}", used=8 - left) for i, left in enumerate(free))
    return Snapshot(nodes, tuple(gangs), as_of=NOW, queues=_queues(draw))
