"""The files that are deployed, by themselves."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from controller.settings import Settings as ControllerSettings
from placement.cli.commands.release import command as release
from placement_service.api.settings import Settings as ServiceSettings
from tests.deploy.kustomization import identity, rendered
from tests.deploy.manifests import COMPONENTS, DEPLOY, MODES, manifests, with_component
from tests.waiting import LONG


def test_every_file_is_part_of_something() -> None:
    used = {DEPLOY / "README.md"}
    for path in DEPLOY.rglob("kustomization.yaml"):
        used.add(path)
        content = yaml.safe_load(path.read_text())
        names = [
            *content.get("resources", ()),
            *(patch["path"] for patch in content.get("patches", ())),
            *(name for one in content.get("configMapGenerator", ()) for name in one["files"]),
        ]
        used |= {path.parent / name for name in names if "/" not in name}
    assert used == {path for path in DEPLOY.rglob("*") if path.is_file()}
    folders = {path.name for path in DEPLOY.iterdir() if path.is_dir()}
    assert folders == {*MODES, *COMPONENTS, "parts"}


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl here")
@pytest.mark.parametrize("mode", MODES)
def test_kubectl_makes_the_same_of_it(mode: str) -> None:
    done = subprocess.run(
        ["kubectl", "kustomize", str(DEPLOY / mode)], capture_output=True, check=True, timeout=LONG
    )
    theirs = list(yaml.safe_load_all(done.stdout))
    assert sorted(theirs, key=identity) == sorted(rendered(DEPLOY / mode), key=identity)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl here")
@pytest.mark.parametrize("component", [c for c in COMPONENTS if c != "cert-manager"])
def test_kubectl_makes_the_same_of_what_may_be_added(component: str, tmp_path: Path) -> None:
    folder = with_component(component, "bind", tmp_path)
    done = subprocess.run(
        ["kubectl", "kustomize", str(folder)], capture_output=True, check=True, timeout=LONG
    )
    theirs = list(yaml.safe_load_all(done.stdout))
    assert sorted(theirs, key=identity) == sorted(rendered(folder), key=identity)


def test_containers_are_harmless() -> None:
    for body in manifests():
        if body["kind"] != "Deployment":
            continue
        assert body["spec"]["replicas"] == 2
        pod = body["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert not container["securityContext"]["allowPrivilegeEscalation"]
            assert {"startupProbe", "readinessProbe", "livenessProbe"} <= container.keys()


def test_the_timer_is_longer_than_a_controller_lets_gangs_wait(tmp_path: Path) -> None:
    (job,) = (
        body
        for body in rendered(with_component("release", "advise-kai", tmp_path))
        if body["kind"] == "CronJob"
    )
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    program, name, *arguments = pod["containers"][0]["command"]
    assert (program, name) == ("placementctl", "release")
    made = release.make_context(name, arguments)
    fields = ControllerSettings.model_fields
    waits = fields["advice_timeout"].default + fields["advice_ttl"].default
    assert made.params["after"] > waits


def test_settings_are_those_that_there_are(tmp_path: Path) -> None:
    known = {
        *(f"PLACEMENT_CONTROLLER_{name.upper()}" for name in ControllerSettings.model_fields),
        *(f"PLACEMENT_{name.upper()}" for name in ServiceSettings.model_fields),
    }
    for mode in (*MODES, with_component("tracing", "bind", tmp_path)):
        for body in rendered(DEPLOY / mode):
            if body["kind"] == "Deployment":
                for container in body["spec"]["template"]["spec"]["containers"]:
                    set_here = {variable["name"] for variable in container["env"]}
                    assert {one for one in set_here if not one.startswith("OTEL_")} <= known


def test_network_policies_open_ports_that_there_are() -> None:
    bodies = rendered(DEPLOY / "bind")
    pods = {
        body["metadata"]["name"]: body["spec"]["template"]
        for body in bodies
        if body["kind"] == "Deployment"
    }
    opened: dict[str, set[str]] = {}
    for body in bodies:
        if body["kind"] == "NetworkPolicy" and (
            labels := body["spec"]["podSelector"].get("matchLabels")
        ):
            for rule in body["spec"].get("ingress", ()):
                opened.setdefault(labels["app"], set()).update(p["port"] for p in rule["ports"])
    for name, pod in pods.items():
        (container,) = pod["spec"]["containers"]
        assert opened[name] == {port["name"] for port in container["ports"]}
