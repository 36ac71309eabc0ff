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

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    elliptic = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *elliptic, "-keyout", "ca.key", "-out", "ca.crt", "-days", "1",
            "-subj", "/CN=ca")  # fmt: skip
    for name in names:
        openssl("req", *elliptic, "-keyout", f"{name}.key", "-out", f"{name}.csr",
                "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost")  # fmt: skip
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
                "-CAcreateserial", "-out", f"{name}.crt", "-days", "1",
                "-copy_extensions", "copy")  # fmt: skip
    return folder
