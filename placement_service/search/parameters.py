"""How much each stage of the search tries, in one value that is passed in.

Efforts are CP-SAT's deterministic time, so that the same request takes the same path.
"""

from __future__ import annotations

from dataclasses import dataclass

from placement_service.bounds.configurations import (
    CONFIGURATION_DEFAULTS,
    ConfigurationParameters,
)
from placement_service.bounds.ways_to_count import COUNTING_DEFAULTS, CountingParameters
from placement_service.cp_sat.parameters import MODEL_DEFAULTS, ModelParameters


@dataclass(frozen=True, slots=True)
class SearchParameters:
    """The defaults were measured on the families of `bench`."""

    #: How much is counted, and how large the parts of models may become.
    counting: CountingParameters = COUNTING_DEFAULTS
    model: ModelParameters = MODEL_DEFAULTS
    #: How much is distinguished where parts of gangs share domains with unlike nodes.
    configurations: ConfigurationParameters = CONFIGURATION_DEFAULTS

    #: The seed of every random choice: the same question takes the same path.
    seed: int = 20261121
    #: With so few seconds nothing useful can be done.
    least_seconds: float = 0.05

    #: Where later tiers may spend some of a tier, its best need not be known better than by this
    #: share of what may be spent.
    near_enough: float = 0.1

    #: The share of the time that bounds from a looser problem may take, where there is one.
    relaxation_share: float = 0.25
    #: Nodes up to which reservations are counted there though it is known who is admitted.
    relaxation_nodes: int = 500
    #: The share of the time after which no further goal is counted: each priority has its own.
    counting_share: float = 0.75
    #: Seconds that counting takes for each node and pod class.
    counting_seconds: float = 1e-7
    #: Seconds that the admission master takes for each pod class, before it is asked for anything.
    master_seconds: float = 2.5e-4
    #: Effort for each goal of the admission master.
    master_effort: float = 2.0
    #: The same for a first try from the bound, which mostly settles a goal in two thirds of the
    #: time.
    master_near_effort: float = 0.2
    #: The same for which of the best sets is easiest to place.
    master_target_effort: float = 0.2
    #: Classes of gangs times places up to which the master is asked which gangs lie whole where,
    #: and its effort; that of the question whether any plan is better than the one there is.
    place_variables: int = 8_000
    place_effort: float = 1.0
    place_brief_effort: float = 0.6
    #: The effort to name the gangs of a target that are torn at least, and to say whether others do
    #: with fewer domains. That to name any, where nothing is known of them. Ways to count up to
    #: which it is tried: what takes longer is guessed sooner.
    place_torn_brief_effort: float = 0.08
    place_torn_effort: float = 0.3
    place_torn_long_effort: float = 0.5
    place_torn_ways: int = 100

    #: The shares of the time that is left for each goal of the master with configurations, also
    #: where nodes of one domain are unlike, and for its bound.
    configuration_share: float = 0.5
    configuration_share_unlike: float = 0.7
    configuration_bound_share: float = 0.3
    #: Configurations that cost at most so much of the bound are tried.
    configuration_slack: float = 1e-4
    #: To choose among them, the share of the time for a brief try, and the effort for a longer one;
    #: effort to give their parts to gangs.
    configuration_brief_share: float = 0.6
    configuration_effort: float = 3.0
    configuration_assignment_effort: float = 0.3
    #: The share of the time in which most domains are to hold what they held before; with fewer
    #: seconds nothing is found.
    configuration_near_share: float = 0.5
    configuration_near_seconds: float = 1.0
    #: Where that lacks more, a dive, at once where it lacks such a share of the bound: its share of
    #: the time else, columns to begin with, and the shares of the domains that are left open.
    configuration_far: float = 0.01
    configuration_dive_share: float = 0.8
    configuration_columns: int = 3_000
    configuration_leave: tuple[float, ...] = (0.5, 0.17, 0.0)

    #: Whole gangs for blocks of unlike racks: the share of the time for all blocks one by one, and
    #: for all of it, so that exchanges have theirs where it finds nothing; how often its even share
    #: of that time one block may take, as few need as much; how much of what gangs count beyond
    #: their parts draws them to the first blocks, where two hundredths let old gangs in and hardly
    #: cost GPUs; rows for small pods; and how many of the last blocks are filled together where
    #: that is not enough.
    unlike_share: float = 0.6
    unlike_end: float = 0.75
    unlike_patience: float = 3.0
    unlike_surplus: float = 0.02
    unlike_rows: int = 8
    #: Shares of all goals that refilling single blocks cannot make up for: it gains a hundredth.
    unlike_hopeless: float = 0.02
    unlike_again: tuple[int, ...] = (1, 2, 3, 5, 7)

    #: From so many running gangs that may give way on, they have a model of their own.
    victim_gangs: int = 30
    #: Solvers at work at once there.
    victim_threads: int = 2
    #: Variables up to which whole numbers mostly cost no more than a linear program or
    #: neighbourhoods, and say all.
    victim_variables: int = 6_000

    #: The share of the time that it may take for one goal in whole numbers: for a brief try, and
    #: for a longer one.
    victim_first_share: float = 0.15
    victim_solve_share: float = 0.9
    #: The share of the time for which victims are spared one after another.
    victim_spare_share: float = 0.2
    #: The share of the time for the bound of all priorities together.
    victim_sum_share: float = 0.2
    #: The share of the time for the bound from regions one by one.
    victim_regions_share: float = 0.3
    #: Where pods move: what is looked for briefly is this part of the way from the bound to the
    #: plan.
    victim_near: float = 0.125
    #: How many times as long as its linear program a model may take in whole numbers before its
    #: solver looks at the clock.
    victim_root: float = 5.0
    #: How many times as long as its linear program has to be left for whole numbers beside
    #: neighbourhoods.
    victim_beside: float = 2.5
    #: They begin at once where the plan lacks more than this share of the bound of a tier, and so
    #: many seconds are left. By how many seconds they may end late. With how many seconds left the
    #: solver prepares the model all the same: it then ends sooner, but bounds less at first.
    victim_far: float = 0.05
    victim_whole_seconds: float = 5.0
    victim_late: float = 0.8
    victim_prepared_seconds: float = 30.0
    #: Cores of the victim model: the domains of each part at first, and at most; how many times the
    #: room that units need is open; how many units of the next goal a unit counts; the seconds for
    #: each core, by its domains.
    core_domains: int = 2
    most_core_domains: int = 24
    core_room: float = 1.3
    core_rate: int = 100
    core_seconds: float = 0.6
    #: Neighbourhoods of the victim model: the share of the time for one goal, the domains that are
    #: open at most of all there are, seconds for each, those that are left when the last one ends,
    #: nodes of the search tree for each, and so many without success end it.
    victim_share: float = 0.35
    victim_domains: float = 0.5
    victim_seconds: float = 3.0
    victim_end: float = 0.2
    victim_nodes: int = 500
    victim_in_vain: int = 10
    #: How readily a domain is opened in which the plan does not fall short, where those in
    #: which it does count one together; how often others are drawn than those opened before.
    victim_chance: float = 0.02
    victim_choices: int = 20
    #: The same share where the sharp model comes next. The domains that it opens at first beside
    #: what its linear program has otherwise, and so many more after one without success.
    victim_patient_share: float = 0.08
    fewest_led_domains: int = 1
    led_wider: float = 0.5

    #: So often a looser question is asked whose plans find no places (`alike_nodes`).
    alike_attempts: int = 8

    #: Nodes up to which blocks are filled one after another: beyond, that takes all the time.
    block_nodes: int = 12_000
    #: The same for blocks for all gangs at once, which need no model.
    assign_nodes: int = 50_000
    #: Pools of whole nodes that blocks are filled with at most.
    block_pools: int = 64
    #: By how much gangs count more while blocks are filled: the largest, those of parts as
    #: large as a rack, and those that hardly any pool takes.
    block_large_gangs: float = 0.03
    block_large_parts: float = 0.3
    block_few_pools: float = 1.0
    #: Effort for one block, for what is left after all blocks, and for two blocks again.
    block_effort: float = 0.1
    block_rest_effort: float = 2.0
    block_swap_effort: float = 0.25
    #: Blocks opened at once: at first, and one more after so many times without success, while
    #: gangs are left out and when none is.
    block_fewest: int = 2
    block_fillings_wider_after: int = 15
    block_swaps_wider_after: int = 4
    #: So many times without success end it, again while gangs are left out and when none is.
    block_fillings_in_vain: int = 20
    block_swaps_in_vain: int = 60
    #: So much of the time that was left after a success also ends it: others may find more.
    block_swaps_share: float = 0.25
    #: Swaps without success after which it is counted whether there is anything to gain.
    block_swaps_uncounted: int = 8

    #: Blocks for all gangs at once: attempts, guesses in each with all gangs whole, guesses with
    #: the same ones torn, and how many may be torn before it is given up.
    assign_attempts: int = 6
    #: The share of the time that guesses may take, and where nodes of one block are unlike: there
    #: they often fail, and configurations need so many seconds, or nearly as much of a short time.
    #: The share when these are done.
    assign_share: float = 0.5
    assign_share_varied: float = 0.6
    assign_share_short: float = 0.25
    configuring_seconds: float = 3.5
    assign_share_again: float = 0.8
    #: The least share of all nodes that no rack binds, and where nodes of one rack are unlike.
    assign_loose_share: float = 0.05
    assign_loose_share_unlike: float = 0.15
    assign_rounds: int = 6
    assign_torn_rounds: int = 8
    assign_torn: int = 6
    #: Rounds in each of which more gangs are torn, before another begin.
    assign_tearing_rounds: int = 10
    #: After so many guesses torn gangs are cut into one piece more.
    assign_torn_more: int = 6
    #: So often a gang is tried whole again, and two of its pieces as one.
    assign_joining: int = 3
    #: Guesses with those torn that counting says.
    assign_strict: int = 3
    #: Steps of a guess, more where all gangs must find a block, and how often rows are learned of
    #: racks that do not hold it.
    assign_steps: int = 150
    assign_strict_steps: int = 400
    #: Steps without success that end a guess: what is found later is found sooner from another
    #: begin. The same for a brief one.
    assign_in_vain: int = 130
    assign_in_vain_brief: int = 40
    #: How many times as many steps of both sorts, where nodes of one rack are unlike and all gangs
    #: must find a block: the rows that such a guess has learned are worth them.
    assign_unlike_longer: int = 4
    #: Steps of all guesses together.
    assign_all_steps: int = 8_000
    assign_corrections: int = 10
    assign_strict_corrections: int = 30
    #: Effort to find racks of a block for parts that best fit does not place, and the seconds that
    #: cut it short: mostly it takes five milliseconds.
    assign_packing_effort: float = 0.05
    assign_packing_seconds: float = 0.2
    #: By how much luck moves gangs in the order in which they choose blocks.
    assign_luck: float = 0.3

    #: Classes of gangs left out that may take the place of others when blocks are opened.
    block_newcomers: int = 120

    #: Exchanging parts between racks: how readily it takes a plan that uses more blocks, at first
    #: and then again, each at its begin and after so many steps; the more single nodes move, the
    #: colder it has to be.
    exchange_temperatures: tuple[tuple[float, float], ...] = ((0.4, 0.25), (0.1, 0.1))
    #: The share of the time right after configurations.
    exchange_cold_share: float = 0.5
    exchange_cooling_steps: int = 400_000
    #: Steps without success, and so many more for the square of the share of the cost that is gone,
    #: which counts as this at least.
    exchange_least_steps: int = 20_000
    exchange_more_steps: int = 4_000_000
    exchange_least_share: float = 0.15
    #: Blocks beyond the first, in all and for each part, from which on all of these steps are worth
    #: it.
    exchange_large_cost: int = 16
    exchange_large_share: float = 0.02
    #: Steps between two checks of the clock; steps, or seconds, between two plans.
    exchange_steps_at_once: int = 2_000
    exchange_plan_steps: int = 150_000
    exchange_plan_seconds: float = 0.4

    #: Variables up to which the aggregate model is tried on the whole problem.
    aggregate_variables: int = 8_000
    #: The same before blocks are sought for all gangs: where the model is so small, it takes less
    #: time than that.
    aggregate_first_variables: int = 500
    #: Effort for each goal of the aggregate model.
    aggregate_effort: float = 0.5

    #: Variables up to which the aggregate model without domains is tried.
    node_variables: int = 12_000
    #: The share of the gangs that name a domain up to which it comes before placing them in turn.
    node_named: float = 0.5
    #: Effort for each of its goals.
    node_effort: float = 8.0
    #: Where pods that share nodes ask for this share of all GPUs, the target is placed before
    #: blocks are sought.
    shared_nodes: float = 0.2
    #: Filling domains anew: attempts for all of them, domains that are filled again at once, the
    #: share of the time, and so many without success end it.
    refill_attempts: int = 2
    refill_domains: tuple[int, int] = (3, 10)
    refill_share: float = 0.5
    refill_in_vain: int = 400

    #: Variables up to which the exact model is tried on the whole problem.
    exact_variables: int = 60_000
    #: The same for goals that have no proof to win, and for single gangs.
    exact_polish_variables: int = 6_000
    #: Variables up to which a hard goal gets a second try with more kinds of search.
    exact_portfolio_variables: int = 5_000
    #: Effort for each goal of the exact model.
    exact_effort: float = 5.0
    #: Effort of the second try.
    exact_hard_effort: float = 40.0
    #: Effort for a goal that has no proof to win.
    exact_polish_effort: float = 0.5
    #: Effort to find the fewest domains of one gang on its own.
    alone_effort: float = 0.5

    #: About how many variables one exact neighbourhood may have: more take too long to build.
    neighbourhood_variables: int = 10_000
    #: Effort for one neighbourhood.
    neighbourhood_effort: float = 0.4
    #: The same when one is tried again, with more kinds of search: exact, and aggregate.
    neighbourhood_effort_again: float = 4.0
    neighbourhood_aggregate_effort_again: float = 1.0
    #: After so many neighbourhoods in a row that were tried twice before, nothing is left to try.
    neighbourhood_stale: int = 40
    #: So many of the smallest neighbourhoods of a level that are not settled in a row lead to a
    #: narrower one; so many rounds in vain let later goals have their turn while it is open who is
    #: admitted.
    neighbourhood_unsettled: int = 2
    neighbourhood_in_vain: int = 4
    #: The largest weight of one neighbourhood's goals; goals beyond it are not optimised.
    neighbourhood_weight: int = 1 << 48
    #: More domains than a gang of a neighbourhood could be split over in addition.
    neighbourhood_domains_per_gang: int = 4
    #: Gangs left out that a neighbourhood may place instead of others of the same value.
    neighbourhood_swaps: int = 12
    #: Domains set free at once: at first, and at most.
    fewest_domains: int = 2
    most_domains: int = 16
    #: How that number grows after a neighbourhood was settled without success, where it was small,
    #: which has up to so many variables, and else; and shrinks after one was not settled.
    wider_small: float = 0.5
    neighbourhood_small: int = 1_000
    wider: float = 0.25
    narrower: float = 0.5
    #: The share of rounds for gangs that no neighbourhood describes; gangs at most that make room
    #: at once for one of these; and so many times in vain end it.
    places_share: float = 0.5
    places_at_once: int = 4
    places_in_vain: int = 40
    #: Rounds without success after which more expensive stages are tried.
    early_rounds: int = 24
    #: The least share of the time that is kept for those.
    early_share: float = 0.6
    #: Rounds of a deterministic search, which no clock may end.
    rounds: int = 150


DEFAULTS = SearchParameters()
