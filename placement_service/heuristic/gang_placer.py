"""Placing one gang where it leaves most room.

Which node: the least wanted that fits, then the fewest free GPUs, then the
domain with least room, then the least CPU. Which domain: the tightest that
holds the part. Preferred levels: one domain if any holds the part, else the
roomiest first. Nothing here looks at other gangs; see `builder`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np

from placement_service.formulation.arrays import Ints
from placement_service.formulation.indices import ClassIdx
from placement_service.formulation.plan import Units
from placement_service.formulation.problem import Gang, Scope
from placement_service.formulation.scope_tree import Part
from placement_service.formulation.tiers.topology import gang_domains, scopes_in_use
from placement_service.heuristic.domain_facts import Topology
from placement_service.heuristic.residual_capacity import ResidualCapacity, sums_by_domain
from placement_service.heuristic.slot_layout import Layout

#: Domains tried for a part before the attempt is given up.
TRIES = 6


class OutOfTime(Exception):
    """There is no time left to place the gang."""


class GangPlacer:
    """Places one gang into residual capacity, part by part, with exact undo."""

    def __init__(
        self,
        topology: Topology,
        residual: ResidualCapacity,
        gang: Gang,
        layout: Layout | None = None,
        until: float = float("inf"),
    ) -> None:
        self.topology = topology
        self.layout = layout
        self._until = until
        self.problem = topology.problem
        self.residual = residual
        self.gang = gang
        self.taken: dict[tuple[int, int], int] = {}
        self._journal: list[tuple[int, Ints, Ints]] = []
        self._want = mandatory(gang)

    def units(self) -> Units:
        return tuple((d, n, c) for (d, n), c in sorted(self.taken.items()) if c)

    def run(self, nodes: Ints | None) -> bool:
        """Place the minimum within some nodes, or everywhere for None."""
        tree = self.topology.tree(self.gang)
        if tree is None:
            return self._run_flat(nodes)
        return self._contents(tree, nodes)

    def _check_time(self) -> None:
        if time.monotonic() > self._until:
            raise OutOfTime

    # --- bookkeeping ------------------------------------------------------

    def take(self, demand: int, nodes: Ints, counts: Ints) -> None:
        """Place units of a demand on nodes that are known to have room."""
        self.residual.take(self.gang.demands[demand].pod_class, nodes, counts)
        self._journal.append((demand, nodes, counts))
        for n, c in zip(nodes.tolist(), counts.tolist(), strict=True):
            self.taken[demand, n] = self.taken.get((demand, n), 0) + c

    def _mark(self) -> tuple[int, int]:
        return self.residual.mark(), len(self._journal)

    def _undo(self, mark: tuple[int, int]) -> None:
        self.residual.undo(mark[0])
        while len(self._journal) > mark[1]:
            demand, nodes, counts = self._journal.pop()
            for n, c in zip(nodes.tolist(), counts.tolist(), strict=True):
                self.taken[demand, n] -= c

    def give_up(self) -> None:
        """Give back all units, wherever others were taken since."""
        for (d, node), count in self.taken.items():
            if count:
                pod_class = self.gang.demands[d].pod_class
                self.residual.take(pod_class, np.array([node]), np.array([-count]))
        self.taken.clear()

    # --- parts ------------------------------------------------------------

    def _part(self, part: Part, nodes: Ints | None) -> bool:
        """A part with its scope: one domain of the required level."""
        if part.required < 0:
            return self._soft(part, nodes)
        scope = part.scope
        assert scope is not None
        candidates = [scope.pin] if scope.pin >= 0 else self._candidates(part, part.required, nodes)
        size = self._slot_size(part)
        if size > 1:
            return self._in_slot(part, size, candidates, nodes)
        best: tuple[int, list[tuple[int, Ints, Ints]]] | None = None
        matters = self._has_wishes(part)
        for domain in candidates[:TRIES]:
            inside = self._inside(part.required, domain, nodes)
            mark = self._mark()
            if self._soft(part, inside):
                if not matters:
                    return True
                cost = self._wish_cost()
                done = self._journal[mark[1] :]
                if best is None or cost < best[0]:
                    best = (cost, done)
            self._undo(mark)
        if best is None:
            return False
        for demand, n, c in best[1]:
            self.take(demand, n, c)
        return True

    def _slot_size(self, part: Part) -> int:
        """The size of the slot that the layout has for a part, if any."""
        if self.layout is None or part.required != self.layout.level:
            return 0
        return self.layout.size(self.gang, part.demands, self._want)

    def _in_slot(
        self, part: Part, size: int, candidates: Sequence[int], nodes: Ints | None
    ) -> bool:
        """A part in a domain that has a slot of its size left."""
        able = [d for d in candidates if self.residual.slots_left.get((d, size), 0) > 0]
        for domain in able[:TRIES]:
            mark = self._mark()
            if self._soft(part, self._inside(part.required, domain, nodes)):
                self.residual.use_slot(domain, size)
                return True
            self._undo(mark)
        return False

    def _has_wishes(self, part: Part) -> bool:
        return part.preferred >= 0 or any(self._has_wishes(c) for c in part.children)

    def _wish_cost(self) -> int:
        units = self.units()
        return gang_domains(self.problem, self.gang, units) - scopes_in_use(self.gang, units)

    def _soft(self, part: Part, nodes: Ints | None) -> bool:
        """A part with its preferred level: one domain if possible, else few."""
        if part.preferred < 0:
            return self._contents(part, nodes)
        scope = part.scope
        assert scope is not None
        known = [p for p in scope.running if p >= 0]
        candidates = self._candidates(part, part.preferred, nodes)
        candidates = [d for d in candidates if d in known] + [
            d for d in candidates if d not in known
        ]
        for domain in candidates[:TRIES]:
            mark = self._mark()
            if self._contents(part, self._inside(part.preferred, domain, nodes)):
                return True
            self._undo(mark)
        mark = self._mark()
        if self._split(part, nodes, known):
            return True
        self._undo(mark)
        return self._contents(part, nodes)

    def _contents(self, part: Part, nodes: Ints | None) -> bool:
        """What a part consists of, hardest first, wherever it fits."""
        self._check_time()
        for child in self._hardest_first(part.children):
            if not self._part(child, nodes):
                return False
        return all(
            self.loose(d, self._want[d], nodes) == self._want[d]
            for d in self._loose_order(part.loose)
        )

    def _hardest_first(self, parts: Sequence[Part]) -> list[Part]:
        def size(part: Part) -> tuple[bool, int]:
            weight = sum(self._gpus(d) * self._want[d] for d in part.demands)
            return (part.required >= 0, weight)

        return sorted(parts, key=size, reverse=True)

    def _loose_order(self, demands: Sequence[int]) -> list[int]:
        """Large pods before small; anchors before those that want to be near."""
        pod_class = [d.pod_class for d in self.gang.demands]

        def follows(d: int) -> bool:
            return any(
                rule.comes_late(pod_class[d]) for rule, _ in self.residual.loads_of(pod_class[d])
            )

        return sorted(demands, key=lambda d: (follows(d), -self._gpus(d), d))

    def _gpus(self, demand: int) -> int:
        return int(self.problem.gpus[self.gang.demands[demand].pod_class])

    def _inside(self, level: int, domain: int, nodes: Ints | None) -> Ints:
        inside = self.topology.inside(level, domain)
        if nodes is None or nodes is inside:
            return inside
        return inside[np.isin(inside, nodes, assume_unique=True)]

    def _sums(self, pod_class: ClassIdx, level: int, nodes: Ints | None) -> Ints:
        """Units of a pod class per domain of a level, within nodes."""
        if nodes is None:
            return self.residual.slots(pod_class, level)
        domain = self.problem.levels[level].domain[nodes]
        inside = domain >= 0
        row = self.residual.row(pod_class)[nodes]
        return np.bincount(domain[inside], row[inside], self.problem.levels[level].count).astype(
            np.int64
        )

    def _candidates(self, part: Part, level: int, nodes: Ints | None) -> list[int]:
        """Domains that may hold the part, tightest first."""
        need: dict[ClassIdx, int] = {}
        for d in part.demands:
            if self._want[d]:
                pod_class = self.gang.demands[d].pod_class
                need[pod_class] = need.get(pod_class, 0) + self._want[d]
        if not need:
            return list(range(self.problem.levels[level].count))
        able = np.ones(self.problem.levels[level].count, dtype=bool)
        for pod_class, count in need.items():
            able &= self._sums(pod_class, level, nodes) >= count
        for (narrow, pod_class, size), times in self._subparts(part).items():
            parent = self.topology.parent(narrow, level)
            if parent is not None and times > 0:
                places = self._sums(pod_class, narrow, nodes) // size
                able &= np.bincount(parent, places, len(able)) >= times
        found = np.flatnonzero(able)
        main = max(need, key=lambda s: (int(self.problem.gpus[s]) * need[s], need[s], -s))
        slack = self._sums(main, level, nodes)[found] - need[main]
        demand_rank = self.topology.least_demand_rank(main, level)[found]
        return [int(d) for d in found[np.lexsort((found, slack, demand_rank))]]

    def _subparts(self, part: Part) -> dict[tuple[int, ClassIdx, int], int]:
        """Smaller parts bound to a narrower level: (level, main pod class, units) to times."""
        found: dict[tuple[int, ClassIdx, int], int] = {}
        for child in part.children:
            if child.required >= 0:
                per: dict[ClassIdx, int] = {}
                for d in child.demands:
                    pod_class = self.gang.demands[d].pod_class
                    per[pod_class] = per.get(pod_class, 0) + self._want[d]
                for pod_class, size in per.items():
                    if size:
                        key = (child.required, pod_class, size)
                        found[key] = found.get(key, 0) + 1
            for key, times in self._subparts(child).items():
                found[key] = found.get(key, 0) + times
        return found

    def _split(self, part: Part, nodes: Ints | None, used: Sequence[int]) -> bool:
        """Spread a part over as few domains of its preferred level as we can."""
        level = part.preferred
        children = self._hardest_first(part.children)
        rest = {d: self._want[d] for d in part.loose if self._want[d]}
        left = list(used)
        tried: set[int] = set()
        while children or rest:
            self._check_time()
            domain = (
                left.pop(0)
                if left
                else self._next_domain(part, level, nodes, rest, children, tried)
            )
            if domain is None:
                return False
            tried.add(domain)
            inside = self._inside(level, domain, nodes)
            children = [c for c in children if not self._try(c, inside)]
            for d in self._loose_order(list(rest)):
                rest[d] -= self.loose(d, rest[d], inside)
            rest = {d: k for d, k in rest.items() if k}
        return True

    def _try(self, part: Part, nodes: Ints) -> bool:
        mark = self._mark()
        if self._part(part, nodes):
            return True
        self._undo(mark)
        return False

    def _next_domain(
        self,
        part: Part,
        level: int,
        nodes: Ints | None,
        rest: dict[int, int],
        children: Sequence[Part],
        tried: set[int],
    ) -> int | None:
        """The tightest domain for all that is left, else the roomiest."""
        need: dict[ClassIdx, int] = {}
        for d in (*rest, *(d for c in children for d in c.demands)):
            pod_class = self.gang.demands[d].pod_class
            need[pod_class] = need.get(pod_class, 0) + rest.get(d, self._want[d])
        main = max(need, key=lambda s: (int(self.problem.gpus[s]) * need[s], need[s], -s))
        room = self._sums(main, level, nodes).copy()
        room[list(tried & set(range(len(room))))] = 0
        if not room.any():
            return None
        holds = np.flatnonzero(room >= need[main])
        if len(holds):
            return int(holds[np.argmin(room[holds])])
        return int(np.argmax(room))

    # --- pods -------------------------------------------------------------

    def loose(self, demand: int, count: int, nodes: Ints | None) -> int:
        """Place up to `count` units on the best nodes; returns how many."""
        pod_class = self.gang.demands[demand].pod_class
        if count <= 0:
            return 0
        if self.problem.special[pod_class]:
            return self._one_by_one(demand, count, nodes)
        row = self.residual.row(pod_class)
        if nodes is None:
            able = np.flatnonzero(row)
            fits = row[able]
        else:
            fits = row[nodes]
            able = nodes[fits > 0]
            fits = fits[fits > 0]
        if not len(able):
            return 0
        key = self.topology.node_key(self.residual, pod_class, able)
        if count == 1:
            best = np.argmin(key)
            self.take(demand, able[best : best + 1], np.ones(1, dtype=np.int64))
            return 1
        order = np.argsort(key, kind="stable")
        fits = fits[order]
        before = np.cumsum(fits) - fits
        counts = np.clip(count - before, 0, fits)
        chosen = counts > 0
        self.take(demand, able[order][chosen], counts[chosen])
        return int(counts.sum())

    def _one_by_one(self, demand: int, count: int, nodes: Ints | None) -> int:
        """Units under rules between pods, each placed with the rules as they are then."""
        pod_class = self.gang.demands[demand].pod_class
        nodes = self._near_each_other(pod_class, count, nodes)
        done = 0
        while done < count:
            self._check_time()
            able = self.residual.allowed(pod_class) & (self.residual.row(pod_class) > 0)
            chosen = np.flatnonzero(able) if nodes is None else nodes[able[nodes]]
            if not len(chosen):
                break
            key = self.topology.node_key(self.residual, pod_class, chosen)
            key = key + self._crowding(pod_class, chosen) * (1 << 50)
            best = int(chosen[np.argmin(key)])
            self.take(demand, np.array([best]), np.ones(1, dtype=np.int64))
            done += 1
        return done

    def _crowding(self, pod_class: ClassIdx, nodes: Ints) -> Ints:
        """How much the rules of the pod class would avoid the nodes' domains."""
        total = np.zeros(len(nodes), dtype=np.int64)
        for rule, load in self.residual.loads_of(pod_class):
            crowding = rule.crowding(load, pod_class)
            if crowding is not None:
                total += crowding[self.problem.levels[rule.level].domain[nodes]]
        return total

    def _near_each_other(self, pod_class: ClassIdx, count: int, nodes: Ints | None) -> Ints | None:
        """For pods that must share a domain only with themselves: one that holds them."""
        for rule, load in self.residual.loads_of(pod_class):
            if not rule.shares_one_domain(load, pod_class):
                continue
            row = np.where(self.residual.allowed(pod_class), self.residual.row(pod_class), 0)
            if nodes is not None:
                row = np.where(np.isin(np.arange(len(row)), nodes), row, 0)
            room = sums_by_domain(self.problem, rule.level, row)
            holds = np.flatnonzero(room >= count)
            if len(holds):
                nodes = self._inside(rule.level, int(holds[np.argmin(room[holds])]), nodes)
        return nodes

    # --- scopes that do not nest --------------------------------------------

    def _run_flat(self, nodes: Ints | None) -> bool:
        """Choose a domain for one required scope after another, then place pods."""
        bound = (s for s in self.gang.scopes if s.required >= 0)
        distinct = {(s.demands, s.required, s.pin): s for s in bound}
        scopes = list(distinct.values())
        # Depth first, on a stack of our own: a gang may have any number of scopes. Each
        # entry is the domains still to try and the nodes left to each demand so far.
        stack: list[tuple[Iterator[int], dict[int, Ints]]] = [(self._domains(scopes, 0), {})]
        while stack:
            self._check_time()
            domains, chosen = stack[-1]
            if len(stack) > len(scopes):
                if self._all_loose(chosen, nodes):
                    return True
                stack.pop()
                continue
            domain = next(domains, None)
            if domain is None:
                stack.pop()
                continue
            scope = scopes[len(stack) - 1]
            inside = self.topology.inside(scope.required, domain)
            narrowed = dict(chosen)
            for d in scope.demands:
                before = chosen.get(d, nodes)
                narrowed[d] = inside if before is None else np.intersect1d(before, inside)
            if all(self._may_hold(d, narrowed[d]) for d in scope.demands):
                stack.append((self._domains(scopes, len(stack)), narrowed))
        return False

    def _may_hold(self, demand: int, nodes: Ints) -> bool:
        """Whether some nodes have room for the minimum of a demand by itself."""
        row = self.residual.row(self.gang.demands[demand].pod_class)
        return int(row[nodes].sum()) >= self._want[demand]

    def _domains(self, scopes: Sequence[Scope], at: int) -> Iterator[int]:
        """Domains to try for one of some scopes; none past the last."""
        if at == len(scopes):
            return iter(())
        if scopes[at].pin >= 0:
            return iter([scopes[at].pin])
        part = Part(None, scopes[at].demands, ())
        return iter(self._candidates(part, scopes[at].required, None)[:TRIES])

    def _all_loose(self, chosen: dict[int, Ints], nodes: Ints | None) -> bool:
        """Place the minimum of every demand within the nodes chosen for it, or nothing."""
        mark = self._mark()
        order = self._loose_order(range(len(self.gang.demands)))
        if all(self.loose(d, self._want[d], chosen.get(d, nodes)) == self._want[d] for d in order):
            return True
        self._undo(mark)
        return False

    # --- extras -----------------------------------------------------------

    def run_extras(self) -> None:
        """Add units beyond the minimum, near what is there."""
        have = [0] * len(self.gang.demands)
        for (d, _), count in self.taken.items():
            have[d] += count
        for requirement in self.gang.requirements:
            placed = sum(have[d] for d in requirement.demands)
            for d in requirement.demands:
                want = min(requirement.pending - placed, self.gang.demands[d].count - have[d])
                want = min(want, self.residual.queues.most(self.gang, d))
                for nodes in self._extra_nodes(d) if want > 0 else ():
                    done = self._extra(d, want, nodes)
                    want, placed = want - done, placed + done
                    if want <= 0:
                        break
                if time.monotonic() > self._until:
                    return

    def _extra(self, demand: int, want: int, nodes: Ints | None) -> int:
        mark = self._mark()
        try:
            done = self.loose(demand, want, nodes)
        except OutOfTime:
            self._undo(mark)
            return 0
        if done and not self.residual.rules_hold():
            self._undo(mark)
            return 0
        self.residual.queues.charge(self.gang, ((demand, done),))
        return done

    def _extra_nodes(self, demand: int) -> Iterator[Ints | None]:
        """Where extras may go: used preferred domains first, then anywhere allowed."""
        nodes: Ints | None = None
        for scope in self.gang.scopes:
            if scope.required < 0 or demand not in scope.demands:
                continue
            domain: int = scope.pin
            if domain < 0:
                of = self.problem.levels[scope.required].domain
                used = [int(of[n]) for (d, n), c in self.taken.items() if c and d in scope.demands]
                if not used and not self.problem.levels[scope.required].count:
                    return
                domain = used[0] if used else self._roomiest(demand, scope.required, nodes)
            nodes = self._inside(scope.required, domain, nodes)
        for scope in self.gang.scopes:
            if scope.preferred >= 0 and demand in scope.demands:
                place = self.problem.levels[scope.preferred].place_of
                near = {p for p in scope.running if p >= 0}
                near |= {
                    int(place[n]) for (d, n), c in self.taken.items() if c and d in scope.demands
                }
                if near:
                    inside = np.flatnonzero(np.isin(place, list(near)))
                    yield inside if nodes is None else np.intersect1d(inside, nodes)
        yield nodes

    def _roomiest(self, demand: int, level: int, nodes: Ints | None) -> int:
        return int(np.argmax(self._sums(self.gang.demands[demand].pod_class, level, nodes)))


def mandatory(gang: Gang) -> list[int]:
    """Units of each demand that make up the minimum; the first pod sets come first."""
    want = [0] * len(gang.demands)
    for requirement in gang.requirements:
        left = requirement.missing
        for d in requirement.demands:
            want[d] = min(left, gang.demands[d].count)
            left -= want[d]
    return want
