"""Rules on the policy and the limits of the request."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from placement_service.api.validation.names import (
    MAX_KEY,
    MAX_TEXT,
    duration_problem,
    show,
    too_long,
)
from placement_service.entities.errors import Violation
from placement_service.entities.request import Request
from placement_service.entities.solution import TierName


def gpu_resources_have_names(request: Request) -> Iterator[Violation]:
    for i, name in enumerate(request.policy.gpu_resources):
        problem = too_long(name, MAX_KEY) if name else "must not be empty"
        if problem:
            yield Violation(f"policy.gpu_resources[{i}]", problem)


def starvation_begins_after_a_duration(request: Request) -> Iterator[Violation]:
    after = request.policy.starvation_after
    problem = duration_problem(after) if after is not None else ""
    if problem:
        yield Violation("policy.starvation_after", problem)


def tolerances_are_shares_of_tiers(request: Request) -> Iterator[Violation]:
    tiers = [tier.value for tier in TierName]
    for tier, share in request.policy.tolerances:
        path = f"policy.tolerances[{show(tier)}]"
        if tier not in tiers:
            yield Violation(path, f"is no tier; the tiers are {', '.join(tiers)}")
        # Written so that it also refuses what is not a number.
        if not 0 <= share <= 1:
            yield Violation(path, f"must be from 0 to 1, is {share:g}")


def the_time_limit_is_positive_and_a_duration(request: Request) -> Iterator[Violation]:
    if request.time_limit_seconds is not None:
        yield from check_time_limit(request.time_limit_seconds)


def check_time_limit(seconds: float) -> Iterator[Violation]:
    """What is wrong with the time limit of a request of any kind."""
    problem = duration_problem(seconds) if seconds > 0 else f"must be positive, is {seconds:g} s"
    if problem:
        yield Violation("time_limit", problem)


def what_comes_back_is_short(request: Request) -> Iterator[Violation]:
    for field, text in (
        ("snapshot.revision", request.snapshot.revision),
        ("label", request.label),
    ):
        problem = too_long(text, MAX_TEXT)
        if problem:
            yield Violation(field, problem)


RULES: tuple[Callable[[Request], Iterator[Violation]], ...] = (
    gpu_resources_have_names,
    starvation_begins_after_a_duration,
    tolerances_are_shares_of_tiers,
    the_time_limit_is_positive_and_a_duration,
    what_comes_back_is_short,
)
