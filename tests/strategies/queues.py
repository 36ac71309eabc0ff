"""Trees of queues, and which gangs are in them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from placement_service.entities.queues import GPUS, Queue
from placement_service.entities.request import CPU, PodGang

memberships = st.tuples(
    st.sampled_from(["", "queues/a", "queues/b", "queues/c", "queues/c"]), st.booleans()
)


def in_a_queue(gang: PodGang, queue: str, fixed: bool) -> PodGang:
    return replace(gang, queue=queue, not_preemptible=fixed)


@st.composite
def queue_trees(draw: st.DrawFn) -> tuple[Queue, ...]:
    """Queues a and b, with c in one of them; gangs may also name one that is not there."""
    limits = st.dictionaries(st.sampled_from([GPUS, CPU]), st.integers(0, 8), max_size=2)
    amounts: st.SearchStrategy[dict[str, int]] = st.one_of(st.just({}), limits)
    queues = [
        Queue(
            f"queues/{name}",
            parent,
            limit=draw(amounts),
            guaranteed=draw(amounts),
            used=draw(st.sampled_from([{}, {}, {GPUS: 2}])),
        )
        for name, parent in (("a", ""), ("b", ""), ("c", draw(st.sampled_from(["queues/a", ""]))))
    ]
    return tuple(queues[: draw(st.sampled_from([3, 3, 2]))])
