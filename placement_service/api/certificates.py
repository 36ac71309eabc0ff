"""The server's certificates, from files that are renewed while it runs.

New files are used only when they are complete: half a renewal, an empty authority, or a file that
cannot be read changes nothing until it is repaired.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc

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


def read_certificates(settings: Settings) -> Certificates | None:
    """What the files hold; None without TLS.

    Raises OSError when a file cannot be read or is not whole, or when certificate and key do
    not belong together.
    """
    certificate, key = settings.tls_certificate, settings.tls_key
    if certificate is None or key is None:
        return None
    found = _read(certificate, key, settings.tls_client_ca)
    _demand_whole(found.certificate, certificate)
    # Demands that they belong together: a renewal replaces one file after the other.
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    if found.client_ca is not None and settings.tls_client_ca is not None:
        _demand_whole(found.client_ca, settings.tls_client_ca)
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(
            cadata=found.client_ca.decode("ascii", errors="replace")
        )
    if _read(certificate, key, settings.tls_client_ca) != found:
        raise OSError("the certificates are being written")
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
