"""What Grove's operator does, as far as a scheduler sees it, without Grove.

    grove = GroveStandIn(api)
    grove.apply(clique_set("serve", clique("worker", 4), namespace="ml"))
    grove.settle()             # everything due now, or step by step: make_gangs(), make_pods() ...
    grove.start()              # or in the background, as the operator would

A PodGang comes first, without references and not initialized; then its pods, held
by a gate; then the references; then Initialized=True; and the gates go in pieces,
those of scaled gangs when the base has its minimum scheduled. Each of `STAGES`
does what is due by the state of the cluster alone, so they may be called in any
order, and after any accident.

As Grove does, Initialized is written by a merge patch with the whole list of
conditions as this writer knows it: what a scheduler wrote before is gone. Which
gangs and pods a PodCliqueSet stands for is left to `placement.kubernetes.grove.expand`,
which has tests of its own. A template that changes is rolled out as Grove does it, replica
by replica. In the background the gates of scaled gangs open some seconds after their base
is scheduled, as Grove looks at them again only so often. Not played: the termination of
gangs that fail, OnDelete, and autoscaling.
"""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from urllib3.exceptions import HTTPError

from tests.cluster.api import POD_GANGS, PODS, Api, ApiError, Body, Resource
from tests.cluster.grove_gangs import CLIQUE, GATE, Key, WantedGang, wanted_gangs
from tests.cluster.informer import Informer
from tests.cluster.rollout import Clique, is_current, is_true, next_old

SCHEDULER: Final = "placement-service"
#: Seconds after which Grove looks again at the gates of a scaled gang.
GATE_DELAY: Final = 5.0

_BASE: Final = "grove.io/base-podgang"
_INDEX: Final = "grove.io/podclique-pod-index"
_REPLICA: Final = "grove.io/podcliqueset-replica-index"
_PART_OF: Final = "app.kubernetes.io/part-of"
_INITIALIZED: Final = "Initialized"
#: Between two looks in the background: as a rule, and where nothing has changed since.
_PAUSE_SECONDS: Final = 0.05
_IDLE_SECONDS: Final = 0.5
_MOST_STEPS: Final = 1000


