"""The server's certificates, from files that are renewed while it runs.

Every new connection is greeted with what the files hold then; those that stand go on. A
renewal that is half done, or cannot be read, changes nothing until it is whole.
"""

from __future__ import annotations

import logging
import ssl
import threading
from pathlib import Path

import grpc

from placement_service.api.settings import Settings

logger = logging.getLogger(__name__)


def server_credentials(settings: Settings) -> grpc.ServerCredentials | None:
    """What the server shows and demands; None without TLS.

    Raises OSError when a file cannot be read, or certificate and key do not belong together.
    """
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    files = _Files(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)
    return grpc.dynamic_ssl_server_credentials(
        files.latest(),
        files.latest,
        require_client_authentication=settings.tls_client_ca is not None,
    )


class _Files:
    def __init__(self, certificate: Path, key: Path, client_ca: Path | None) -> None:
        self._certificate = certificate
        self._key = key
        self._client_ca = client_ca
        self._lock = threading.Lock()
        self._contents = self._read()

    def latest(self) -> grpc.ServerCertificateConfiguration:
        """What the files hold, or held when they were last whole. Asked for each connection."""
        with self._lock:
            try:
                contents = self._read()
            except OSError as error:
                logger.warning("certificates not renewed: %s", error)
            else:
                if contents != self._contents:
                    logger.info("certificates renewed")
                self._contents = contents
            key, certificate, client_ca = self._contents
        return grpc.ssl_server_certificate_configuration([(key, certificate)], client_ca)

    def _read(self) -> tuple[bytes, bytes, bytes | None]:
        contents = (
            self._key.read_bytes(),
            self._certificate.read_bytes(),
            None if self._client_ca is None else self._client_ca.read_bytes(),
        )
        # Demands that they belong together: a renewal replaces one file after the other.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self._certificate, self._key)
        return contents
