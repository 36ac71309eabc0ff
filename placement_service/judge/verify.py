"""Whether a plan keeps every rule, judged from the raw snapshot alone.

Runs on every answer before it leaves the service. It shares no code with the
engine, so that an error there cannot hide here.
It says what is broken; it does not repair it, nor say whether a better plan exists.

The rules are small functions of one signature, a file for each family in
`rules`. Those that concern every pod look at arrays, made from the request for this
purpose alone; those between pods look only at terms that some pod carries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from placement_service.entities.eviction import Eviction
from placement_service.entities.request import Binding, Policy, Snapshot
from placement_service.judge.outcome import Outcome
from placement_service.judge.plan import Plan
from placement_service.judge.question import Question
from placement_service.judge.rules import (
    affinity,
    anti_affinity,
    capacity,
    compute_domains,
    devices,
    evictions,
    freed,
    gangs,
    host_ports,
    nodes,
    queues,
    required_levels,
    reservations,
    spread,
)

#: Every rule, in the order of the documentation. A rule yields each way in which a plan breaks it.
RULES: tuple[Callable[[Plan], Iterable[str]], ...] = (
    nodes.bindings_are_of_pending_pods_on_usable_nodes,
    gangs.gangs_are_all_or_nothing,
    required_levels.required_levels_hold_scopes_together,
    capacity.nodes_are_not_overfilled,
    nodes.pods_go_where_their_template_allows,
    host_ports.host_ports_are_taken_once,
    anti_affinity.anti_affinity_keeps_pods_apart,
    anti_affinity.moved_pods_come_near_nobody_that_keeps_them_away,
    affinity.affinity_brings_pods_together,
    spread.spread_stays_within_the_skew,
    queues.queues_are_known,
    queues.limits_hold,
    queues.guaranteed_amounts_hold_what_is_not_preemptible,
    reservations.reservations_serve_their_owners,
    reservations.required_reservations_are_used,
    reservations.reservations_give_what_they_may,
    reservations.owners_use_their_reservation,
    evictions.evictions_are_of_running_pods_and_allowed,
    evictions.preemptible_gangs_give_way,
    evictions.only_what_can_be_asked_for_again_is_moved,
    evictions.whole_gangs_or_extras_give_way,
    evictions.bases_stay_while_gangs_based_on_them_run,
    evictions.gangs_run_for_their_minimum_time,
    evictions.disruption_budgets_hold,
    evictions.victims_go_for_a_gang_that_is_placed,
    evictions.only_lower_priorities_are_preempted,
    evictions.queues_reclaim_what_is_guaranteed,
    capacity.what_a_victim_leaves_serves_those_above_it,
    freed.ports_of_victims_serve_those_above_them,
    freed.nodes_of_victims_serve_the_domains_of_those_above_them,
    freed.places_that_victims_kept_free_serve_those_above_them,
    devices.pods_get_the_devices_that_they_ask_for,
    devices.devices_are_not_overfilled,
    devices.whole_devices_form_partitions,
    devices.pods_get_the_partitions_that_they_insist_on,
    devices.network_devices_are_near,
    compute_domains.nodes_serve_one_compute_domain,
)


def verify(
    snapshot: Snapshot,
    policy: Policy,
    bindings: Sequence[Binding],
    evictions: Sequence[Eviction] = (),
) -> tuple[str, ...]:
    """Every way in which the plan breaks a rule, in words; empty when it keeps all."""
    return violations(Outcome(Question(snapshot, policy), bindings, evictions), evictions)


def violations(outcome: Outcome, evictions: Sequence[Eviction]) -> tuple[str, ...]:
    """As `verify`, of a plan that has been read."""
    plan = Plan(outcome.question.policy, outcome.bindings, tuple(evictions), outcome)
    return tuple(violation for rule in RULES for violation in rule(plan))
