"""Nodes as the victim model sees them: which need no distinction, and what each has room for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from placement_service.formulation.arrays import Ints
from placement_service.formulation.indices import ClassIdx, GangIdx
from placement_service.formulation.problem import Budget, Problem


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Nodes alike; `pods` are units by (gang, demand's pod class) on each of them."""

    nodes: Ints
    pods: Mapping[tuple[int, int], int]


def node_classes(
    problem: Problem, asked: Sequence[ClassIdx], levels: Sequence[int]
) -> list[NodeClass]:
    """The nodes by what they have, what runs there, and which new pods they take."""
    pods: defaultdict[int, dict[tuple[int, int], int]] = defaultdict(dict)
    for gang in (g for g in problem.gangs if g.home):
        for home in gang.home:
            key = (gang.index, gang.demands[home.demand].pod_class)
            here = pods[home.node]
            here[key] = here.get(key, 0) + home.units
    eligible = problem.eligible[list(asked)].astype(np.int64)
    domains = [problem.levels[i].domain for i in levels]
    # What nodes have, and the domains and pods that they are open to, as bytes [N].
    facts = np.ascontiguousarray(np.concatenate([problem.free.T, eligible, *domains], axis=None))
    facts = np.ascontiguousarray(facts.reshape(-1, problem.node_count).T)
    has = facts.view(np.dtype((np.void, facts.dtype.itemsize * facts.shape[1]))).ravel().tolist()
    # Pod classes of homes belong to one node, but otherwise nodes may be alike.
    requests: dict[int, bytes] = {}
    budgets = [covered_by(problem, budget) for budget in problem.budgets]
    found: dict[object, list[int]] = {}
    for n, own in enumerate(has):
        alike = []
        for (g, s), units in sorted(pods[n].items()):
            if s not in requests:
                requests[s] = problem.request[s].tobytes()
            alike.append((g, requests[s], units, *(s in b.get(GangIdx(g), ()) for b in budgets)))
        found.setdefault((own, tuple(alike)), []).append(n)
    return [NodeClass(np.array(nodes), pods[nodes[0]]) for nodes in found.values()]


def told_apart(
    problem: Problem, classes: Sequence[NodeClass], asked: Sequence[ClassIdx]
) -> list[NodeClass]:
    """The same with nodes one by one where a sum over them may say less than each by itself: six
    GPUs left on each of two nodes hold two units of four, and not three.
    """
    found: list[NodeClass] = []
    for one in classes:
        if len(one.nodes) > 1 and not _adds_up(problem, one, asked):
            found += [NodeClass(node, one.pods) for node in one.nodes.reshape(-1, 1)]
        else:
            found.append(one)
    return found


def _adds_up(problem: Problem, node_class: NodeClass, asked: Sequence[ClassIdx]) -> bool:
    """Whether nodes alike hold together what they hold one by one, whatever stays on them: of what
    runs out, pods that run there and units that come take multiples of each other.
    """
    node = node_class.nodes[0]
    free = problem.free[node]
    able = [s for s in asked if problem.eligible[s, node] and (problem.request[s] <= free).all()]
    if not able or not node_class.pods:
        return True
    come = problem.request[able]
    each = problem.request[[s for _, s in node_class.pods]]
    together = each * np.array(list(node_class.pods.values()))[:, None]
    for r in that_bind(np.concatenate([come, each]), free):
        used = each[:, r] > 0
        amounts = np.append(together[used, r], free[r])
        for size in come[:, r][come[:, r] > 0].tolist():
            larger, smaller = np.maximum(each[used, r], size), np.minimum(each[used, r], size)
            if (amounts % size).any() or (larger % smaller).any():
                return False
    return True


def covered_by(problem: Problem, budget: Budget) -> Mapping[GangIdx, set[ClassIdx]]:
    """The pod classes that a budget counts, by gang."""
    covered: defaultdict[GangIdx, set[ClassIdx]] = defaultdict(set)
    for g, d in budget.demands:
        covered[g].add(problem.gangs[g].demands[d].pod_class)
    return covered


def taken_whole(
    problem: Problem, classes: Sequence[NodeClass], asked: Sequence[ClassIdx], fits: Ints
) -> frozenset[int]:
    """Node classes where no node holds two units that come, or one beside a running pod. `fits` of
    the pod classes that are `asked` come to a node of a class at most [A, J].
    """
    found = set()
    for j in np.flatnonzero(fits.max(axis=0, initial=0) == 1).tolist():
        node_class, able = classes[j], np.flatnonzero(fits[:, j])
        free = problem.free[node_class.nodes[0]]
        requests = problem.request[[asked[a] for a in able.tolist()]]
        if exclude_each_other(requests, free) and all(
            (requests + problem.request[s] > free).any(axis=1).all() for _, s in node_class.pods
        ):
            found.add(j)
    return frozenset(found)


def in_the_way_of(
    problem: Problem, asked: Sequence[ClassIdx], alone: Sequence[int], running: int, node: int
) -> list[int]:
    """Those of some pod classes, by their numbers among `asked`, that a node has no room for beside
    a running pod; and of them it holds no two.
    """
    free = problem.free[node]
    requests = problem.request[[asked[a] for a in alone]]
    blocked = (requests + problem.request[running] > free).any(axis=1)
    crowd = [a for a, is_blocked in zip(alone, blocked, strict=True) if is_blocked]
    while crowd and not exclude_each_other(problem.request[[asked[a] for a in crowd]], free):
        crowd = crowd[:-1]
    return crowd


def exclude_each_other(requests: Ints, free: Ints) -> bool:
    """Whether a node has no room for units of any two pod classes, or two of one."""
    both = requests[:, None, :] + requests[None, :, :]
    return bool((both > free).any(axis=2).all())


def that_bind(takes: Ints, free: Ints) -> list[int]:
    """Resources that may run out on a node; where one always runs out before another, only that
    one.
    """
    used = np.flatnonzero(takes.any(axis=0))
    share = takes[:, used] / np.maximum(free[used], 1)
    # Whether the first is never less than the second, and ever more.
    never_less = (share[:, :, None] >= share[:, None]).all(axis=0)
    beats = never_less & ~never_less.T
    # Of those that are the same the first counts.
    beats |= np.triu(never_less & never_less.T, 1)
    found: list[int] = used[~beats.any(axis=0)].tolist()
    return found
