"""The cluster as the watches report it, with the bindings that they have not reported yet.

`ClusterCache` takes events from the threads of the watches and hands out a `ClusterView`
of one moment. A pod that we have bound counts as bound from then on ("assumed"), until the
watch shows it bound, or gone. Objects are kept trimmed (see `placement.kubernetes.trimming`);
equal parts are stored once.

It holds no plan and decides nothing: after a restart all of it comes from the cluster.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from controller.cluster.gang_state import (
    Body,
    GangState,
    Key,
    is_free,
    is_ours,
    key_of,
    node_of,
    references,
    state_of,
)
from controller.cluster.gangs.others import POD_GROUPS, other_gangs
from controller.cluster.view import ClusterView
from controller.cluster.watch import Sink
from placement.kubernetes.objects import (
    CLUSTER_TOPOLOGY_BINDING,
    NODE,
    POD,
    POD_GANG,
    PRIORITY_CLASS,
)
from placement.kubernetes.trimming import Trimmer
from placement.resources import Resource

KINDS: Final = (NODE, POD, PRIORITY_CLASS, POD_GANG, CLUSTER_TOPOLOGY_BINDING)


@dataclass(frozen=True, slots=True)
class Assumed:
    """A binding that we made, or began to make."""

    uid: str
    node: str
    notes: tuple[tuple[str, str], ...] = ()


class ClusterCache:
    """What is known of the cluster. May be used by several threads."""

    def __init__(
        self,
        scheduler_name: str,
        *,
        others: Iterable[Resource] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scheduler_name = scheduler_name
        self._clock = clock
        self._changed = threading.Condition()
        self._trimmer = Trimmer()
        self._others = {_store_of(resource): resource for resource in others}
        self._stores: dict[str, dict[Key, Body]] = {k: {} for k in (*KINDS, *self._others)}
        self._synced: set[str] = set()
        self._assumed: dict[Key, Assumed] = {}
        self._revision = 0
        self._freed = 0
        self._node_revisions: dict[str, int] = {}
        # Gangs by the pods that they refer to, and those whose state must be computed again.
        self._owners: dict[Key, set[Key]] = {}
        self._states: dict[Key, GangState] = {}
        self._stale: set[Key] = set()
        self._unreferenced: set[Key] = set()
        self._vacated_nodes: dict[Key, tuple[str, ...]] = {}
        # PodGangs that stand for gangs of other kinds, and whether they are to be made again.
        self._stand_ins: set[Key] = set()
        self._regroup = False

    def of(self, resource: Resource) -> Sink:
        """Where the watch of one resource stores what it sees; kinds of the same name are kept
        apart.
        """
        store = _store_of(resource)
        return _Store(self, store) if store in self._others else self

    # What the watches report.

    def observe(self, kind: str, body: Mapping[str, Any], *, deleted: bool = False) -> None:
        """One object was made, changed or deleted."""
        trimmed = None if deleted else self._trimmer.trim(body)
        key = key_of(body)
        with self._changed:
            self._put(kind, key, trimmed)
            self._changed.notify_all()

    def replace(self, kind: str, bodies: Iterable[Body]) -> None:
        """All objects of a kind, as a list shows them (see `trimmed`); the rest is gone."""
        there = {key_of(body): body for body in bodies}
        with self._changed:
            kept = self._stand_ins if kind == POD_GANG else set()
            for key in self._stores[kind].keys() - there.keys() - kept:
                self._put(kind, key, None)
            for key, body in there.items():
                self._put(kind, key, body)
            self._synced.add(kind)
            self._revision += 1
            self._changed.notify_all()

    def trimmed(self, bodies: Iterable[Mapping[str, Any]]) -> list[Body]:
        """Objects as the cache keeps them, so that a long list is never held whole."""
        return [self._trimmer.trim(body) for body in bodies]

    def unsync(self, kind: str) -> None:
        """Until it is listed again a kind counts as unknown, and so do the bindings that no watch
        has confirmed: the list will show them.
        """
        with self._changed:
            self._synced.discard(kind)
            if kind == POD:
                for key, assumed in tuple(self._assumed.items()):
                    self.forget(key, assumed.uid)

    @property
    def is_synced(self) -> bool:
        """Whether every kind was listed."""
        return not self.unread

    @property
    def unread(self) -> Collection[str]:
        """The kinds that were not listed yet."""
        with self._changed:
            return self._stores.keys() - self._synced

    # What we did ourselves.

    def assume(
        self, key: Key, uid: str, node: str, notes: tuple[tuple[str, str], ...] = ()
    ) -> None:
        """The pod counts as bound from now on, with these annotations."""
        with self._changed:
            pod = self._stores[POD].get(key)
            if pod is not None and pod["metadata"].get("uid", "") == uid and not node_of(pod):
                self._assumed[key] = Assumed(uid, node, notes)
                self._touch_pod(key)

    def forget(self, key: Key, uid: str) -> None:
        """The pod was not bound after all."""
        with self._changed:
            assumed = self._assumed.get(key)
            if assumed is not None and assumed.uid == uid:
                del self._assumed[key]
                self._freed += 1
                self._touch_pod(key)

    @property
    def assumed(self) -> Mapping[Key, Assumed]:
        """The bindings that no watch has confirmed yet."""
        with self._changed:
            return dict(self._assumed)

    # What readers see.

    @property
    def revision(self) -> int:
        """Grows with every change."""
        with self._changed:
            return self._revision

    def wait(self, revision: int, timeout: float) -> int:
        """Waits until there is something newer, for so many seconds at most."""
        with self._changed:
            self._changed.wait_for(lambda: self._revision != revision, timeout)
            return self._revision

    def wake(self) -> None:
        """Ends every `wait`."""
        with self._changed:
            self._revision += 1
            self._changed.notify_all()

    def view(self) -> ClusterView:
        """The cluster as it is now."""
        with self._changed:
            if self._regroup:
                self._make_stand_ins()
            pods = dict(self._stores[POD])
            for key, assumed in self._assumed.items():
                pods[key] = _bound(pods[key], assumed)
            for key in self._stale:
                gang = self._stores[POD_GANG].get(key)
                if gang is None:
                    self._states.pop(key, None)
                else:
                    self._states[key] = state_of(
                        gang, pods, self._scheduler_name, has_node=self._has_node
                    )
            self._stale.clear()
            return ClusterView(
                revision=self._revision,
                freed=self._freed,
                node_revisions=dict(self._node_revisions),
                nodes=dict(self._stores[NODE]),
                pods=pods,
                gangs=dict(self._stores[POD_GANG]),
                priority_classes=dict(self._stores[PRIORITY_CLASS]),
                topology_bindings=dict(self._stores[CLUSTER_TOPOLOGY_BINDING]),
                states=dict(self._states),
                unreferenced=frozenset(self._unreferenced),
                vacated_nodes=dict(self._vacated_nodes),
                others={
                    resource: dict(self._stores[store]) for store, resource in self._others.items()
                },
            )

    def pod(self, key: Key) -> Body | None:
        """One pod as it is now, None when it is gone."""
        with self._changed:
            pod = self._stores[POD].get(key)
            assumed = self._assumed.get(key)
            return pod if pod is None or assumed is None else _bound(pod, assumed)

    def state(self, key: Key) -> GangState | None:
        """The state of one gang now, None when it is gone."""
        with self._changed:
            gang = self._stores[POD_GANG].get(key)
            if gang is None:
                return None
            members = {
                pod: body
                for _, pods in references(gang)
                for pod in pods
                if (body := self.pod(pod)) is not None
            }
            return state_of(gang, members, self._scheduler_name, has_node=self._has_node)

    def node_revision(self, node: str) -> int | None:
        """When another writer last changed a node (see `ClusterView`), None when it is gone."""
        with self._changed:
            return self._node_revisions.get(node, 0) if self._has_node(node) else None

    # Under the lock.

    def _put(self, kind: str, key: Key, body: Body | None) -> None:
        store = self._stores[kind]
        before = store.get(key)
        if before == body:
            return
        if body is None:
            del store[key]
        else:
            store[key] = body
        self._revision += 1
        if kind == POD:
            self._note_node_change(key, before, body)
            self._remember(key, before, body)
            self._settle_assumed(key, body)
            self._freed += _frees_capacity(before, body)
            self._touch_pod(key)
            self._regroup |= any(
                one is not None and is_ours(one, self._scheduler_name) for one in (before, body)
            )
        elif kind == POD_GANG:
            self._stand_ins.discard(key)
            self._regroup = True
            self._index(key, before, body)
        else:
            self._regroup |= self._others.get(kind) in POD_GROUPS
            # Priorities and levels change the order of gangs, and nodes change where pods may go.
            self._freed += 1
            if kind == NODE:
                if body is None:
                    self._node_revisions.pop(key[1], None)
                else:
                    self._node_revisions[key[1]] = self._revision
                if before is None or body is None:
                    # Rare enough to compute every gang again: some of its pods may be lost.
                    self._stale.update(self._stores[POD_GANG])

    def _make_stand_ins(self) -> None:
        """Renews the PodGangs that stand for gangs of other kinds."""
        self._regroup = False
        real = {
            key: gang for key, gang in self._stores[POD_GANG].items() if key not in self._stand_ins
        }
        referred = {pod for gang in real.values() for _, pods in references(gang) for pod in pods}
        pods = {
            key: pod
            for key, pod in self._stores[POD].items()
            if key not in referred and is_ours(pod, self._scheduler_name)
        }
        others = [body for store in self._others for body in self._stores[store].values()]
        others += self._stores[PRIORITY_CLASS].values()
        found = other_gangs(pods, others, real.keys()) if pods else {}
        for key in self._stand_ins - found.keys():
            self._put(POD_GANG, key, None)
        for key, gang in found.items():
            self._put(POD_GANG, key, gang)
        self._stand_ins = set(found)
        self._regroup = False

    def _note_node_change(self, key: Key, before: Body | None, body: Body | None) -> None:
        """Notes that somebody else's pod came to a node, or takes more of it."""
        if body is None or not (node := node_of(body)) or not self._has_node(node):
            return
        assumed = self._assumed.get(key)
        as_planned = (
            assumed is not None
            and assumed.node == node
            and assumed.uid == body["metadata"].get("uid", "")
        )
        if not as_planned and (before is None or before["spec"] != body["spec"]):
            self._node_revisions[node] = self._revision

    def _remember(self, key: Key, before: Body | None, body: Body | None) -> None:
        """Notes the node that a pod leaves, for the pod that will replace it: images and models are
        still there. Grove removes the reference once the pod is being deleted.
        """
        if before is None or not (node := node_of(before)):
            return
        stays = (
            body is not None
            and body["metadata"].get("uid") == before["metadata"].get("uid")
            and not body["metadata"].get("deletionTimestamp")
        )
        for gang in () if stays else self._owners.get(key, ()):
            others = (other for other in self._vacated_nodes.get(gang, ()) if other != node)
            self._vacated_nodes[gang] = (*others, node)[-_size(self._stores[POD_GANG][gang]) :]

    def _settle_assumed(self, key: Key, body: Body | None) -> None:
        assumed = self._assumed.get(key)
        if assumed is None:
            return
        if body is None or body["metadata"].get("uid", "") != assumed.uid or node_of(body):
            del self._assumed[key]
            # Bound as we assumed: nothing is new. Anything else leaves room.
            self._freed += body is None or node_of(body) != assumed.node

    def _index(self, key: Key, before: Body | None, body: Body | None) -> None:
        for gang, add in ((before, False), (body, True)):
            for _, pods in references(gang) if gang is not None else ():
                for pod in pods:
                    owners = self._owners.setdefault(pod, set())
                    if add:
                        owners.add(key)
                    else:
                        owners.discard(key)
                    if not owners:
                        del self._owners[pod]
                    self._sort_out(pod)
        self._stale.add(key)
        if body is None:
            self._vacated_nodes.pop(key, None)

    def _touch_pod(self, key: Key) -> None:
        self._revision += 1
        self._stale |= self._owners.get(key, set())
        self._sort_out(key)
        self._changed.notify_all()

    def _sort_out(self, key: Key) -> None:
        """Updates whether a pod is unreferenced."""
        pod = self._stores[POD].get(key)
        if (
            pod is not None
            and is_free(pod, self._scheduler_name)
            and key not in self._assumed
            and key not in self._owners
        ):
            self._unreferenced.add(key)
        else:
            self._unreferenced.discard(key)

    def _has_node(self, name: str) -> bool:
        return ("", name) in self._stores[NODE]


