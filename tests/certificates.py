"""Certificates for tests, made by openssl; without it the test is skipped."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def issue(folder: Path, *names: str) -> Path:
    """Makes an authority (``ca.crt``), and ``NAME.crt`` and ``NAME.key`` signed by it.

    All are for localhost, and valid for a day. Made again, they are those of another
    authority. Returns the folder.
    """
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing")
    _openssl(folder, "req", "-x509", *_ELLIPTIC, "-keyout", "ca.key", "-out", "ca.crt",
             "-days", "1", "-subj", "/CN=ca")  # fmt: skip
    for name in names:
        renew(folder, name)
    return folder


def renew(folder: Path, name: str, *, days: int = 1, host: str = "localhost") -> None:
    """Makes ``NAME.crt`` and ``NAME.key`` anew, signed by the same authority; with no days they
    have expired at once."""
    _openssl(folder, "req", *_ELLIPTIC, "-keyout", f"{name}.key.new", "-out", f"{name}.csr",
             "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{host}")  # fmt: skip
    _openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
             "-CAcreateserial", "-out", f"{name}.crt.new", "-days", str(days),
             "-copy_extensions", "copy")  # fmt: skip
    for kind in ("key", "crt"):
        (folder / f"{name}.{kind}.new").replace(folder / f"{name}.{kind}")


_ELLIPTIC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)
