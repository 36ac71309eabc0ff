"""Numbers and verdicts in words promise neither too much nor too little."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement import v1
from placement.cli import words
from tests.cli.question import tier


@pytest.mark.parametrize(
    ("amount", "want"),
    [
        (0.0, "0 ms"),
        (0.0854, "85 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.0 s"),
        (1.25, "1.2 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 0 s"),
        (125.0, "2 min 5 s"),
        (3_599.4, "59 min 59 s"),
        (12_000.0, "3 h 20 min"),
        (86_399.0, "1 d 0 h"),
        (608_400.0, "7 d 1 h"),
    ],
)
def test_spans_of_time(amount: float, want: str) -> None:
    assert words.seconds(amount) == want


@pytest.mark.parametrize(
    ("amount", "want"),
    [(-5, "0s"), (45.9, "45s"), (125, "2m5s"), (659, "10m"), (12_000, "3h20m"), (90_000, "1d1h"),
     (86_400, "1d"), (864_000, "10d")],
)  # fmt: skip
def test_ages_are_those_of_kubectl(amount: float, want: str) -> None:
    assert words.age(amount) == want


def test_numbers_in_names_are_compared_as_numbers() -> None:
    assert sorted(["n10", "n2", "n1", "m3"], key=words.natural) == ["m3", "n1", "n2", "n10"]


@given(st.lists(st.text()))
def test_any_names_can_be_sorted(names: list[str]) -> None:
    sorted(names, key=words.natural)


@given(st.text(), st.integers(4, 40))
def test_shortened_text_fits_and_short_text_stays(text: str, most: int) -> None:
    short = words.shorten(text, most)
    assert len(short) == min(len(text), most)
    assert text == short or text.endswith(short.rsplit("…", 1)[1])


def test_levels_are_called_by_the_end_of_their_key() -> None:
    keys = ["topology.example.com/rack", "kubernetes.io/hostname", "plain"]
    assert list(words.level_names(keys).values()) == ["rack", "host", "plain"]


def test_levels_that_would_be_called_alike_keep_their_whole_key() -> None:
    keys = ["a.example/rack", "b.example/rack", "a.example/block"]
    assert list(words.level_names(keys).values()) == ["a.example/rack", "b.example/rack", "block"]


@pytest.mark.parametrize(
    ("noun", "want"),
    [("rack", "2 racks"), ("class", "2 classes"), ("topology", "2 topologies"), ("day", "2 days")],
)
def test_plurals(noun: str, want: str) -> None:
    assert words.count(2, noun) == want
    assert words.count(1, noun) == f"1 {noun}"


@pytest.mark.parametrize(
    ("reached", "want"),
    [
        pytest.param(tier("admitted", 96, 96), "proven optimal", id="bound reached"),
        # 2 / 96 is 2.083... %, and a promise is rounded up.
        pytest.param(tier("admitted", 96, 98), "within 2.1 % of the best possible", id="maximised"),
        pytest.param(tier("topology", 3, 1), "at most 2 above the best possible", id="minimised"),
        pytest.param(tier("extra", 4), "without a known bound", id="no bound"),
        pytest.param(tier("fragmentation", 4), "best effort", id="never has a bound"),
    ],
)
def test_verdict_on_a_tier(reached: v1.ObjectiveTier, want: str) -> None:
    assert words.tier_verdict(reached) == want


@pytest.mark.parametrize(
    ("share", "want"),
    [(0.0101, "1.1 %"), (0.01, "1.0 %"), (0.0999, "10 %"), (0.334, "34 %"), (2.0, "200 %")],
)
def test_percentages_are_rounded_up(share: float, want: str) -> None:
    assert words.percent(share) == want


def test_the_verdict_is_about_the_first_tier_that_is_not_proven() -> None:
    placement = v1.Placement(
        tiers=[tier("admitted", 96, 96), tier("waiting", 2, 3), tier("extra", 2, 4)],
        termination=v1.Termination(
            reason=v1.TerminationReason.TERMINATION_REASON_FEASIBLE,
            limit=v1.TerminationLimit.TERMINATION_LIMIT_TIME,
        ),
    )
    assert words.verdict(placement) == (
        "Waiting within 50 % of the best possible; the time limit ended the search"
    )


def test_the_verdict_on_a_proven_answer() -> None:
    reason = v1.TerminationReason.TERMINATION_REASON_OPTIMAL
    placement = v1.Placement(termination=v1.Termination(reason=reason))
    assert words.verdict(placement) == "Proven optimal"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("no node has room.", "No node has room."),
        ("rack r7 has room.", "Rack r7 has room."),
        ("gpu.clique a1 has room.", "gpu.clique a1 has room."),
        ("GPUs are missing.", "GPUs are missing."),
        ("", ""),
    ],
)
def test_a_sentence_begins_with_a_capital_unless_with_a_name(text: str, want: str) -> None:
    assert words.sentence(text) == want
