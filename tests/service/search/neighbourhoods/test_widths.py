"""How many domains are set free at once, by what came of neighbourhoods before."""

from __future__ import annotations

from dataclasses import replace

from placement_service.search.neighbourhoods.widths import Widths
from placement_service.search.parameters import DEFAULTS

PARAMETERS = replace(
    DEFAULTS,
    fewest_domains=2,
    most_domains=4,
    wider=0.25,
    wider_small=0.5,
    neighbourhood_small=100,
    narrower=0.5,
    neighbourhood_unsettled=2,
)
ZONES, RACKS = 0, 1


def test_what_is_settled_in_vain_widens_its_own_level_alone() -> None:
    widths = Widths(PARAMETERS)
    for _ in range(4):
        widths.settled(ZONES, 1_000)
    assert widths.domains(ZONES) == 3
    assert widths.domains(RACKS) == 2


def test_small_ones_widen_faster_and_no_further_than_the_most() -> None:
    widths = Widths(PARAMETERS)
    widths.settled(RACKS, 100)
    widths.settled(RACKS, 100)
    assert widths.domains(RACKS) == 3
    for _ in range(9):
        widths.settled(RACKS, 100)
    assert widths.domains(RACKS) == 4


def test_one_that_is_not_settled_narrows_to_the_fewest() -> None:
    widths = Widths(PARAMETERS)
    widths.settled(RACKS, 100)
    widths.settled(RACKS, 100)
    widths.unsettled(RACKS)
    assert widths.domains(RACKS) == 2
    assert not widths.is_too_broad(RACKS)


def test_a_level_whose_smallest_are_not_settled_is_too_broad_until_one_is() -> None:
    widths = Widths(PARAMETERS)
    widths.unsettled(ZONES)
    assert not widths.is_too_broad(ZONES)
    widths.unsettled(ZONES)
    assert widths.is_too_broad(ZONES)
    assert not widths.is_too_broad(RACKS)
    widths.improved(ZONES)
    assert not widths.is_too_broad(ZONES)
