"""The lock covers what pyproject.toml asks for; after a change of it: make lock."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.waiting import LONG

ROOT = Path(__file__).parents[1]


def locked(file: str) -> dict[str, list[str]]:
    """The versions of each package in a file of requirements/."""
    found: dict[str, list[str]] = {}
    for line in (ROOT / "requirements" / file).read_text().splitlines():
        match = re.match(r"([a-z0-9-]+)==([^ ;]+)", line)
        if match:
            found.setdefault(match[1], []).append(match[2])
    return found


def asked(*extras: str) -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"]]
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    return [Requirement(line) for line in lines]


@pytest.mark.parametrize(
    ("file", "extras"), [("service.txt", ("tracing",)), ("dev.txt", ("dev", "tracing"))]
)
def test_what_is_asked_for_is_locked(file: str, extras: tuple[str, ...]) -> None:
    versions = locked(file)
    for requirement in asked(*extras):
        name = requirement.name.lower().replace("_", "-")
        assert any(map(requirement.specifier.contains, versions.get(name, ()))), requirement


def test_the_image_is_built_with_what_tests_run_with() -> None:
    tested = locked("dev.txt")
    for file in ("service.txt", "build.txt"):
        assert {name: tested.get(name) for name in locked(file)} == locked(file)


def test_the_bill_of_materials_lists_what_the_image_installs() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "requirements" / "sbom.py")],
        capture_output=True,
        check=True,
        timeout=LONG,
    )
    bill = json.loads(done.stdout)
    assert bill["metadata"]["component"]["name"] == "placement-service"
    listed: dict[str, list[str]] = {}
    for component in bill["components"]:
        assert component["purl"] == f"pkg:pypi/{component['name']}@{component['version']}"
        assert component["hashes"]
        listed.setdefault(component["name"], []).append(component["version"])
    assert listed == locked("service.txt")


def test_every_package_has_a_hash() -> None:
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        text = path.read_text()
        packages = re.findall(r"^[a-z0-9-]+==", text, re.MULTILINE)
        hashed = re.findall(r"^[a-z0-9-]+==[^\n]*\\\n +--hash=sha256:", text, re.MULTILINE)
        assert len(packages) == len(hashed) > 0


def test_the_base_of_the_image_is_named_by_its_digest() -> None:
    base = r"^ARG PYTHON=python:3\.11[.0-9]*-slim-[a-z]+@sha256:[0-9a-f]{64}$"
    text = (ROOT / "Dockerfile").read_text()
    assert re.search(base, text, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${PYTHON}"}
