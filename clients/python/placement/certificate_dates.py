"""Until when certificates are valid."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from cryptography import x509


class Dates(NamedTuple):
    """When certificates begin to be valid, and when they end."""

    begin: datetime
    end: datetime


def dates_of(pem: bytes) -> Dates:
    """The latest begin and the earliest end of a chain: it is valid as long as all of it is.

    Raises ValueError where these are no certificates.
    """
    try:
        chain = x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        # The library says where in the encoding it stopped.
        raise ValueError("this is no certificate") from error
    return Dates(
        max(one.not_valid_before_utc for one in chain),
        min(one.not_valid_after_utc for one in chain),
    )
