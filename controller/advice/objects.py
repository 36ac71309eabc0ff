"""The objects of a cluster in which another scheduler binds, as the watches report them."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.cluster.gang_state import Body, Key, key_of, node_of
from placement.advice_marks import ADVICE
from placement.kubernetes.objects import POD
from placement.kubernetes.trimming import Trimmer, without_marks
from placement.resources import PODS, Resource


@dataclass(frozen=True, slots=True, eq=False)
class Objects:
    """All objects at one moment, by their resource. Nothing in it may be changed."""

    revision: int
    stores: Mapping[Resource, Mapping[Key, Body]] = field(default_factory=dict)

    def of(self, resource: Resource) -> Mapping[Key, Body]:
        """The objects of one kind, by namespace and name."""
        return self.stores.get(resource, {})

    @property
    def pods(self) -> Mapping[Key, Body]:
        return self.of(PODS)


class ObjectCache:
    """What is known of the cluster. May be used by several threads."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._changed = threading.Condition()
        self._stores: dict[Resource, dict[Key, Body]] = {one: {} for one in resources}
        self._synced: set[Resource] = set()
        self._revision = 0
        self._trimmer = Trimmer(annotations=(ADVICE,))

    def of(self, resource: Resource) -> ResourceCache:
        """Where the watch of one resource stores what it sees."""
        return ResourceCache(self, resource)

    @property
    def is_synced(self) -> bool:
        """Whether every kind was listed."""
        return not self.unread

    @property
    def unread(self) -> Collection[str]:
        """The kinds that were not listed yet."""
        with self._changed:
            return {f"{r.api_version}/{r.kind}" for r in self._stores.keys() - self._synced}

    @property
    def revision(self) -> int:
        """A number that grows with every change."""
        with self._changed:
            return self._revision

    def view(self) -> Objects:
        """The objects as they are now."""
        with self._changed:
            stores = {resource: dict(store) for resource, store in self._stores.items()}
            return Objects(self._revision, stores)

    def wait(self, revision: int, timeout: float) -> None:
        """Waits until there is something newer, for so many seconds at most."""
        with self._changed:
            self._changed.wait_for(lambda: self._revision != revision, timeout)

    def wake(self) -> None:
        """Ends every `wait`."""
        with self._changed:
            self._revision += 1
            self._changed.notify_all()

    def trimmed(self, body: Mapping[str, Any]) -> Body:
        """An object as it is kept. Adapters read all of a pod that may yet get advice; of all else
        nobody reads more than translation does.
        """
        if body.get("kind") == POD and not node_of(body):
            return {**body, "metadata": without_marks(body)}
        return self._trimmer.trim(body)

    def put(self, resource: Resource, body: Body, *, deleted: bool = False) -> None:
        """One object was made, changed or deleted."""
        key = key_of(body)
        with self._changed:
            store = self._stores[resource]
            if deleted:
                store.pop(key, None)
            elif store.get(key) == body:
                # Nodes say every few seconds that they are still there.
                return
            else:
                store[key] = body
            self._revision += 1
            self._changed.notify_all()

    def replace(self, resource: Resource, bodies: Iterable[Body]) -> None:
        """All objects of a kind; the rest is gone."""
        with self._changed:
            self._stores[resource] = {key_of(body): body for body in bodies}
            self._synced.add(resource)
            self._revision += 1
            self._changed.notify_all()

    def unsync(self, resource: Resource) -> None:
        """A kind counts as unknown until it is listed again."""
        with self._changed:
            self._synced.discard(resource)


class ResourceCache:
    """The part of an `ObjectCache` that one watch fills; kinds of the same name are apart."""

    def __init__(self, cache: ObjectCache, resource: Resource) -> None:
        self._cache = cache
        self._resource = resource

    def observe(self, kind: str, body: Mapping[str, Any], *, deleted: bool = False) -> None:
        """One object was made, changed or deleted."""
        self._cache.put(self._resource, self._cache.trimmed(body), deleted=deleted)

    def replace(self, kind: str, bodies: Iterable[Body]) -> None:
        """All objects of the kind."""
        self._cache.replace(self._resource, bodies)

    def unsync(self, kind: str) -> None:
        """The kind counts as unknown until it is listed again."""
        self._cache.unsync(self._resource)

    def trimmed(self, bodies: Iterable[Mapping[str, Any]]) -> list[Body]:
        """Objects as they are kept."""
        return [self._cache.trimmed(body) for body in bodies]
