"""Quantities: exact, rounded against the pod, and refused when they are nonsense."""

from __future__ import annotations

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.kubernetes.values.quantities import LARGEST, QuantityError, amount, parse

SUFFIXES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18), "Ki": Fraction(2**10), "Mi": Fraction(2**20),
    "Gi": Fraction(2**30), "Ti": Fraction(2**40), "Pi": Fraction(2**50), "Ei": Fraction(2**60),
}  # fmt: skip


@given(st.integers(0, 10**12), st.integers(0, 9999), st.sampled_from(sorted(SUFFIXES)))
def test_a_number_with_a_suffix_is_exactly_their_product(
    whole: int, part: int, suffix: str
) -> None:
    assert (
        parse(f"{whole}.{part:04}{suffix}") == (whole + Fraction(part, 10_000)) * SUFFIXES[suffix]
    )


@given(st.integers(0, 10**9), st.integers(-9, 9), st.sampled_from("eE"))
def test_an_exponent_scales_by_a_power_of_ten(number: int, exponent: int, letter: str) -> None:
    assert parse(f"{number}{letter}{exponent}") == number * Fraction(10) ** exponent


@given(st.integers(0, LARGEST))
def test_whole_bytes_come_back_as_they_are(number: int) -> None:
    assert amount("memory", str(number)) == number


@given(st.integers(0, 10**15))
def test_cpu_rounds_up_for_a_pod_and_down_for_a_node(nanos: int) -> None:
    up, down = amount("cpu", f"{nanos}n"), amount("cpu", f"{nanos}n", round_up=False)
    assert down * 10**6 <= nanos <= up * 10**6
    assert up - down == (nanos % 10**6 != 0)


@given(st.text(max_size=80))
def test_any_text_is_a_quantity_or_an_error(text: str) -> None:
    with contextlib.suppress(QuantityError):
        assert parse(text) >= 0


@pytest.mark.parametrize(
    ("resource", "text", "want"),
    [
        ("cpu", "500m", 500),
        ("cpu", "0.1", 100),
        ("cpu", "1.0005", 1001),
        ("cpu", "2", 2000),
        ("memory", "80Gi", 80 * 2**30),
        ("memory", "1.5Gi", 3 * 2**29),
        ("memory", "100m", 1),
        ("memory", "128974848", 128974848),
        ("memory", "129e6", 129_000_000),
        ("memory", "129M", 129_000_000),
        ("memory", ".5Ki", 512),
        ("memory", "5.", 5),
        ("memory", "+1", 1),
        ("memory", "-0", 0),
        ("hugepages-2Mi", "4Mi", 4 * 2**20),
        ("nvidia.com/gpu", "8", 8),
        ("nvidia.com/gpu", "8000m", 8),
        ("nvidia.com/gpu", "1e1", 10),
        ("example.com/things", "2k", 2000),
    ],
)  # fmt: skip
def test_amounts(resource: str, text: str, want: int) -> None:
    assert amount(resource, text) == want


@pytest.mark.parametrize(
    "text",
    ["", " ", ".", "m", "1 Gi", "1gi", "1K", "1KI", "1Gi2", "0x10", "1e", "1e1.5", "1e9999", "inf",
     "nan", "1_000", "--1", "\N{ARABIC-INDIC DIGIT ONE}", "1\n", "9" * 65],
)  # fmt: skip
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(QuantityError, match="is not a quantity"):
        parse(text)


def test_negative_amounts_are_refused() -> None:
    with pytest.raises(QuantityError, match="negative"):
        parse("-1")


def test_pieces_cannot_be_divided() -> None:
    with pytest.raises(QuantityError, match=r"'0\.5' is not a whole number, and nvidia\.com/gpu"):
        amount("nvidia.com/gpu", "0.5")


def test_amounts_that_could_overflow_are_refused() -> None:
    assert amount("memory", "8Pi") == LARGEST
    with pytest.raises(QuantityError, match="more than this can count"):
        amount("memory", "9Pi")
