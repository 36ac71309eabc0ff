"""A software bill of materials, in CycloneDX, of what the image installs: `make sbom`.

From the lock alone, so that every machine finds the same: each package with its version and the
hashes of its files.
"""

from __future__ import annotations

import re
import sys
import tomllib
import uuid
from collections.abc import Iterator
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.dependency import Dependency
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements" / "service.txt"


def main() -> None:
    """Writes it to standard output."""
    sys.stdout.write(JsonV1Dot6(bom()).output_as_string(indent=2) + "\n")


def bom() -> Bom:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version = re.search(
        r'^__version__ = "(.+)"$',
        (ROOT / "clients" / "python" / "placement" / "__init__.py").read_text(),
        re.MULTILINE,
    )
    assert version is not None
    whole = _component(project["name"], version[1], ComponentType.APPLICATION)
    whole.licenses.add(LicenseExpression(project["license"]))
    packages = list(locked(LOCK.read_text()))
    found = Bom(
        components=packages,
        # Which of them ask for which others is not in the lock.
        dependencies=[
            Dependency(whole.bom_ref, [Dependency(package.bom_ref) for package in packages]),
            *(Dependency(package.bom_ref) for package in packages),
        ],
    )
    found.metadata.component = whole
    # One lock, one number.
    found.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, LOCK.read_text())
    return found


def locked(lock: str) -> Iterator[Component]:
    """The packages of a requirements file with hashes."""
    for entry in re.split(r"^(?=[a-z0-9])", lock, flags=re.MULTILINE):
        if match := re.match(r"([a-z0-9-]+)==([^ ;\\]+)", entry):
            package = _component(match[1], match[2], ComponentType.LIBRARY)
            for digest in sorted(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry)):
                package.hashes.add(HashType(alg=HashAlgorithm.SHA_256, content=digest))
            yield package


def _component(name: str, version: str, kind: ComponentType) -> Component:
    purl = PackageURL("pypi", name=name, version=version)
    return Component(type=kind, name=name, version=version, purl=purl, bom_ref=purl.to_string())


if __name__ == "__main__":
    main()