class _Store:
    """The part of a `ClusterCache` that the watch of one further kind fills."""

    def __init__(self, cache: ClusterCache, store: str) -> None:
        self._cache = cache
        self._store = store

    def observe(self, kind: str, body: Mapping[str, Any], *, deleted: bool = False) -> None:
        self._cache.observe(self._store, body, deleted=deleted)

    def replace(self, kind: str, bodies: Iterable[Body]) -> None:
        self._cache.replace(self._store, bodies)

    def unsync(self, kind: str) -> None:
        self._cache.unsync(self._store)

    def trimmed(self, bodies: Iterable[Mapping[str, Any]]) -> list[Body]:
        return self._cache.trimmed(bodies)


def _store_of(resource: Resource) -> str:
    return f"{resource.api_version}/{resource.kind}"


def _bound(pod: Body, assumed: Assumed) -> Body:
    bound = {**pod, "spec": {**pod["spec"], "nodeName": assumed.node}}
    if assumed.notes:
        metadata = pod["metadata"]
        annotations = {**(metadata.get("annotations") or {}), **dict(assumed.notes)}
        bound["metadata"] = {**metadata, "annotations": annotations}
    return bound


def _size(gang: Body) -> int:
    """How many pods a gang has. Grove has removed the references to pods that it lost."""
    return sum(max(len(pods), group.get("minReplicas") or 0, 1) for group, pods in references(gang))


def _frees_capacity(before: Body | None, after: Body | None) -> bool:
    """Whether a pod left a node, or asks for something else on it."""
    if before is None or not node_of(before):
        return False
    return (
        after is None
        or before["metadata"].get("uid") != after["metadata"].get("uid")
        or before["spec"] != after["spec"]
    )
