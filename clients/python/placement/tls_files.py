"""PEM files for TLS. gRPC says of wrong ones only that no connection could be made."""

from __future__ import annotations

import errno
import ssl
from pathlib import Path


def read_authorities(file: str | Path) -> bytes:
    """What is in a file of authorities. Raises OSError, which names the file."""
    content = Path(file).read_bytes()
    try:
        _context().load_verify_locations(cafile=file)
    except ssl.SSLError as error:
        raise OSError(errno.EINVAL, "holds no certificate in PEM", str(file)) from error
    return content


def read_identity(certificate: str | Path, key: str | Path) -> tuple[bytes, bytes]:
    """A certificate chain and its key. Raises OSError, which names the file that is wrong."""
    content = Path(certificate).read_bytes(), Path(key).read_bytes()
    read_authorities(certificate)
    try:
        # Nobody is asked for a passphrase: gRPC takes no key that has one.
        _context().load_cert_chain(certificate, key, password=lambda: "")
    except ssl.SSLError as error:
        why = f"holds no key in PEM without passphrase that belongs to {certificate}"
        raise OSError(errno.EINVAL, why, str(key)) from error
    return content


def in_words(error: OSError) -> str:
    """Which file is wrong, and how, without the number of the error."""
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)


def _context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
