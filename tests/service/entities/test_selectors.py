"""What selectors match, as Kubernetes reads them."""

from __future__ import annotations

import pytest

from placement_service.entities.selectors import Operator, Requirement


@pytest.mark.parametrize(
    ("label", "above_five"),
    [
        pytest.param("7", True, id="number"),
        pytest.param("007", True, id="leading zeros"),
        pytest.param("+7", True, id="sign"),
        pytest.param("-7", False, id="negative"),
        pytest.param("5", False, id="equal"),
        pytest.param("9223372036854775807", True, id="the largest of 64 bits"),
        pytest.param("9223372036854775808", False, id="beyond 64 bits"),
        pytest.param("9" * 5000, False, id="thousands of digits"),
        pytest.param("1_000", False, id="underscore"),
        pytest.param(" 7", False, id="space"),
        pytest.param("7.0", False, id="fraction"),
        pytest.param("\u0667", False, id="other digits"),
        pytest.param("", False, id="empty"),
    ],
)
def test_labels_are_compared_with_numbers_as_go_reads_them(label: str, above_five: bool) -> None:
    assert Requirement("k", Operator.GT, ("5",)).matches({"k": label}) is above_five


def test_what_is_no_number_is_neither_above_nor_below_anything() -> None:
    for operator in (Operator.GT, Operator.LT):
        for label, limit in [("1_0", "5"), ("7", "9999999999999999999"), ("-3", "x")]:
            assert not Requirement("k", operator, (limit,)).matches({"k": label})
        assert not Requirement("k", operator, ("5",)).matches({})
