"""The rules that all advice obeys, whatever scheduler it is for.

1. It is written whole or taken back whole: first on every pod of the gang, as an annotation;
   only then does the adapter act on it.
2. Right before, the pods and the nodes are read again. If something has changed, that is a
   conflict, and nothing is written. They are read once more where time passes before anything is
   final: while room is only held, or between a crash and the next leader.
3. It expires. Advice that was not followed by then is taken back.
4. Its result is counted, and written on the pods and in an event.
5. A pod that its kubelet refuses although it was put where advised is a conflict, too.
6. The next leader after a crash finds the annotations: whole advice is carried on, and advice
   that is not whole is taken back.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import ClassVar, Final

from controller.advice.adapter import Adapter, Progress
from controller.advice.advice import Advice, End, Mark, read_advice
from controller.advice.minimum import shortage
from controller.advice.objects import Objects
from controller.advice.pod_patches import annotate, gates, set_condition
from controller.advice.rejections import Rejections
from controller.advice.room import fingerprint, overbooked, what_pods_meet
from controller.binding.apply import Binding
from controller.cluster.gang_state import Body, Key, node_of
from controller.reports.events import Recorder
from controller.runtime.clocks import CLOCKS, Clocks
from placement.advice_marks import ADVICE, GATE
from placement.cluster import ApiError, Cluster
from placement.kubernetes import InputError
from placement.kubernetes.pods.pods import KAI_GROUP
from placement.resources import NODES, PODS, UNFINISHED

logger = logging.getLogger(__name__)

_REMEMBERED: Final = 3600.0

_SENTENCES: Final = {
    End.FOLLOWED: "the scheduler followed the advice",
    End.OVERRULED: "the scheduler put pods elsewhere than advised",
    End.EXPIRED: "the scheduler did not follow the advice in time",
    End.CONFLICT: "the cluster changed before the advice was written whole",
    End.LATE: "no advice came in time: the scheduler decides alone",
}


class AdviceLifecycle:
    """Begins, carries on and ends advice, which holds for `ttl` seconds."""

    #: Seconds after which the watches must have shown what was written.
    catch_up: ClassVar[float] = 10.0

    def __init__(
        self,
        cluster: Cluster,
        adapters: Iterable[Adapter],
        recorder: Recorder,
        executor: Executor,
        *,
        ttl: float,
        may_act: Callable[[], bool],
        count: Callable[[str, End], None] = lambda adapter, end: None,
        clocks: Clocks = CLOCKS,
    ) -> None:
        self._cluster = cluster
        self._adapters: Mapping[str, Adapter] = {one.name: one for one in adapters}
        self._recorder = recorder
        self._executor = executor
        self._ttl = ttl
        self._clocks = clocks
        self._may_act = may_act
        self._count = count
        self._rejections = Rejections(cluster, clocks.steady)
        # When advice was begun, and when it ended, as far as the watches have not shown it yet.
        self._begun: dict[Mark, float] = {}
        self._ended: dict[Mark, float] = {}
        # Since when objects remain of advice that is written on no pod.
        self._left: dict[tuple[str, Mark], float] = {}

    def begin(self, advice: Advice, objects: Objects, expected: Collection[str] = ()) -> bool:
        """Writes new advice; returns whether it is written whole. `expected` are the uids of pods
        that other advice of the same answer sends to nodes, and the GPUs that they share.
        """
        try:
            why = self._changed(advice, objects, expected)
            if why:
                return self._conflict(advice, why, ())
            nodes = objects.of(NODES)
            seen = {name: fingerprint(nodes["", name]) for name in set(advice.nodes.values())}
            advice = replace(advice, seen=seen)
            self._begun[advice.mark] = self._clocks.steady()
            written = list(self._executor.map(partial(self._mark, advice), advice.bindings))
            if not all(written):
                gone = advice.bindings[written.index(False)].pod[1]
                return self._conflict(advice, f"pod {gone} is gone", advice.bindings)
            if self._act(advice, objects, is_new=True) is Progress.FAILED:
                self._end(advice, self._adapters[advice.by], objects, End.CONFLICT)
                return False
        except ApiError as error:
            # It may be on some pods: the next look at the cluster shows it.
            logger.warning("advice not written: %s", error, extra=_extra(advice))
            return False
        return True

    def carry_on(self, objects: Objects) -> None:
        """Continues all advice that is written on pods."""
        for memory in (self._begun, self._ended):
            for old in [
                one for one, at in memory.items() if self._clocks.steady() - at > _REMEMBERED
            ]:
                del memory[old]
        self._look_for_rejections(objects)
        standing = read_advice(objects.pods)
        self._sweep(standing, objects)
        for advice in standing.values():
            if not self._may_act():
                return
            try:
                self._carry_on(advice, objects)
            except ApiError as error:
                logger.warning("advice not carried on: %s", error, extra=_extra(advice))

    def release(
        self, adapter: Adapter, gang: Key, pods: Mapping[Key, Body], objects: Objects
    ) -> None:
        """Lets the scheduler decide alone about a gang for which no advice came."""
        try:
            adapter.release(list(pods), objects)
        except ApiError as error:
            logger.warning("not released: %s", error, extra={"gang": "/".join(gang)})
            return
        self._count(adapter.name, End.LATE)
        for key, pod in pods.items():
            self._say(key, pod["metadata"].get("uid", ""), End.LATE)
        self._record(next(iter(pods.items())), End.LATE)

    def _carry_on(self, advice: Advice, objects: Objects) -> None:
        now = self._clocks.wall()
        adapter = self._adapters.get(advice.by)
        if adapter is None:
            # It is from a controller with other settings; `placementctl release` ends it.
            return
        if (ended := self._ended.get(advice.mark)) is not None:
            if self._clocks.steady() - ended >= self.catch_up:
                # The watches would have shown it by now: the API server did not accept it.
                list(self._executor.map(self._unmark, advice.bindings))
                self._ended[advice.mark] = self._clocks.steady()
            return
        begun = self._begun.get(advice.mark, -math.inf)
        if not advice.is_whole and self._clocks.steady() - begun < self.catch_up:
            # Written just now; the watches are yet to show all of it.
            return
        places = {
            binding.pod: node_of(pod)
            for binding in advice.bindings
            if (pod := objects.pods.get(binding.pod)) is not None
        }
        nodes = advice.nodes
        bound = {key: node for key, node in places.items() if node}
        if any(node != nodes[key] for key, node in bound.items()):
            self._end(advice, adapter, objects, End.OVERRULED)
        elif len(bound) == len(advice.bindings):
            # Even if some pods were deleted meanwhile: the others are where they should be.
            self._end(advice, adapter, objects, End.FOLLOWED)
        elif not now < advice.until <= now + self._ttl + self.catch_up:
            # Even if the clock was set back: nothing is held for longer than it may.
            self._end(advice, adapter, objects, End.EXPIRED)
        elif not advice.is_whole or self._act(advice, objects) is Progress.FAILED:
            self._end(advice, adapter, objects, End.CONFLICT)

    def _sweep(self, standing: Collection[Mark], objects: Objects) -> None:
        """Deletes the objects of advice that is written on no pod: all of its pods are gone, or
        somebody removed the annotations, or the API server was late with a request.
        """
        now = self._clocks.steady()
        left = {
            (adapter.name, mark): adapter
            for adapter in self._adapters.values()
            for mark in adapter.left(objects)
            if mark not in standing
        }
        self._left = {one: self._left.get(one, now) for one in left}
        for one, adapter in left.items():
            if now - self._left[one] < self.catch_up:
                continue
            try:
                adapter.sweep(one[1])
            except ApiError as error:
                logger.warning("not deleted: %s", error, extra={"advice": one[1].id})

    def _act(self, advice: Advice, objects: Objects, *, is_new: bool = False) -> Progress:
        adapter = self._adapters[advice.by]
        if not adapter.is_committed(advice, objects):
            progress = adapter.prepare(advice, objects)
            if progress is not Progress.DONE:
                return progress
            if not is_new and (why := self._outdated(advice, objects)):
                logger.info("advice overtaken: %s", why, extra=_extra(advice))
                return Progress.FAILED
        return adapter.act(advice, objects)

    def _outdated(self, advice: Advice, objects: Objects) -> str:
        """Why advice from a while ago is not to be followed any more; empty when it is."""
        adapters, now = list(self._adapters.values()), self._clocks.wall()
        try:
            if lacking := shortage(advice, objects, adapters, now):
                return f"the gang needs more than {lacking}"
            return overbooked(self._cluster, advice, objects, adapters, now, self._executor)
        except InputError as error:
            return f"what is on its nodes cannot be read: {error}"

    def _look_for_rejections(self, objects: Objects) -> None:
        try:
            for one in self._rejections.found(objects):
                logger.warning("refused by its kubelet", extra={"pod": "/".join(one.pod)})
                self._count(one.by, End.CONFLICT)
                self._say(one.pod, one.uid, End.CONFLICT)
        except ApiError as error:
            logger.warning("rejections not looked for: %s", error)

    def _changed(self, advice: Advice, objects: Objects, expected: Collection[str]) -> str:
        """What has changed since the objects were read; empty when nothing that matters has."""
        adapter = self._adapters[advice.by]
        why = self._executor.map(
            lambda binding: self._pod_changed(binding, adapter, objects), advice.bindings
        )
        if found := next(filter(None, list(why)), ""):
            return found
        nodes = sorted(set(advice.nodes.values()))
        why = self._executor.map(
            lambda node: (
                self._node_changed(node, objects) or self._came_to(node, objects, expected)
            ),
            nodes,
        )
        return next(filter(None, list(why)), "")

    def _came_to(self, node: str, objects: Objects, expected: Collection[str]) -> str:
        """Which pod came to a node since the objects were read; empty for none."""
        known: set[str | None] = {
            pod["metadata"].get("uid") for pod in objects.pods.values() if node_of(pod) == node
        }
        fields = f"spec.nodeName={node},{UNFINISHED}"
        answer = self._cluster.request("GET", PODS.path, query={"fieldSelector": fields})
        for pod in answer.get("items") or ():
            metadata = pod["metadata"]
            # The pod that holds a shared GPU comes with the first of the shares.
            names = {metadata.get("uid"), (metadata.get("labels") or {}).get(KAI_GROUP)}
            if names.isdisjoint(known) and names.isdisjoint(expected):
                return f"pod {pod['metadata']['name']} came to node {node}"
        return ""

    def _node_changed(self, name: str, objects: Objects) -> str:
        before = objects.of(NODES).get(("", name))
        try:
            node = self._cluster.request("GET", NODES.path_of(name))
        except ApiError as error:
            if error.status == 404:
                return f"node {name} is gone"
            raise
        is_same = before is not None and what_pods_meet(node) == what_pods_meet(before)
        return "" if is_same else f"node {name} has changed"

    def _pod_changed(self, binding: Binding, adapter: Adapter, objects: Objects) -> str:
        namespace, name = binding.pod
        try:
            pod = self._cluster.request("GET", PODS.path_of(name, namespace))
        except ApiError as error:
            if error.status == 404:
                return f"pod {name} is gone"
            raise
        if pod["metadata"].get("uid") != binding.uid:
            return f"pod {name} is another one"
        if any(map(self._counts, read_advice({binding.pod: pod}).values())):
            return f"pod {name} is advised already"
        if node_of(pod):
            return f"pod {name} is bound already"
        return "" if adapter.waits(pod, objects) else f"pod {name} no longer waits"

    def _counts(self, advice: Advice) -> bool:
        """Whether advice will end: by an adapter of ours, or because it expires."""
        return advice.by in self._adapters or advice.until > self._clocks.wall()

    def _mark(self, advice: Advice, binding: Binding) -> bool:
        """Writes the advice on one pod; whether it is there."""
        marks = {ADVICE: advice.annotation(binding)}
        return annotate(self._cluster, binding.pod, binding.uid, marks)

    def _unmark(self, binding: Binding) -> None:
        annotate(self._cluster, binding.pod, binding.uid, {ADVICE: None})

    def _conflict(self, advice: Advice, why: str, written: Iterable[Binding]) -> bool:
        logger.info("advice overtaken: %s", why, extra=_extra(advice))
        list(self._executor.map(self._unmark, written))
        self._count(advice.by, End.CONFLICT)
        return False

    def _end(self, advice: Advice, adapter: Adapter, objects: Objects, end: End) -> None:
        """Ends advice. Its objects are deleted first, because the annotations are its memory. Where
        the scheduler has some of the pods and waits for the others, those are released, too.
        """
        if end is End.FOLLOWED:
            adapter.finish(advice, objects)
            self._rejections.expect(advice)
        else:
            adapter.undo(advice, objects)
            if rest := _rest(advice, objects):
                adapter.complete(rest, objects)
        list(self._executor.map(self._unmark, advice.bindings))
        self._ended[advice.mark] = self._clocks.steady()
        self._count(advice.by, end)
        logger.info("advice %s", end.value, extra=_extra(advice))
        list(self._executor.map(lambda one: self._say(one.pod, one.uid, end), advice.bindings))
        first = advice.bindings[0].pod
        if (pod := objects.pods.get(first)) is not None:
            self._record((first, pod), end)

    def _say(self, key: Key, uid: str, end: End) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            set_condition(
                self._cluster,
                key,
                uid,
                status=end is End.FOLLOWED,
                reason=end.value.capitalize(),
                message=_SENTENCES[end],
                now=now,
            )
        except ApiError as error:
            logger.warning("condition not written: %s", error, extra={"pod": "/".join(key)})

    def _record(self, pod: tuple[Key, Body], end: End) -> None:
        body = {"apiVersion": "v1", "kind": "Pod", **pod[1]}
        try:
            self._recorder.record(
                body,
                type="Normal" if end is End.FOLLOWED else "Warning",
                reason=f"Advice{end.value.capitalize()}",
                topic=end.value,
                action="Advising",
                note=_SENTENCES[end],
            )
        except ApiError as error:
            logger.warning("event not written: %s", error, extra={"pod": "/".join(pod[0])})


def _rest(advice: Advice, objects: Objects) -> list[Binding]:
    """The pods that our gate still holds, when others of the gang were released and do not run:
    their scheduler may wait for all of them.
    """
    pods = {b: pod for b in advice.bindings if (pod := objects.pods.get(b.pod)) is not None}
    has_begun = any(not (GATE in gates(pod) or node_of(pod)) for pod in pods.values())
    return [b for b, pod in pods.items() if has_begun and GATE in gates(pod)]


def _extra(advice: Advice) -> dict[str, object]:
    return {"gang": "/".join(advice.gang), "adapter": advice.by, "pods": len(advice.bindings)}
