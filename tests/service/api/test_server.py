"""TLS of the server and its settings. Certificates are made with openssl, if there is one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from pydantic import ValidationError

from placement_service.api.server import make_server
from placement_service.api.settings import Settings, faults
from tests.waiting import LONG

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


@pytest.mark.parametrize(
    "settings",
    [
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
        "PLACEMENT_TLS_KEY: Path does not point to a file",
    ]
    with pytest.raises(ValidationError) as found:
        Settings(port=0, tls_key=None, tls_client_ca=Path(__file__))
    assert faults(found.value) == "tls_client_ca needs tls_certificate and tls_key"


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACEMENT_MAX_CONCURRENT", "3")
    assert Settings().max_concurrent == 3
