"""A witness that sees all that happens to nodes, pods and gangs, and judges each event.

    with Witness(cluster) as witness:      # before the first object is made
        ...
    # Raises AssertionError here if at any moment a rule was broken.

The events of the watches are put into the order in which they happened, which the revisions of
the one etcd behind them give, and judged one by one (see `event_judge`): not only what a test
finds when it looks, but every state that ever was.
"""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Collection
from functools import partial
from typing import Self

from tests.cluster.api import NODES, POD_GANGS, PODS, Body, Resource
from tests.cluster.fixtures import Cluster
from tests.cluster.informer import Informer
from tests.controller.event_judge import ALL, Event, Half, Judge, Rule
from tests.controller.object_facts import (
    uid_of,
)
from tests.waiting import wait_until


class Witness:
    """Watches a cluster while a block runs, and judges what happened at its end.

    Also `check`, at any moment of the block. Other threads may go on meanwhile.
    """

    def __init__(
        self, cluster: Cluster, rules: Collection[Rule] = ALL, *, grace: float = 0.0
    ) -> None:
        self._api = cluster.api
        self._judge = Judge(rules, grace=grace)
        self._lock = threading.Lock()
        self._heard: list[Event] = []
        #: The newest version heard of, by kind and uid; of what is gone for good as well.
        self._versions: dict[tuple[Resource, str], int] = {}
        self._gone: set[tuple[Resource, str]] = set()
        self._is_old = True
        self._informers = [
            Informer(cluster.api, resource, partial(self._hear, resource))
            for resource in (NODES, POD_GANGS, PODS)
        ]

    @property
    def pods_bound(self) -> int:
        """How many pods were bound, until the last check."""
        return len(self._judge.nodes_of)

    @property
    def halves(self) -> tuple[Half, ...]:
        """When gangs were half bound, until the last check."""
        return tuple(self._judge.halves)

    def __enter__(self) -> Self:
        for informer in self._informers:
            informer.start()
        self._is_old = False
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._catch_up()
        finally:
            for informer in self._informers:
                informer.stop()
        self._pass_on(math.inf)
        self._judge.end(time.monotonic())
        print(self.figures())
        if kind is None:
            assert not self._judge.broken, self._reported()
        elif self._judge.broken:
            print(self._reported())

    def check(self) -> None:
        """Raises AssertionError if a rule was broken so far."""
        self._pass_on(self._catch_up())
        assert not self._judge.broken, self._reported()

    def figures(self) -> str:
        """How many gangs were half bound, and for how long."""
        told = [f"{self.pods_bound} pods were bound"]
        for lost, what in ((False, "half bound while binding"), (True, "after a loss")):
            seconds = [half.seconds * 1000 for half in self.halves if half.lost is lost]
            if seconds:
                told.append(
                    f"{len(seconds)} times {what}: median {statistics.median(seconds):.0f} ms,"
                    f" longest {max(seconds):.0f} ms"
                )
        return "; ".join(told)

    def _hear(self, resource: Resource, body: Body, is_gone: bool) -> None:
        event = Event(resource, body, is_gone, time.monotonic(), self._is_old)
        key = resource, uid_of(body)
        with self._lock:
            self._heard.append(event)
            self._versions[key] = max(event.revision, self._versions.get(key, 0))
            if is_gone:
                self._gone.add(key)

    def _catch_up(self) -> int:
        """Waits until all is heard of that had happened when it was called; the revision
        of that moment."""
        revisions = []
        for resource in (NODES, POD_GANGS, PODS):
            listing = self._api.listing(resource)
            revisions.append(int(listing["metadata"]["resourceVersion"]))
            wait_until(partial(self._has_heard, resource, listing), "the witness has heard all")
        return min(revisions)

    def _has_heard(self, resource: Resource, listing: Body) -> bool:
        revision = int(listing["metadata"]["resourceVersion"])
        there = {uid_of(one): int(one["metadata"]["resourceVersion"]) for one in listing["items"]}
        with self._lock:
            known = {uid: v for (kind, uid), v in self._versions.items() if kind is resource}
            return all(known.get(uid, 0) >= version for uid, version in there.items()) and all(
                uid in there or version > revision or (resource, uid) in self._gone
                for uid, version in known.items()
            )

    def _pass_on(self, until: float) -> None:
        """Lets everything be judged that happened until a revision, in its order."""
        with self._lock:
            due = [event for event in self._heard if event.is_old or event.revision <= until]
            self._heard = [
                event for event in self._heard if not event.is_old and event.revision > until
            ]
        # Of what was there before, gangs are known before their pods are looked at.
        order = {NODES: 0, POD_GANGS: 1, PODS: 2}
        due.sort(key=lambda e: (not e.is_old, order[e.resource] if e.is_old else e.revision))
        for event in due:
            self._judge.see(event)

    def _reported(self) -> str:
        return "\n".join(["what must hold did not:", *self._judge.broken[:20]])
