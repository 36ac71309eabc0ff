"""Controller and service know each other by certificates, which openssl makes here."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from controller.asking.service_client import ServiceClient
from placement import v1
from placement.errors import PlacementError
from placement.testing import serve
from placement_service.api.healthcheck import why_unhealthy
from placement_service.api.settings import Settings as ServiceSettings
from tests.certificates import issue
from tests.deploy.manifests import DEPLOY
from tests.waiting import LONG


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, and what it signs for service and controller."""
    return issue(tmp_path_factory.mktemp("certificates"), "service", "controller")


def test_controller_and_service_know_each_other_by_certificates(certificates: Path) -> None:
    files = {
        "tls_certificate": certificates / "service.crt",
        "tls_key": certificates / "service.key",
        "tls_client_ca": certificates / "ca.crt",
    }
    question = v1.ComputePlacementRequest(label="hello")
    with serve(**files) as address:
        port = int(address.rpartition(":")[2])
        known = ServiceClient(
            f"localhost:{port}",
            ca=certificates / "ca.crt",
            certificate=certificates / "controller.crt",
            key=certificates / "controller.key",
        )
        assert known.ask(question, timeout=LONG).label == "hello"
        # Renewed while both run, by another authority at that: the next question goes over a
        # new connection, and there the service shows its new certificate.
        issue(certificates, "service", "controller")
        assert known.ask(question, timeout=LONG).label == "hello"
        # Half of a renewal is none.
        (certificates / "service.key").write_bytes(b"")
        (certificates / "controller.crt").touch()
        assert known.ask(question, timeout=LONG).label == "hello"
        for half in (b"", None):
            if half is None:
                (certificates / "controller.key").unlink()
            else:
                (certificates / "controller.key").write_bytes(half)
            assert known.ask(question, timeout=LONG).label == "hello"
        issue(certificates, "service", "controller")
        assert known.ask(question, timeout=LONG).label == "hello"
        known.cancel()
        stranger = ServiceClient(f"localhost:{port}", ca=certificates / "ca.crt")
        with pytest.raises(PlacementError, match="; it demands a certificate of its callers"):
            stranger.ask(question, timeout=LONG)
        settings = ServiceSettings(host="127.0.0.1", port=port, **files)  # type: ignore[arg-type]
        assert why_unhealthy(settings, timeout=LONG) == ""
    assert "no answer" in why_unhealthy(settings, timeout=1)


def test_a_renewed_authority_keeps_its_key() -> None:
    """What it signed before is not issued anew then, and is in use for weeks."""
    manifests = yaml.safe_load_all((DEPLOY / "cert-manager" / "certificates.yaml").read_text())
    (authority,) = (one["spec"] for one in manifests if one["spec"].get("isCA"))
    assert authority["privateKey"]["rotationPolicy"] == "Never"


def test_the_health_check_passes_by_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with serve() as address:
        port = int(address.rpartition(":")[2])
        assert why_unhealthy(ServiceSettings(port=port), timeout=LONG, alive=True) == ""
