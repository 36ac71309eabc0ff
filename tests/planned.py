"""Random questions with a valid plan each, made without the engine.

`question` draws a small cluster and gangs in several copies, `legal_plan` puts
some of them where chance and `verify` let it, and `cut_out` leaves of a question
what its plan uses: the plan then places everybody with all extras, often on nodes
that it fills to the brim, so nothing that claims to be a bound may say less.

All chance comes from the `random.Random` that is passed in.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from placement_service.entities.queues import GPUS, Queue
from placement_service.entities.request import (
    CPU,
    HOSTNAME,
    MEMORY,
    PODS,
    BoundPod,
    Effect,
    HostPort,
    Node,
    PackingScope,
    Pod,
    PodAffinityTerm,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    RunningPod,
    Snapshot,
    SpreadConstraint,
    Taint,
    Toleration,
)
from placement_service.entities.reservations import Reservation, ReservationOwner
from placement_service.entities.selectors import LabelSelector
from tests.cut_out import Planned, cut_out
from tests.legal_plans import legal_plan
from tests.strategies import AGES, GPU, NAMESPACE, NOW

#: From broad to narrow.
LEVELS = ("zone", "block", "rack")
APPS = ("a", "b")


@dataclass(frozen=True, slots=True)
class Taste:
    """How likely questions are to have what makes them unlike each other, from 0 to 1.

    `whole` are pods that fill a node, `scopes` packing scopes at any one place, `host` the node
    as the level of one, `sets` gangs based on others, `elastic` groups that need less than all
    their pods, `queues` gangs in queues, `reservations` rooms that are held, `crossing` levels
    that do not nest, `bare` nodes without labels, `rules` rules between pods, `others` pods of
    one group that ask for something else, `running` gangs that run in part, `previous` gangs
    that want nodes again.
    `nodes` and `pods` are about the most of each.
    """

    whole: float = 0.4
    scopes: float = 0.4
    host: float = 0.2
    sets: float = 0.2
    elastic: float = 0.25
    crossing: float = 0.15
    bare: float = 0.1
    rules: float = 0.15
    others: float = 0.15
    running: float = 0.15
    previous: float = 0.15
    queues: float = 0.15
    reservations: float = 0.15
    nodes: int = 14
    pods: int = 40


def questions(taste: Taste) -> st.SearchStrategy[Snapshot]:
    """Questions alone, for tests that find plans by themselves."""
    return st.integers(0, 2**32 - 1).map(lambda seed: question(random.Random(seed), taste))


def planned(rng: random.Random, taste: Taste) -> Planned:
    """A question with a legal plan, in half of the cases cut out of it."""
    snapshot = question(rng, taste)
    both = Planned(snapshot, legal_plan(rng, snapshot))
    return cut_out(rng, both) if rng.random() < 0.5 else both


# --- questions ------------------------------------------------------------------------


def question(rng: random.Random, taste: Taste) -> Snapshot:
    """A snapshot with at least one node and one gang."""
    draft = _Draft(rng, taste)
    nodes = draft.cluster()
    gangs, running = draft.gangs(nodes)
    gangs, queues = draft.queues(gangs)
    held = draft.reservations(nodes, gangs)
    return Snapshot(nodes, gangs, running, as_of=NOW, queues=queues, reservations=held)


class _Draft:
    def __init__(self, rng: random.Random, taste: Taste) -> None:
        self.rng = rng
        self.taste = taste
        self.levels = rng.sample(LEVELS, rng.randint(1, 3))
        # Whether it may occur at all, so that what is rare also occurs alone.
        self.has = {
            name: rng.random() < 2 * getattr(taste, name)
            for name in (
                "rules",
                "others",
                "running",
                "previous",
                "sets",
                "bare",
                "queues",
                "reservations",
            )
        }
        #: Memory is in these.
        self.unit = rng.choice((1, 1, 1, 2**34 + 1))
        self.priorities = rng.choice(((0,), (0,), (0, 1), (0, 5, 7)))
        self.pods_left = taste.pods

    def often(self, name: str) -> bool:
        """Whether chance wants something of the taste this time."""
        chance: float = getattr(self.taste, name)
        return self.has.get(name, True) and self.rng.random() < chance

    # nodes

    def cluster(self) -> tuple[Node, ...]:
        rng = self.rng
        kinds = [self._hardware(i) for i in range(rng.choice((1, 1, 2)))]
        self.whole_nodes = [kind.allocatable[GPU] for kind in kinds]
        count = rng.choice((rng.randint(2, self.taste.nodes), self.taste.nodes))
        per_rack, per_block = rng.choice((1, 2, 3, 4, 4)), rng.randint(1, 3)
        crossing = rng.random() < self.taste.crossing
        nodes = []
        for i in range(count):
            rack = i // per_rack
            block = rng.randrange(3) if crossing else rack // per_block
            zone = block // 2
            labels = {"zone": f"z{zone}", "block": f"b{block}", "rack": f"r{rack}"}
            lost = rng.choice((LEVELS, rng.sample(LEVELS, 1))) if self.often("bare") else ()
            node = kinds[rack % len(kinds)]
            nodes.append(
                replace(
                    node,
                    name=f"nodes/n{i}",
                    labels={
                        **node.labels,
                        HOSTNAME: f"n{i}",
                        **{k: v for k, v in labels.items() if k not in lost},
                    },
                    requested=self._used(node) if rng.random() < 0.2 else {},
                    unschedulable=rng.random() < 0.03,
                    ready=rng.random() > 0.03,
                )
            )
        return tuple(nodes)

    def _hardware(self, i: int) -> Node:
        rng = self.rng
        gpus = rng.choice((8, 8, 8, 4, 3)) if i == 0 else rng.choice((8, 4, 2, 0))
        return Node(
            name="",
            labels={"model": f"m{i}"},
            allocatable={
                GPU: gpus,
                CPU: rng.choice((8, 9, 16)),
                MEMORY: rng.choice((8, 9, 16)) * self.unit,
                PODS: rng.choice((110, 110, 3, 2)),
            },
            taints=(Taint("gpu", "", Effect.NO_SCHEDULE),) if rng.random() < 0.1 else (),
            host_ports=(HostPort(80),) if rng.random() < 0.05 else (),
        )

    def _used(self, node: Node) -> dict[str, int]:
        share = self.rng.choice((0.1, 0.5, 1.0))
        return {r: int(a * share) for r, a in node.allocatable.items() if self.rng.random() < 0.7}

    # gangs

    def gangs(self, nodes: Sequence[Node]) -> tuple[tuple[PodGang, ...], tuple[RunningPod, ...]]:
        rng = self.rng
        found: list[PodGang] = []
        while self.pods_left > 0 and (not found or rng.random() < 0.8):
            models = [self._gang("model")]
            if self.often("sets"):
                kinds = [self._gang("model") for _ in range(rng.choice((1, 1, 2)))]
                followers = [kind for kind in kinds for _ in range(rng.choice((1, 1, 2)))]
                models = [self._near(models[0]), *followers]
            pods = sum(g.pending_count for m in models for g in m.groups)
            for _ in range(rng.choice((1, 1, 2, 3))):
                if found and pods > self.pods_left:
                    break
                self.pods_left -= max(1, pods)
                base = f"namespaces/{NAMESPACE}/podgangs/g{len(found)}"
                for k, model in enumerate(models):
                    gang = _renamed(model, f"g{len(found)}")
                    found.append(replace(gang, base_gang=base if k else ""))
        found = [self._told_apart(gang, nodes) for gang in found]
        rng.shuffle(found)
        return tuple(found), self._running(nodes, found)

    def _gang(self, name: str) -> PodGang:
        rng = self.rng
        groups = []
        for k in range(rng.choice((1, 1, 2, 3))):
            count = min(rng.choice((1, 1, 2, 2, 3, 4)), max(1, self.taste.pods // 3))
            pods = tuple(Pod(f"{k}-{i}") for i in range(count))
            split = rng.randint(1, count) if self.often("others") else count
            pod_sets = tuple(
                PodSet(self._template(), part) for part in (pods[:split], pods[split:]) if part
            )
            least = rng.choice((0, rng.randint(0, count))) if self.often("elastic") else count
            groups.append(PodGroup(f"w{k}", least, pod_sets))
        names = [group.name for group in groups]
        return PodGang(
            name,
            tuple(groups),
            priority=rng.choice(self.priorities),
            packing_scopes=tuple(self._scopes(names)),
            created=NOW - rng.choice(AGES),
        )

    def _template(self) -> PodTemplate:
        rng = self.rng
        if rng.random() < self.taste.whole:
            requests = {GPU: rng.choice(self.whole_nodes), CPU: rng.choice((0, 0, 3))}
        else:
            requests = {
                GPU: rng.choice((0, 1, 1, 2, 3)),
                CPU: rng.choice((0, 1, 2)),
                MEMORY: rng.choice((0, 0, 1, 3)) * self.unit,
            }
        template = PodTemplate(
            {PODS: 1, **{r: a for r, a in requests.items() if a}},
            {"app": rng.choice(APPS)},
            node_selector=(("model", rng.choice(("m0", "m1"))),) if rng.random() < 0.1 else (),
            tolerations=(Toleration("gpu", True, "", None),) if rng.random() < 0.6 else (),
        )
        if not self.often("rules"):
            return template
        term = PodAffinityTerm(
            LabelSelector((("app", rng.choice(APPS)),)),
            rng.choice([HOSTNAME, *self.levels]),
            (NAMESPACE,),
        )
        match rng.randrange(5):
            case 0 | 4:
                return replace(template, required_anti_affinity=(term,))
            case 1:
                return replace(template, required_affinity=(term,))
            case 2:
                port = HostPort(80, "TCP", rng.choice(("", "", "10.0.0.1")))
                return replace(template, host_ports=(port,))
            case _:
                spread = SpreadConstraint(
                    rng.randint(1, 2), term.topology_key, term.selector, NAMESPACE,
                    rng.randint(1, 2),
                )  # fmt: skip
                return replace(template, spread_constraints=(spread,))

    def _scopes(self, names: Sequence[str]) -> Iterator[PackingScope]:
        rng = self.rng
        covers = [tuple(names), *((name,) for name in names)]
        if len(names) > 2:
            # Two of them may overlap.
            covers += [tuple(rng.sample(names, 2)) for _ in range(rng.choice((1, 1, 2)))]
        for i, cover in enumerate(covers):
            required, preferred = (self._level() if rng.random() < 0.5 else "" for _ in range(2))
            if (required or preferred) and self.often("scopes"):
                yield PackingScope(f"s{i}", cover, required, preferred)

    def _level(self) -> str:
        return HOSTNAME if self.often("host") else self.rng.choice(self.levels)

    def _near(self, base: PodGang) -> PodGang:
        """The gang with a level at which those based on it should be near."""
        rng = self.rng
        level = self._level()
        required, preferred = (level, "") if rng.random() < 0.3 else ("", level)
        scope = PackingScope("near", tuple(g.name for g in base.groups), required, preferred)
        return replace(base, packing_scopes=(scope, *base.packing_scopes))

    def _told_apart(self, gang: PodGang, nodes: Sequence[Node]) -> PodGang:
        """Now and then what gangs that are alike may differ in."""
        rng = self.rng
        homes = [*(node.name for node in nodes), "nodes/gone"]
        if rng.random() < 0.1:
            gang = replace(gang, packing_scopes=gang.packing_scopes[1:])
        if rng.random() < 0.05:
            gang = replace(gang, priority=rng.choice(self.priorities))
        if self.often("previous"):
            gang = replace(gang, previous_nodes=tuple(rng.choices(homes, k=rng.randint(1, 3))))
        if self.often("running"):
            # Mostly in one domain, since more than one would break most required scopes.
            named = [s.required_level for s in gang.packing_scopes if s.required_level]
            level = rng.choice(named or self.levels)
            domain = rng.choice(nodes).labels.get(level)
            near = [n.name for n in nodes if n.labels.get(level) == domain]
            where = near if rng.random() < 0.8 else homes
            gang = replace(
                gang,
                groups=tuple(
                    replace(
                        group,
                        min_replicas=group.min_replicas + (some := rng.choice((0, 1, 1, 2))),
                        fixed_pods=tuple(
                            BoundPod(f"{_pod_name(gang)}-{group.name}-bound-{i}", rng.choice(where))
                            for i in range(some)
                        ),
                    )
                    for group in gang.groups
                ),
            )
            if rng.random() < 0.3:
                # What runs may be enough.
                enough = (replace(g, min_replicas=g.running_count) for g in gang.groups)
                gang = replace(gang, groups=tuple(enough))
        return gang

    # queues

    def queues(self, gangs: Sequence[PodGang]) -> tuple[tuple[PodGang, ...], tuple[Queue, ...]]:
        """Some of the gangs in a small tree of queues."""
        rng = self.rng
        if not self.has["queues"] or rng.random() < 0.5:
            return tuple(gangs), ()
        count = rng.randint(1, 4)
        names = [f"queues/q{i}" for i in range(count)]
        queues = tuple(
            Queue(
                name,
                parent=rng.choice(["", *names[:i]]),
                limit=self._amounts(),
                guaranteed=self._amounts(),
                used=rng.choice(({}, {}, {GPUS: rng.randint(0, 4), MEMORY: self.unit})),
                used_not_preemptible=rng.choice(({}, {}, {GPUS: rng.randint(0, 2)})),
            )
            for i, name in enumerate(names)
        )
        unknown = ["queues/nowhere"] if rng.random() < 0.05 else []
        return tuple(
            replace(
                gang,
                queue=rng.choice([*names, *unknown]) if rng.random() < 0.9 else "",
                not_preemptible=rng.random() < 0.3,
            )
            for gang in gangs
        ), queues

    def reservations(
        self, nodes: Sequence[Node], gangs: Sequence[PodGang]
    ) -> tuple[Reservation, ...]:
        """Room on some nodes, mostly as much as pods of some gang ask for."""
        rng = self.rng
        if not self.has["reservations"] or rng.random() < 0.5:
            return ()
        found = []
        for i in range(rng.randint(1, 4)):
            gang = rng.choice(gangs)
            sets = [s for g in gang.groups for s in g.pod_sets]
            requests = rng.choice(sets).template.requests if sets else {GPU: 1}
            times = rng.choice((1, 1, 2, 3))
            held = {
                r: times * n + rng.choice((0, 0, 0, 1))
                for r, n in requests.items()
                if r != PODS and rng.random() < 0.8
            }
            pods = [pod.name for s in sets for pod in s.pods]
            owner = rng.choice(
                (
                    ReservationOwner(gang=gang.name),
                    ReservationOwner(namespace=NAMESPACE),
                    ReservationOwner(selector=LabelSelector((("app", rng.choice(APPS)),))),
                    ReservationOwner(pod=rng.choice(pods)) if pods else ReservationOwner("nobody"),
                )
            )
            found.append(
                Reservation(
                    f"reservations/r{i}",
                    rng.choice(nodes).name,
                    held,
                    (owner,) if rng.random() < 0.9 else (),
                    restricted=rng.random() < 0.4,
                    allocate_once=rng.random() < 0.4,
                    closed=rng.random() < 0.1,
                )
            )
        return tuple(found)

    def _amounts(self) -> dict[str, int]:
        rng = self.rng
        most = {
            GPUS: rng.randint(0, 24),
            CPU: rng.randint(0, 12),
            MEMORY: rng.randint(0, 9) * self.unit,
        }
        return {r: amount for r, amount in most.items() if rng.random() < 0.5}

    def _running(self, nodes: Sequence[Node], gangs: Iterable[PodGang]) -> tuple[RunningPod, ...]:
        """What rules between pods see: the pods of gangs that run, and a few more."""
        rng = self.rng
        where = [(p.name, p.node) for gang in gangs for g in gang.groups for p in g.running_pods]
        if self.has["rules"]:
            for i in range(rng.randint(0, 2)):
                where.append((f"namespaces/{NAMESPACE}/pods/other-{i}", rng.choice(nodes).name))
        return tuple(RunningPod(n, node, {"app": rng.choice(APPS)}) for n, node in where)


def _pod_name(gang: PodGang) -> str:
    return f"namespaces/{NAMESPACE}/pods/{gang.name.rpartition('/')[2]}"


def _renamed(model: PodGang, name: str) -> PodGang:
    """A gang like another, with a name and pods of its own."""
    gang = replace(model, name=f"namespaces/{NAMESPACE}/podgangs/{name}")

    def pods(old: Sequence[Pod]) -> tuple[Pod, ...]:
        return tuple(Pod(f"{_pod_name(gang)}-{pod.name}") for pod in old)

    return replace(
        gang,
        groups=tuple(
            replace(g, pod_sets=tuple(replace(s, pods=pods(s.pods)) for s in g.pod_sets))
            for g in model.groups
        ),
    )
