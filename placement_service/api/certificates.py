"""The server's certificates, from files that are renewed while it runs.

New files are used only when they are complete: half a renewal, an empty authority, or a file that
cannot be read changes nothing until it is repaired.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import grpc

from placement.certificate_dates import Dates, dates_of
from placement.tls_files import in_words, read_authorities, read_identity
from placement_service.api.settings import Settings

_BEGIN, _END = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"


@dataclass(frozen=True, slots=True)
class Certificates:
    """What the server presents, and the authority that it demands of clients, if any."""

    key: bytes
    certificate: bytes
    client_ca: bytes | None

    def credentials(self) -> grpc.ServerCredentials:
        return grpc.ssl_server_credentials(
            [(self.key, self.certificate)],
            root_certificates=self.client_ca,
            require_client_auth=self.client_ca is not None,
        )

    def dates(self) -> Dates:
        """From when until when the server's certificate is valid."""
        return dates_of(self.certificate)

    def why_refused(self, now: datetime) -> str:
        """Why clients refuse the server's certificate at a time; empty when they need not."""
        begin, end = self.dates()
        if now < begin:
            return f"the certificate is not valid before {begin.isoformat()}: clients refuse it"
        if now >= end:
            return f"the certificate has expired at {end.isoformat()}: clients refuse it"
        return ""


def read_certificates(settings: Settings) -> Certificates | None:
    """What the files hold; None without TLS.

    Raises OSError when a file cannot be read or is not whole, or when certificate and key do
    not belong together.
    """
    certificate, key, client_ca = settings.tls_certificate, settings.tls_key, settings.tls_client_ca
    if certificate is None or key is None:
        return None
    try:
        found = _read(certificate, key, client_ca)
        _demand_whole(found.certificate, certificate)
        found.dates()
        # Demands that they belong together: a renewal replaces one file after the other.
        read_identity(certificate, key)
        if found.client_ca is not None and client_ca is not None:
            _demand_whole(found.client_ca, client_ca)
            read_authorities(client_ca)
        if _read(certificate, key, client_ca) != found:
            raise OSError("the certificates are being written")
    except OSError as error:
        raise OSError(in_words(error)) from error
    except ValueError as error:
        raise OSError(f"{certificate}: {error}") from error
    return found


def _read(certificate: Path, key: Path, client_ca: Path | None) -> Certificates:
    return Certificates(
        key.read_bytes(),
        certificate.read_bytes(),
        None if client_ca is None else client_ca.read_bytes(),
    )


def _demand_whole(content: bytes, path: Path) -> None:
    if not 0 < content.count(_BEGIN) == content.count(_END):
        raise OSError(f"{path} holds no whole certificate")
