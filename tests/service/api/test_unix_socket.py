"""The service on a socket in the file system, for those on the same machine alone."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydantic import ValidationError

from controller.asking.service_client import ServiceClient
from placement.cli.main import main
from placement_service.api.healthcheck import why_unhealthy
from placement_service.api.server import Server, make_server
from placement_service.api.settings import Settings
from tests.service.questions import message
from tests.waiting import LONG


def settings(host: str) -> Settings:
    return Settings(host=host, engine="tests.service.engines:moving")


@contextmanager
def served(host: str) -> Iterator[Server]:
    server = make_server(settings(host))
    try:
        server.start()
        assert server.wait_until_ready(LONG)
        yield server
    finally:
        server.stop(0)


def test_everybody_who_asks_finds_it(tmp_path: Path) -> None:
    path = tmp_path / "service"
    host = f"unix:{path}"
    example = str(Path(__file__).parents[3] / "examples" / "nvl72")
    with served(host):
        assert [one.name for one in tmp_path.iterdir()] == ["service"]
        assert why_unhealthy(settings(host), timeout=LONG) == ""
        client = ServiceClient(host)
        assert client.ask(message(), timeout=LONG).gangs
        client.cancel()
        for address in (host, f"unix://{path}"):
            assert main(["plan", "-f", example, "--server", address, "--time-limit", "1s"]) == 0
    assert not path.exists()


def test_a_socket_that_another_server_listens_on_is_not_taken_from_it(tmp_path: Path) -> None:
    host = f"unix:{tmp_path / 'service'}"
    with served(host):
        with pytest.raises(RuntimeError, match="another server does"), served(host):
            pass
        assert why_unhealthy(settings(host), timeout=LONG) == ""


def test_a_socket_that_a_killed_server_left_is_replaced(tmp_path: Path) -> None:
    path = str(tmp_path / "service")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(path)
    with served(f"unix:{path}"):
        assert why_unhealthy(settings(f"unix:{path}"), timeout=LONG) == ""


def test_where_no_socket_can_be_is_told_by_its_variable(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="PLACEMENT_HOST"),
        served(f"unix:{tmp_path / 'none' / 'service'}"),
    ):
        pass


@pytest.mark.parametrize("host", ["unix:", "unix:///"])
def test_a_socket_has_a_name(host: str) -> None:
    with pytest.raises(ValidationError, match="names no file"):
        Settings(host=host)


def test_a_socket_needs_no_tls(tmp_path: Path) -> None:
    (file := tmp_path / "pem").touch()
    with pytest.raises(ValidationError, match="needs no TLS"):
        Settings(host="unix:/tmp/service", tls_certificate=file, tls_key=file)
