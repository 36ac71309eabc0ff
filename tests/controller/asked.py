"""What the controller asks about a cluster of one node and these objects."""

from __future__ import annotations

from controller.asking.request import NOTHING_KEPT, Query, QueryOptions, build_query
from controller.batch import Backoff, refreshed
from controller.cluster.cache import ClusterCache
from controller.cluster.gangs.gated import Kept
from tests.controller.bodies import OURS
from tests.kubernetes import build


def cache_of(*bodies: build.Body) -> ClusterCache:
    cache = ClusterCache(OURS)
    for body in (build.node("n1"), *bodies):
        cache.observe(body["kind"], body)
    return cache


def ask(
    cache: ClusterCache,
    *,
    most: int = 100,
    also: tuple[str, ...] = (),
    kept: Kept = NOTHING_KEPT,
) -> Query:
    view = cache.view()
    queue = refreshed({}, view.states, freed=view.freed, now=0.0, backoff=Backoff(1.0, 60.0))
    return build_query(
        view,
        queue,
        QueryOptions(OURS, most),
        also=[("ml", name) for name in also],
        kept=kept,
    )


def sent(query: Query) -> list[str]:
    """The names of the gangs in the request."""
    return [gang.name.rpartition("/")[2] for gang in query.request.gangs]