class GroveStandIn:
    """Grove in all namespaces. The stages are for one thread, the one of `start` included.

    `scheduler` is the schedulerName its pods get: "default-scheduler" where an
    admission policy is to change it. `gate_delay` is for gates of scaled gangs in the
    background, in seconds; the stages themselves open them at once.
    """

    def __init__(
        self, api: Api, *, scheduler: str = SCHEDULER, gate_delay: float = GATE_DELAY
    ) -> None:
        self._api = api
        self._scheduler = scheduler
        self._gate_delay = gate_delay
        #: When the gates of each scaled gang were found to be due, in the background.
        self._due_since: dict[Key, float] = {}
        self._lock = threading.Lock()
        self._sets: dict[Key, Body] = {}
        self._topologies: list[Body] = []
        self._gangs: dict[Key, WantedGang] = {}
        #: How many gates each clique loses next: 1, 2, 4 ... as Grove starts slowly.
        self._pace: dict[Key, int] = defaultdict(lambda: 1)
        #: Whether the stages see everything that has happened, or what a cache knows of it.
        self._is_sure = True
        #: What a step has listed, until it writes.
        self._seen: dict[tuple[str, str], list[Body]] | None = None
        self._stopping = threading.Event()
        self._changed = threading.Event()
        self._informers: list[Informer] = []
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def apply(self, *bodies: Body) -> None:
        """Take PodCliqueSets, new or changed in size or pods, and ClusterTopologyBindings.

        Nothing is made before the next stage. Topologies count for sets applied with
        or after them.
        """
        sets = {**self._sets}
        topologies = [*self._topologies]
        for body in bodies:
            if body["kind"] == "PodCliqueSet":
                metadata = body["metadata"]
                sets[metadata["namespace"], metadata["name"]] = body
            else:
                topologies.append(body)
        gangs = {
            gang.key: gang for gang in wanted_gangs([*sets.values(), *topologies], self._scheduler)
        }
        with self._lock:
            self._sets, self._topologies, self._gangs = sets, topologies, gangs
        self._changed.set()

    def forget(self, namespace: str, name: str) -> None:
        """Take a PodCliqueSet away; its gangs and pods go with `trim`."""
        with self._lock:
            del self._sets[namespace, name]
            self._gangs = {
                key: gang
                for key, gang in self._gangs.items()
                if (key[0], gang.body["metadata"]["labels"][_PART_OF]) != (namespace, name)
            }
        self._changed.set()

    def make_gangs(self) -> int:
        """Create the PodGangs that are missing, without references and not initialized."""
        there = {_key(gang) for gang in self._list(POD_GANGS)}
        missing = [gang.body for gang in self._wanted() if gang.key not in there]

        def make(body: Body) -> Body:
            groups = [{**group, "podReferences": []} for group in body["spec"]["podgroups"]]
            spec = {**body["spec"], "podgroups": groups}
            self._api.create(POD_GANGS, {**body, "spec": spec})
            return self._write_initialized(_key(body), False)

        return len(self._each(make, missing))

    def make_pods(self) -> int:
        """Create the pods that are missing, each held by Grove's gate."""
        there = self._pods()
        missing = []
        for gang in self._wanted():
            for name, templates in gang.cliques.items():
                alive = [pod for pod in there[gang.key[0], name] if not _is_ending(pod)]
                taken = {pod["metadata"]["labels"][_INDEX] for pod in alive}
                free = [t for t in templates if t["metadata"]["labels"][_INDEX] not in taken]
                missing += free[: max(0, len(templates) - len(alive))]
        return len(self._each(lambda body: self._api.create(PODS, body), missing))

    def refer(self) -> int:
        """Write into each PodGang the pods it has now."""
        there = self._pods()
        due = []
        for gang in self._present():
            namespace = gang["metadata"]["namespace"]
            groups = []
            for group in gang["spec"]["podgroups"]:
                pods = [pod for pod in there[namespace, group["name"]] if not _is_ending(pod)]
                names = sorted(pod["metadata"]["name"] for pod in pods)
                references = [{"namespace": namespace, "name": name} for name in names]
                groups.append({**group, "podReferences": references})
            if groups != gang["spec"]["podgroups"]:
                due.append({**gang, "spec": {**gang["spec"], "podgroups": groups}})
        return len(self._each(lambda body: self._api.replace(POD_GANGS, body), due))

    def initialize(self) -> int:
        """Set Initialized=True where every pod exists. It never goes back."""
        there = self._pods()
        present = {_key(gang): gang for gang in self._present()}

        def is_whole(gang: WantedGang) -> bool:
            return all(
                sum(not _is_ending(pod) for pod in there[gang.key[0], name]) >= len(templates)
                for name, templates in gang.cliques.items()
            )

        due = [
            present[gang.key]
            for gang in self._wanted()
            if gang.key in present
            and not is_true(present[gang.key], _INITIALIZED)
            and is_whole(gang)
        ]
        return len(self._each(lambda gang: self._write_initialized(_key(gang), True), due))

    def open_gates(self, *, limit: int | None = None) -> int:
        """Take the gate from pods that are referenced and whose base is scheduled.

        Each clique loses one, then two, then four, call by call, or `limit` at a time.
        """
        there = self._pods()
        gangs = {_key(gang): gang for gang in self._present()}
        due = []
        for key, gang in gangs.items():
            for group in gang["spec"]["podgroups"]:
                clique = key[0], group["name"]
                referenced = {one["name"] for one in group["podReferences"]}
                gated = [
                    pod
                    for pod in there[clique]
                    if _is_gated(pod)
                    and not _is_ending(pod)
                    and pod["metadata"]["name"] in referenced
                    and self._base_is_scheduled(pod, gangs, there)
                    and self._was_looked_at(key, pod)
                ]
                if gated:
                    pace = self._pace[clique] if limit is None else limit
                    self._pace[clique] *= 2
                    due += gated[:pace]

        def open_one(pod: Body) -> Body:
            kept = [gate for gate in pod["spec"]["schedulingGates"] if gate["name"] != GATE]
            namespace, name = _key(pod)
            return self._api.merge(PODS, name, {"spec": {"schedulingGates": kept}}, namespace)

        return len(self._each(open_one, due))

    def trim(self) -> int:
        """Delete gangs that no set asks for, and pods too many; pending ones go first."""
        wanted = {gang.key: gang for gang in self._wanted()}
        stray = [gang for gang in self._ours(POD_GANGS) if _key(gang) not in wanted]
        sizes: dict[Key, int] = {
            (gang.key[0], name): len(templates)
            for gang in wanted.values()
            for name, templates in gang.cliques.items()
        }
        surplus: list[Body] = []
        for clique, pods in self._pods().items():
            alive = sorted((pod for pod in pods if not _is_ending(pod)), key=_is_bound)
            surplus += alive[: max(0, len(alive) - sizes.get(clique, 0))]
        self._each(lambda gang: self._api.delete(POD_GANGS, *_key(gang)[::-1]), stray)
        self._each(self._delete_as_seen, surplus)
        return len(stray) + len(surplus)

    def roll(self) -> int:
        """Delete pods of old templates: those without a node at once. Of the others, in one
        replica of each set at a time, a whole replica of each scaling group, and one pod of
        each clique that stands alone; and the next when those are Ready again."""
        there = self._pods()
        replicas: defaultdict[tuple[str, str], dict[int, list[Clique]]] = defaultdict(dict)
        for gang in self._wanted():
            for name, templates in gang.cliques.items():
                alive = [pod for pod in there[gang.key[0], name] if not _is_ending(pod)]
                one = Clique(templates, alive)
                owner = gang.key[0], one.labels[_PART_OF]
                replicas[owner].setdefault(int(one.labels[_REPLICA]), []).append(one)
        due: list[Body] = []
        for of_set in replicas.values():
            cliques = [one for _, several in sorted(of_set.items()) for one in several]
            due += [pod for one in cliques for pod in one.old if not _is_bound(pod)]
            current = next(
                (of_set[index] for index in sorted(of_set) if not is_current(of_set[index])), []
            )
            due += [pod for pod in next_old(current) if _is_bound(pod)]
        return len(self._each(self._delete_as_seen, due))

    def step(self, shuffle: random.Random | None = None) -> int:
        """Every stage once, in Grove's order or shuffled. Returns how much was written."""
        stages: list[Callable[[GroveStandIn], int]] = [*STAGES]
        if shuffle is not None:
            shuffle.shuffle(stages)
        self._seen = {}
        try:
            return sum(stage(self) for stage in stages)
        finally:
            self._seen = None

    def settle(self) -> None:
        """`step` until nothing is due. What waits for a scheduler stays."""
        for _ in range(_MOST_STEPS):
            # An operator sees the cluster through a cache; that nothing is due has to be sure.
            self._is_sure = False
            try:
                due = self.step()
            finally:
                self._is_sure = True
            if not due and not self.step():
                return
        raise AssertionError(f"something is due after {_MOST_STEPS} steps")

    def start(self) -> None:
        """Do what is due in a thread, until `stop`, through restarts of the API server."""
        self._stopping.clear()
        self._is_sure = False
        self._changed.set()
        self._informers = [
            Informer(self._api, resource, lambda *_: self._changed.set())
            for resource in (POD_GANGS, PODS)
        ]
        for informer in self._informers:
            informer.start()
        self._thread = threading.Thread(target=self._run, name="grove-stand-in", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Raises what went wrong in the thread."""
        if self._thread is not None:
            self._stopping.set()
            self._changed.set()
            self._thread.join()
            self._thread = None
            self._is_sure = True
            for informer in self._informers:
                informer.stop()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._stopping.wait(_PAUSE_SECONDS):
                self._changed.wait(_IDLE_SECONDS)
                self._changed.clear()
                try:
                    self.step()
                except (HTTPError, OSError):
                    self._changed.set()
                except ApiError as error:
                    if error.status < 429:
                        raise
                    self._changed.set()
        except Exception as error:  # told by `stop`, in the thread of the test
            self._error = error

    def _write_initialized(self, key: Key, done: bool) -> Body:
        """The condition with everything else forgotten, as Grove's merge patch has it."""
        condition = {
            "type": _INITIALIZED,
            "status": "True" if done else "False",
            "reason": "PodGangPodsCreated" if done else "PodGangPodsCreationPending",
            "message": "PodGang is fully initialized"
            if done
            else "Not all constituent pods have been created yet",
            "lastTransitionTime": _now(),
        }
        status = {"phase": "Pending", "conditions": [condition]}
        namespace, name = key
        return self._api.merge(POD_GANGS, name, {"status": status}, namespace, "status")

    def _base_is_scheduled(
        self, pod: Body, gangs: Mapping[Key, Body], there: Mapping[Key, Sequence[Body]]
    ) -> bool:
        """Whether each group of the base has its minimum scheduled; so it is without base."""
        name = pod["metadata"]["labels"].get(_BASE)
        if name is None:
            return True
        namespace = pod["metadata"]["namespace"]
        base = gangs.get((namespace, name))
        return base is not None and all(
            sum(is_true(one, "PodScheduled") for one in there[namespace, group["name"]])
            >= group["minReplicas"]
            for group in base["spec"]["podgroups"]
        )

    def _was_looked_at(self, gang: Key, pod: Body) -> bool:
        """Whether Grove has come back to the gates of a scaled gang since they are due."""
        if self._thread is None or _BASE not in pod["metadata"]["labels"]:
            return True
        since = self._due_since.setdefault(gang, time.monotonic())
        return time.monotonic() - since >= self._gate_delay

    def _wanted(self) -> list[WantedGang]:
        with self._lock:
            return list(self._gangs.values())

    def _present(self) -> list[Body]:
        """The PodGangs there are, of those that should exist."""
        wanted = {gang.key for gang in self._wanted()}
        return [gang for gang in self._ours(POD_GANGS) if _key(gang) in wanted]

    def _ours(self, resource: Resource) -> list[Body]:
        return self._list(resource, "app.kubernetes.io/managed-by=grove-operator")

    def _list(self, resource: Resource, labels: str = "") -> list[Body]:
        """What there is; within a step once, until something is written."""
        key = resource.plural, labels
        if self._seen is not None and key in self._seen:
            return self._seen[key]
        read = self._api.items if self._is_sure else self._api.latest
        found = read(resource, **({"labelSelector": labels} if labels else {}))
        if self._seen is not None:
            self._seen[key] = found
        return found

    def _pods(self) -> defaultdict[Key, list[Body]]:
        """The pods there are, by namespace and clique."""
        found: defaultdict[Key, list[Body]] = defaultdict(list)
        for pod in self._ours(PODS):
            found[pod["metadata"]["namespace"], pod["metadata"]["labels"][CLIQUE]].append(pod)
        return found

    def _delete_as_seen(self, pod: Body) -> Body:
        """Unless it has changed since: a pod chosen as pending may have been bound."""
        namespace, name = _key(pod)
        revision = pod["metadata"]["resourceVersion"]
        return self._api.delete(PODS, name, namespace, revision=revision)

    def _each(self, act: Callable[[Body], Body], bodies: Sequence[Body]) -> list[Body]:
        """Act on all. Where another writer was faster (gone, there already, changed) the next step
        sees the new state.
        """

        if not bodies:
            return []
        if self._seen is not None:
            self._seen.clear()

        def try_it(body: Body) -> Body:
            try:
                return act(body)
            except ApiError as error:
                if error.status not in (404, 409):
                    raise
                return {}

        return [one for one in self._api.each(try_it, bodies) if one]


#: In the order in which a PodCliqueSet comes to life.
STAGES: Final = (
    GroveStandIn.trim,
    GroveStandIn.roll,
    GroveStandIn.make_gangs,
    GroveStandIn.make_pods,
    GroveStandIn.refer,
    GroveStandIn.initialize,
    GroveStandIn.open_gates,
)


def _key(body: Body) -> Key:
    return body["metadata"]["namespace"], body["metadata"]["name"]


def _is_ending(pod: Body) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _is_bound(pod: Body) -> bool:
    return bool(pod["spec"].get("nodeName"))


def _is_gated(pod: Body) -> bool:
    return any(gate["name"] == GATE for gate in pod["spec"].get("schedulingGates", ()))


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
