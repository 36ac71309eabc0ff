"""What is wrong with TLS between a caller and a server; gRPC says little more than that there is no
connection, and that of the last address alone.

A handshake of its own is made, with the same files.
"""

from __future__ import annotations

import socket
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from placement.certificate_dates import dates_of

#: Seconds to connect, and for each message.
_SECONDS: Final = 2.0

#: What a client of HTTP/2 says first, with empty settings.
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))


def tls_fault(
    target: str, *, ca: str | Path, certificate: str | Path | None, key: str | Path | None
) -> str:
    """What keeps a caller with these files from a server; empty where that cannot be said, as where
    nothing listens at the target, or nothing keeps it."""
    host, _, port = target.rpartition("/")[2].rpartition(":")
    host = host.strip("[]")
    try:
        context = ssl.create_default_context(cafile=str(ca))
        context.set_alpn_protocols(["h2"])
        if certificate is not None and key is not None:
            context.load_cert_chain(certificate, key, password=lambda: "")
        with socket.create_connection((host, int(port)), timeout=_SECONDS) as connection:
            fault = _fault(connection, context, host)
            return _refusal(certificate) if fault is None else fault
    except (OSError, ValueError):
        return ""


def _fault(connection: socket.socket, context: ssl.SSLContext, host: str) -> str | None:
    """None where the handshake is made and the server hangs up on it."""
    try:
        with context.wrap_socket(connection, server_hostname=host) as secured:
            secured.sendall(_PREFACE)
            # In TLS 1.3 the server reads the caller's certificate after the caller is done.
            return None if secured.recv(1) == b"" else ""
    except ssl.SSLCertVerificationError as error:
        return f"its certificate is refused here: {error.verify_message.rstrip('.')}"
    except ssl.SSLError as error:
        if error.reason == "WRONG_VERSION_NUMBER":
            return "what listens there speaks no TLS"
        return f"TLS fails: {error.reason}"
    except ConnectionError:
        return None


def _refusal(certificate: str | Path | None) -> str:
    """Why a server hangs up after the handshake."""
    if certificate is None:
        return "it demands a certificate of its callers"
    end = dates_of(Path(certificate).read_bytes()).end
    if end < datetime.now(UTC):
        return f"it refuses {certificate}, which has expired at {end.isoformat()}"
    return f"it refuses {certificate}: it may know another authority"
