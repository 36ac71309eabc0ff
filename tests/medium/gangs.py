"""Gangs of a few kinds in many copies, and where those that run already have their pods."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from placement_service.entities.request import (
    CPU,
    HOSTNAME,
    MEMORY,
    PODS,
    BoundPod,
    Node,
    PackingScope,
    Pod,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Resources,
    Toleration,
)
from tests.medium.tastes import Has, Taste
from tests.strategies.words import GPU, NAMESPACE, NOW

APPS = ("a", "b", "c")
#: Seconds that gangs have waited; the clocks of who makes them may be ahead.
AGES = (0, 30, 59, 60, 3_000, 3_000, 20_000, 900_000, -500)


@dataclass
class GangDraft:
    """Draws kinds of gangs for a cluster, and gangs of these kinds."""

    rng: random.Random
    taste: Taste
    levels: Sequence[str]
    nodes: Sequence[Node]
    templates: list[PodTemplate] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = self.rng
        count = rng.randint(2, 6) if Has.SHARED_NODES in self.taste else rng.randint(1, 3)
        self.templates = [self._template(k) for k in range(count)]
        self.priorities: tuple[int, ...] = (0,)
        if Has.PRIORITIES in self.taste:
            self.priorities = rng.choice(((0, 10), (-5, 0, 1_000_000), (1, 2, 3, 4)))

    def gangs(self) -> list[PodGang]:
        """Until so many are asked for, or so much of what there is."""
        rng, taste = self.rng, self.taste
        left = taste.load * sum(self._size(n.allocatable) for n in self.nodes)
        kinds = [self._kind() for _ in range(rng.randint(1, 8))]
        found: list[PodGang] = []
        while len(found) < 8 or (len(found) < taste.gangs and left > 0):
            models = [rng.choice(kinds)]
            if Has.SETS in taste and rng.random() < 0.4:
                models = [self._near(models[0]), *rng.choices(kinds, k=rng.randint(1, 3))]
            base = ""
            for model in models:
                gang = replace(self._copy(model, len(found)), base_gang=base)
                base = base or gang.name
                left -= sum(
                    self._size(s.template.requests) * len(s.pods)
                    for g in gang.groups
                    for s in g.pod_sets
                )
                found.append(gang)
        if Has.ONE_LARGE_GANG in taste:
            found.append(self._copy(self._large(), len(found)))
        return found

    def _size(self, amounts: Resources) -> float:
        return amounts.get(GPU, 0) or amounts.get(CPU, 0) / 100_000

    def _template(self, k: int) -> PodTemplate:
        """Whole nodes, or parts of them where pods share nodes."""
        rng, taste = self.rng, self.taste
        node = rng.choice(self.nodes).allocatable
        gpus = whole = node.get(GPU, 0)
        if k and Has.SHARED_NODES in taste:
            gpus = rng.choice((1, 1, 2, whole // 2, max(1, whole - 1), rng.randint(0, whole)))
        if Has.CPU_ONLY in taste and rng.random() < 0.3:
            gpus = 0
        requests = {GPU: gpus, PODS: 1}
        share = gpus / whole if whole else rng.choice((0.05, 0.3, 1))
        if Has.CPU in taste or not gpus:
            more = rng.choice((0.5, 0.8, 1, 1, 1.2))
            requests[CPU] = int(node[CPU] * (share or 0.05) * more)
            requests[MEMORY] = int(node[MEMORY] * (share or 0.05) * rng.choice((0.5, 0.9, 1)))
        if Has.STRANGE_AMOUNTS in taste:
            requests[CPU] = rng.choice((0, 1, 1337, requests.get(CPU, 0)))
            requests[MEMORY] = rng.choice((0, 1, 2**40 + 1, requests.get(MEMORY, 0)))
        selector: tuple[tuple[str, str], ...] = ()
        if Has.SELECTORS in taste and rng.random() < 0.3:
            selector = (("model", f"m{rng.randrange(3)}"),)
        tolerates = Has.CLOSED_NODES in taste and rng.random() < 0.5
        return PodTemplate(
            {r: n for r, n in requests.items() if n},
            {"app": rng.choice(APPS)},
            node_selector=selector,
            tolerations=(Toleration("gpu", True, "", None),) if tolerates else (),
        )

    def _kind(self) -> PodGang:
        rng, taste = self.rng, self.taste
        groups = []
        for k in range(rng.choice((1, 1, 2, 3))):
            count = rng.choice((1, 1, 2, 2, 3, 4, 5, 8, 16))
            pods = tuple(Pod(f"{k}-{i}") for i in range(count))
            split = count
            if Has.OTHERS_IN_A_GROUP in taste and rng.random() < 0.3:
                split = rng.randint(1, count)
            sets = tuple(
                PodSet(rng.choice(self.templates), part)
                for part in (pods[:split], pods[split:])
                if part
            )
            least = count
            if Has.EXTRAS in taste and rng.random() < 0.4:
                least = rng.randint(0, count) if rng.random() < 0.3 else max(1, count // 2)
            groups.append(PodGroup(f"w{k}", least, sets))
        return PodGang("", tuple(groups), packing_scopes=tuple(self._scopes(groups)))

    def _large(self) -> PodGang:
        """So many small pods that nothing may be done for each of them."""
        requests = {CPU: self.rng.choice((0, 1, 10)), PODS: 1}
        template = PodTemplate({r: n for r, n in requests.items() if n}, {"app": "a"})
        pods = tuple(Pod(f"0-{i}") for i in range(3000))
        return PodGang(
            "", (PodGroup("w0", self.rng.choice((1, 1500, 3000)), (PodSet(template, pods),)),)
        )

    def _scopes(self, groups: Sequence[PodGroup]) -> Iterator[PackingScope]:
        rng, taste = self.rng, self.taste
        covers = [tuple(g.name for g in groups)]
        if Has.SCOPES_OF_GROUPS in taste:
            covers += [(g.name,) for g in groups]
        for i, cover in enumerate(covers):
            # What covers less is narrower, mostly.
            narrow = rng.random() < (0.7 if i else 0.3)
            required = preferred = ""
            if Has.REQUIRED in taste and rng.random() < 0.5:
                required = self._level(narrow)
            if Has.PREFERRED in taste and rng.random() < 0.5:
                preferred = self._level(narrow)
            if required or preferred:
                yield PackingScope(f"s{i}", cover, required, preferred)

    def _level(self, narrow: bool) -> str:
        rng = self.rng
        if rng.random() < 0.08:
            return HOSTNAME
        if Has.CROSSING_LEVELS in self.taste and rng.random() < 0.4:
            return "power"
        return self.levels[-1] if narrow else rng.choice(self.levels)

    def _near(self, base: PodGang) -> PodGang:
        level = self.rng.choice(self.levels)
        required, preferred = (level, "") if self.rng.random() < 0.3 else ("", level)
        scope = PackingScope("near", tuple(g.name for g in base.groups), required, preferred)
        return replace(base, packing_scopes=(scope, *base.packing_scopes))

    def _copy(self, model: PodGang, number: int) -> PodGang:
        """A gang of a kind, with names, priority and age of its own."""
        rng, taste = self.rng, self.taste
        space, short = NAMESPACE, f"g{number}"
        if Has.NAMESPACES in taste:
            # The same names, elsewhere.
            space, short = (NAMESPACE, "other")[number % 2], f"g{number // 2}"

        def named(pod: Pod) -> Pod:
            return Pod(f"namespaces/{space}/pods/{short}-{pod.name}")

        groups = tuple(
            replace(
                g, pod_sets=tuple(replace(s, pods=tuple(map(named, s.pods))) for s in g.pod_sets)
            )
            for g in model.groups
        )
        created = NOW - rng.choice(AGES) if Has.AGES in taste and rng.random() < 0.9 else None
        return replace(
            model,
            name=f"namespaces/{space}/podgangs/{short}",
            groups=groups,
            priority=rng.choice(self.priorities),
            created=created,
        )


class Room:
    """What is left on nodes while gangs that run get their places."""

    def __init__(self, rng: random.Random, nodes: Sequence[Node]) -> None:
        self.rng = rng
        self.nodes = {node.name: node for node in nodes}
        self.left = {
            node.name: {r: n - node.requested.get(r, 0) for r, n in node.allocatable.items()}
            for node in nodes
        }

    def running(self, gang: PodGang, share: float) -> PodGang | None:
        """The gang with that share of its pods bound, None where that fits nowhere."""
        taken: list[tuple[str, PodTemplate]] = []
        able = self._domains(gang)
        groups = []
        for group in gang.groups:
            sets = []
            for s in group.pod_sets:
                pods, bound = list(s.pods), []
                for pod in pods[: round(share * len(pods))]:
                    home = next((n for n in able[group.name] if self._fits(n, s.template)), None)
                    if home is None:
                        for name, template in taken:
                            self._take(name, template, -1)
                        return None
                    self._take(home, s.template, 1)
                    taken.append((home, s.template))
                    bound.append(BoundPod(pod.name, home))
                sets.append(replace(s, pods=tuple(pods[len(bound) :]), bound_pods=tuple(bound)))
            groups.append(replace(group, pod_sets=tuple(sets)))
        return replace(gang, groups=tuple(groups))

    def _domains(self, gang: PodGang) -> dict[str, list[str]]:
        """The nodes of each group where required scopes have random domains."""
        names = [n.name for n in self.nodes.values() if n.ready and not n.unschedulable]
        if self.rng.random() < 0.5:
            self.rng.shuffle(names)
        able = {group.name: names for group in gang.groups}
        for scope in sorted(gang.packing_scopes, key=lambda s: -len(s.groups)):
            level = scope.required_level or scope.preferred_level
            common = able[scope.groups[0]]
            values = {v for n in common if (v := self.nodes[n].labels.get(level)) is not None}
            if level and values:
                domain = self.rng.choice(sorted(values))
                for g in scope.groups:
                    able[g] = [n for n in able[g] if self.nodes[n].labels.get(level) == domain]
        return able

    def _fits(self, name: str, template: PodTemplate) -> bool:
        node = self.nodes[name]
        return (
            template.selects(node)
            and template.tolerates(node)
            and all(self.left[name].get(r, 0) >= n for r, n in template.requests.items())
        )

    def _take(self, name: str, template: PodTemplate, sign: int) -> None:
        left = self.left[name]
        for r, n in template.requests.items():
            left[r] = left.get(r, 0) - sign * n

    def used(self) -> tuple[Node, ...]:
        """The nodes, of which what runs takes its part."""
        return tuple(
            replace(
                node, requested={r: n - self.left[name][r] for r, n in node.allocatable.items()}
            )
            for name, node in self.nodes.items()
        )
