"""Expresses some rules by others, so that no later stage has to know them.

Rules that say nothing more than room does are dropped. Running gangs that may give way become gangs
to decide about, ComputeDomains become labels and rules between pods, devices become resources.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

from placement_service.entities.request import Policy, Snapshot
from placement_service.formulation.compute_domains import with_compute_domains
from placement_service.formulation.devices.as_resources import CannotStayError, with_devices
from placement_service.formulation.devices.patterns import Listings
from placement_service.formulation.eviction.beginning_anew import with_gangs_anew
from placement_service.formulation.eviction.looser_gangs import with_looser_gangs
from placement_service.formulation.eviction.reclaim_ways import with_other_ways
from placement_service.formulation.eviction.running_gangs import open_running_gangs
from placement_service.formulation.eviction.running_parts import with_running_parts
from placement_service.formulation.held_columns import TooManyHeldError, with_held
from placement_service.formulation.implied_rules import without_implied_rules
from placement_service.formulation.prepared import Prepared


def prepare(
    snapshot: Snapshot, policy: Policy, *, until: float = math.inf, by_turns: bool = False
) -> Prepared:
    """A valid snapshot in the rules that `formulate` knows.

    What fits the devices of nodes is tried out `until` (in `time.monotonic` seconds), and after
    that only counted, which is stricter. No looser question is asked then. With `by_turns` all
    gangs reclaim in one way (see `reclaim_ways`).
    """
    listings = Listings(until)
    bare = without_implied_rules(snapshot)
    once = with_gangs_anew(with_running_parts(bare, policy), policy)
    snapshot = once if by_turns else with_other_ways(once, policy)
    divided = None if snapshot is bare else snapshot
    opened = replace(_opened(snapshot, policy, listings), request=divided)
    if snapshot is not once:
        otherwise = _opened(snapshot, policy, listings, otherwise=True)
        if otherwise.homes == opened.homes:
            opened = replace(opened, otherwise=replace(otherwise, request=divided))
    if not opened.missed or time.monotonic() > until:
        return opened
    loose = with_looser_gangs(snapshot, opened.missed, policy)
    if loose is None:
        return opened
    looser = _opened(loose, policy, listings)
    looser = replace(looser, request=loose, sets_of=loose)
    return replace(opened, looser=looser) if looser.exact else opened


def _opened(
    snapshot: Snapshot, policy: Policy, listings: Listings, *, otherwise: bool = False
) -> Prepared:
    closed: frozenset[int] = frozenset()
    while True:
        opened = open_running_gangs(snapshot, policy, closed=closed, otherwise=otherwise)
        try:
            opened = with_held(opened)
            opened = replace(
                opened,
                snapshot=with_compute_domains(opened.snapshot),
                relaxed=opened.relaxed and with_compute_domains(opened.relaxed),
            )
            return with_devices(opened, snapshot, policy, listings)
        except (CannotStayError, TooManyHeldError) as error:
            closed |= error.gangs
