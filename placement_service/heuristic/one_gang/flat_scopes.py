"""A gang whose scopes overlap without nesting: a domain for one scope after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from placement_service.formulation.gangs.scope_tree import Part
from placement_service.formulation.problem import Scope
from placement_service.heuristic.one_gang.domain_choice import TRIES, DomainChoice
from placement_service.heuristic.one_gang.regions import EVERYWHERE, Region


def place_flat(gang: DomainChoice, region: Region) -> bool:
    """Choose a domain for one required scope after another, then place pods."""
    bound = (s for s in gang.gang.scopes if s.required >= 0)
    distinct = {(s.demands, s.required, s.pin): s for s in bound}
    scopes = list(distinct.values())
    # Depth first, on an explicit stack: a gang may have any number of scopes. Each
    # entry is the domains still to try and the nodes left to each demand so far.
    stack: list[tuple[Iterator[int], dict[int, Region]]] = [(_domains(gang, scopes, 0), {})]
    while stack:
        gang.check_time()
        domains, chosen = stack[-1]
        if len(stack) > len(scopes):
            if _place_all(gang, chosen, region):
                return True
            stack.pop()
            continue
        domain = next(domains, None)
        if domain is None:
            stack.pop()
            continue
        scope = scopes[len(stack) - 1]
        narrowed = dict(chosen)
        for d in scope.demands:
            before = chosen.get(d, region)
            narrowed[d] = gang.topology.narrowed(before, scope.required, domain)
        if all(_may_hold(gang, d, narrowed[d]) for d in scope.demands):
            stack.append((_domains(gang, scopes, len(stack)), narrowed))
    return False


def _may_hold(gang: DomainChoice, demand: int, region: Region) -> bool:
    """Whether a region has room for the minimum of a demand by itself."""
    pod_class = gang.gang.demands[demand].pod_class
    return gang.total_room(pod_class, region) >= gang.want[demand]


def _domains(gang: DomainChoice, scopes: Sequence[Scope], at: int) -> Iterator[int]:
    """Domains to try for one of some scopes; none past the last."""
    if at == len(scopes):
        return iter(())
    if scopes[at].pin >= 0:
        return iter([scopes[at].pin])
    part = Part(None, scopes[at].demands, ())
    return iter(gang.candidates(part, scopes[at].required, EVERYWHERE, TRIES))


def _place_all(gang: DomainChoice, chosen: Mapping[int, Region], region: Region) -> bool:
    """Place the minimum of every demand within the region chosen for it, or nothing."""
    mark = gang.mark()
    order = gang.loose_order(range(len(gang.gang.demands)))
    if all(gang.loose(d, gang.want[d], chosen.get(d, region)) == gang.want[d] for d in order):
        return True
    gang.undo(mark)
    return False
