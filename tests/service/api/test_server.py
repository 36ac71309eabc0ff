"""TLS of the server and its settings. Certificates are made with openssl, if there is one."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from pydantic import ValidationError

from placement_service.api import machine
from placement_service.api import server as server_module
from placement_service.api.certificates import read_certificates
from placement_service.api.server import make_server
from placement_service.api.settings import Settings, faults, unknown_variables
from tests.certificates import issue, renew
from tests.waiting import LONG, wait_until

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is missing")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for localhost, its own authority, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
         "-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    return folder / "cert.pem", folder / "key.pem"


def is_served(settings: Settings, credentials: grpc.ChannelCredentials) -> bool:
    server = make_server(settings)
    try:
        target = f"localhost:{server.start()}"
        with grpc.secure_channel(target, credentials) as channel:
            health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=LONG)
    except grpc.RpcError:
        return False
    finally:
        server.stop(0)
    return True


@needs_openssl
def test_with_certificate_and_key_the_server_speaks_tls(certificate: tuple[Path, Path]) -> None:
    path, key = certificate
    settings = Settings(host="127.0.0.1", port=0, tls_certificate=path, tls_key=key)
    assert is_served(settings, grpc.ssl_channel_credentials(path.read_bytes()))


@needs_openssl
@pytest.mark.parametrize("has_certificate", [True, False])
def test_with_an_authority_only_clients_with_certificates_are_served(
    certificate: tuple[Path, Path], has_certificate: bool
) -> None:
    path, key = certificate
    settings = Settings(
        host="127.0.0.1", port=0, tls_certificate=path, tls_key=key, tls_client_ca=path
    )
    own = (key.read_bytes(), path.read_bytes()) if has_certificate else (None, None)
    credentials = grpc.ssl_channel_credentials(path.read_bytes(), *own)
    assert is_served(settings, credentials) == has_certificate


@pytest.mark.parametrize("broken", ["empty", "half", "no authority", "gone", "another's key"])
def test_a_renewal_that_is_not_whole_changes_nothing(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above all it does not let strangers in, nor the server die."""
    monkeypatch.setattr(server_module, "RENEWAL_SECONDS", 0.02)
    issue(tmp_path, "server", "client")
    files = {"tls_certificate": "server.crt", "tls_key": "server.key", "tls_client_ca": "ca.crt"}
    paths = {name: tmp_path / file for name, file in files.items()}
    settings = Settings.model_validate({"port": 0, **paths})
    ca = (tmp_path / "ca.crt").read_bytes()
    own = (tmp_path / "client.key").read_bytes(), (tmp_path / "client.crt").read_bytes()
    server = make_server(settings)
    try:
        port = server.start()
        match broken:
            case "empty":
                (tmp_path / "ca.crt").write_bytes(b"")
            case "half":
                (tmp_path / "ca.crt").write_bytes(ca[: len(ca) // 2])
            case "no authority":
                (tmp_path / "ca.crt").write_bytes(ca.replace(b"M", b"?"))
            case "gone":
                (tmp_path / "ca.crt").unlink()
            case _:
                (tmp_path / "server.key").write_bytes(own[0])
        time.sleep(0.3)
        assert answers(port, grpc.ssl_channel_credentials(ca, *own))
        assert not answers(port, grpc.ssl_channel_credentials(ca))
    finally:
        server.stop(0)


def test_renewed_certificates_are_shown_and_the_last_ones_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "RENEWAL_SECONDS", 0.02)
    issue(tmp_path, "server")
    settings = Settings(
        port=0, tls_certificate=tmp_path / "server.crt", tls_key=tmp_path / "server.key"
    )
    server = make_server(settings)
    try:
        port = server.start()
        old = grpc.ssl_channel_credentials((tmp_path / "ca.crt").read_bytes())
        assert answers(port, old)
        issue(tmp_path, "server")
        new = grpc.ssl_channel_credentials((tmp_path / "ca.crt").read_bytes())
        wait_until(lambda: answers(port, new), "the new one is shown")
        wait_until(lambda: not answers(port, old), "the old one is not")
    finally:
        server.stop(0)


@pytest.mark.parametrize("broken", ["another's key", "a key with a passphrase"])
def test_a_key_that_cannot_be_used_is_named_and_nobody_is_asked_for_a_passphrase(
    broken: str, tmp_path: Path
) -> None:
    issue(tmp_path, "server", "client")
    key, certificate = tmp_path / "client.key", tmp_path / "server.crt"
    if broken == "a key with a passphrase":
        subprocess.run(
            ["openssl", "ec", "-in", "server.key", "-aes128", "-passout", "pass:word",
             "-out", "client.key"],
            cwd=tmp_path, check=True, capture_output=True,
        )  # fmt: skip
    with pytest.raises(OSError, match="without passphrase") as found:
        read_certificates(Settings(tls_certificate=certificate, tls_key=key))
    assert str(found.value) == (
        f"{key}: holds no key in PEM without passphrase that belongs to {certificate}"
    )


def test_an_expired_certificate_is_told_and_measured(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    issue(tmp_path, "server")
    renew(tmp_path, "server", days=0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        metrics_port = taken.getsockname()[1]
    settings = Settings(
        port=0,
        metrics_port=metrics_port,
        tls_certificate=tmp_path / "server.crt",
        tls_key=tmp_path / "server.key",
    )
    server = make_server(settings)
    try:
        server.start()
        wait_until(lambda: "the certificate has expired at" in caplog.text, "it is told")
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics") as answer:
            shown = answer.read().decode()
    finally:
        server.stop(0)
    (line,) = re.findall(r"(?m)^\S+certificate_expiry_timestamp_seconds (.+)$", shown)
    assert 0 <= time.time() - float(line) < LONG


def test_a_port_that_a_stranger_listens_on_is_an_error_with_tls_too(tmp_path: Path) -> None:
    issue(tmp_path, "server")
    tls = {"tls_certificate": tmp_path / "server.crt", "tls_key": tmp_path / "server.key"}
    first = make_server(Settings.model_validate({"port": 0, **tls}))
    second = None
    try:
        port = first.start()
        second = make_server(Settings.model_validate({"port": port, **tls}))
        with pytest.raises(RuntimeError, match="cannot listen on 127"):
            second.start()
    finally:
        first.stop(0)
        if second is not None:
            second.stop(0)


def answers(port: int, credentials: grpc.ChannelCredentials) -> bool:
    """Whether a new connection is answered."""
    alone = (("grpc.use_local_subchannel_pool", 1),)
    with grpc.secure_channel(f"localhost:{port}", credentials, alone) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            stub.Check(health_pb2.HealthCheckRequest(), timeout=LONG)
        except grpc.RpcError:
            return False
    return True


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"host": "0.0.0.0"}, id="open to others without TLS"),
        pytest.param({"host": "[::]"}, id="open to others of the other protocol"),
        pytest.param({"tls_key": "k.pem"}, id="a key without certificate"),
        pytest.param({"tls_client_ca": "ca.pem"}, id="an authority without certificate"),
        pytest.param({"max_concurrent": 0}, id="nobody may compute"),
        pytest.param({"engine": "no_such_module:search"}, id="an engine that is not there"),
        pytest.param({"engine": "placement_service.search.engine"}, id="no function"),
        pytest.param({"engine_": "x:y"}, id="a setting that does not exist"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate(settings)


def test_wrong_settings_are_told_by_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACEMENT_PORT", "x")
    monkeypatch.setenv("PLACEMENT_TLS_KEY", "missing.pem")
    with pytest.raises(ValidationError) as found:
        Settings()
    assert faults(found.value).splitlines() == [
        "PLACEMENT_PORT: Input should be a valid integer, unable to parse string as an integer",
        "PLACEMENT_TLS_KEY: there is no file missing.pem",
    ]
    with pytest.raises(ValidationError) as found:
        Settings(port=0, tls_key=None, tls_client_ca=Path(__file__))
    assert faults(found.value) == "tls_client_ca needs tls_certificate and tls_key"


def test_the_service_is_for_this_machine_alone_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("PLACEMENT_HOST", "PLACEMENT_ALLOW_PLAINTEXT"):
        monkeypatch.delenv(name, raising=False)
    assert Settings().host == "127.0.0.1"
    for host in ("localhost", "127.0.0.2", "::1", "[::1]"):
        assert not Settings(host=host).is_open
    server = make_server(Settings(host="0.0.0.0", port=0, allow_plaintext=True))
    try:
        server.start()
    finally:
        server.stop(0)
    assert "without TLS" in caplog.text


def test_variables_that_are_no_settings_are_told_with_the_nearest() -> None:
    found = list(
        unknown_variables(
            ["PLACEMENT_TLS_CLIENTCA", "PLACEMENT_PORT", "PLACEMENT_CONTROLLER_MODE", "HOME"]
        )
    )
    (line,) = found
    assert line.startswith(
        "PLACEMENT_TLS_CLIENTCA: no such setting; did you mean PLACEMENT_TLS_CLIENT_CA"
    )


def test_as_much_is_computed_at_once_as_the_machine_allows(tmp_path: Path) -> None:
    quota = tmp_path / "cpu.max"
    quota.write_text("150000 100000\n")
    assert machine.cores(quota) <= 1.5
    quota.write_text("max 100000\n")
    assert machine.cores(quota) == machine.cores(tmp_path / "missing") >= 1
    limit = tmp_path / "memory.max"
    limit.write_text("1000\n")
    assert machine.memory(limit) == 1000
    limit.write_text("max\n")
    assert machine.memory(limit) == machine.memory(tmp_path / "missing") > 2**20
    assert Settings().max_concurrent == machine.concurrent_requests() >= 1


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACEMENT_MAX_CONCURRENT", "3")
    assert Settings().max_concurrent == 3
