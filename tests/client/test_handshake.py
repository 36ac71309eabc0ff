"""What a caller is told whose connection by TLS is refused, by him or by the server."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from placement.handshake import tls_fault
from placement.testing import serve
from tests.certificates import issue, renew


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return issue(tmp_path, "server", "client")


def asked(folder: Path, address: str, *, ca: str = "ca.crt", own: str = "") -> str:
    return tls_fault(
        "localhost:" + address.rpartition(":")[2],
        ca=folder / ca,
        certificate=folder / f"{own}.crt" if own else None,
        key=folder / f"{own}.key" if own else None,
    )


def test_a_server_that_knows_its_callers_says_nothing_and_the_caller_is_told_why(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    stranger = issue(tmp_path_factory.mktemp("other"), "stranger")
    for kind in ("crt", "key"):
        (stranger / f"stranger.{kind}").replace(folder / f"stranger.{kind}")
    (stranger / "ca.crt").replace(folder / "other.crt")
    issued = folder / "client.crt"
    files = {"tls_certificate": folder / "server.crt", "tls_key": folder / "server.key"}
    with serve(**files, tls_client_ca=folder / "ca.crt") as address:
        assert asked(folder, address, own="client") == ""
        assert asked(folder, address) == "it demands a certificate of its callers"
        assert asked(folder, address, own="stranger") == (
            f"it refuses {folder / 'stranger.crt'}: it may know another authority"
        )
        other = asked(folder, address, ca="other.crt", own="client")
        assert other.startswith("its certificate is refused here: ")
        renew(folder, "client", days=0)
        assert f"it refuses {issued}, which has expired at " in asked(folder, address, own="client")


def test_what_is_wrong_with_the_certificate_of_a_server_is_told(folder: Path) -> None:
    files = {"tls_certificate": folder / "server.crt", "tls_key": folder / "server.key"}
    renew(folder, "server", days=0)
    with serve(**files) as address:
        assert asked(folder, address) == "its certificate is refused here: certificate has expired"
    renew(folder, "server", host="elsewhere.example")
    with serve(**files) as address:
        assert "Hostname mismatch" in asked(folder, address)


def test_a_server_without_tls_is_told_from_nobody(folder: Path) -> None:
    with serve() as address:
        assert asked(folder, address) == "what listens there speaks no TLS"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = f"localhost:{taken.getsockname()[1]}"
    assert asked(folder, free) == ""
