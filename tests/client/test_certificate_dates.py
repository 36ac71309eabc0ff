"""The times of certificates, as openssl writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from placement.certificate_dates import dates_of
from tests.certificates import issue, renew


def test_a_chain_is_valid_as_long_as_all_of_it_is(tmp_path: Path) -> None:
    issue(tmp_path, "leaf")
    now = datetime.now(UTC)
    for days in (1, 20_000):  # The second ends after 2049, which is written in another way.
        renew(tmp_path, "leaf", days=days)
        begin, end = dates_of((tmp_path / "leaf.crt").read_bytes())
        assert abs(begin - now) < timedelta(minutes=5)
        assert abs(end - begin) == timedelta(days=days)
    chain = (tmp_path / "leaf.crt").read_bytes() + (tmp_path / "ca.crt").read_bytes()
    assert dates_of(chain).end == dates_of((tmp_path / "ca.crt").read_bytes()).end


@pytest.mark.parametrize("content", ["", "MAA=", "MIIBAgMEBQYH", "MAUwAwIBAQ=="])
def test_what_is_no_certificate_is_an_error(content: str) -> None:
    pem = f"-----BEGIN CERTIFICATE-----\n{content}\n-----END CERTIFICATE-----\n"
    with pytest.raises(ValueError, match="certificate"):
        dates_of(pem.encode() if content else b"")
