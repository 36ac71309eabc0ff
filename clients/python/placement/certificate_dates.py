"""Until when certificates are valid, read from their DER; the standard library does not tell.

RFC 5280, 4.1: a certificate begins with what is signed: version, serial number, algorithm, issuer,
and then the two times.
"""

from __future__ import annotations

import re
import ssl
from datetime import UTC, datetime
from typing import Final, NamedTuple

_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)

#: Tags of DER, and how times of two tags are written.
_VERSION: Final = 0xA0
_TIMES: Final = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}


class Dates(NamedTuple):
    """When certificates begin to be valid, and when they end."""

    begin: datetime
    end: datetime


def dates_of(pem: bytes) -> Dates:
    """The latest begin and the earliest end of a chain: it is valid as long as all of it is.

    Raises ValueError where these are no certificates.
    """
    found = [_dates(ssl.PEM_cert_to_DER_cert(one)) for one in _PEM.findall(pem.decode("latin-1"))]
    if not found:
        raise ValueError("there is no certificate")
    return Dates(max(one.begin for one in found), min(one.end for one in found))


def _dates(der: bytes) -> Dates:
    try:
        at = _content(der, _content(der, 0).begin).begin
        if der[at] == _VERSION:
            at = _content(der, at).end
        for _ in ("serial number", "algorithm", "issuer"):
            at = _content(der, at).end
        begin = _content(der, at).begin
        return Dates(_time(der, begin), _time(der, _content(der, begin).end))
    except (IndexError, KeyError) as error:
        raise ValueError("this is no certificate") from error


class _Span(NamedTuple):
    begin: int
    end: int


def _content(der: bytes, at: int) -> _Span:
    """Where the content of the element at a place lies."""
    length, begin = der[at + 1], at + 2
    if length & 0x80:
        begin += length & 0x7F
        length = int.from_bytes(der[at + 2 : begin])
    return _Span(begin, begin + length)


def _time(der: bytes, at: int) -> datetime:
    begin, end = _content(der, at)
    text = der[begin:end].decode("ascii")
    return datetime.strptime(text, _TIMES[der[at]]).replace(tzinfo=UTC)
