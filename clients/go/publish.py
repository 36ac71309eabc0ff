"""The Go modules as a module proxy in a folder: `make go-modules`.

Their names, placement.example/..., belong to nobody and never will, so that nobody else can give
them a meaning; they are no addresses either. With this folder as a proxy `go get` finds them:
locally as file://, or behind any web server that serves files.

    GOPROXY=file:///path/to/dist/goproxy,$(go env GOPROXY) GONOSUMDB=placement.example
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = ("stubs", "client", "kubescheduler")
PREFIX = "placement.example/clients/go"

#: Times in archives, so that the same sources give the same bytes, and the same go.sum.
_TIME = (2020, 1, 1, 0, 0, 0)


def main() -> None:
    """Writes the modules below the folder that is the argument."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / "goproxy"
    version = f"v{_version()}"
    for module in MODULES:
        _publish(module, version, target)
    print(f"{target}: {', '.join(f'{PREFIX}/{module}@{version}' for module in MODULES)}")


def _publish(module: str, version: str, target: Path) -> None:
    folder = ROOT / "clients" / "go" / module
    where = target / PREFIX / module / "@v"
    where.mkdir(parents=True, exist_ok=True)
    mod = _mod(folder / "go.mod", version)
    (where / f"{version}.mod").write_text(mod)
    time = datetime(*_TIME, tzinfo=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    (where / f"{version}.info").write_text(json.dumps({"Version": version, "Time": time}))
    (where / "list").write_text(f"{version}\n")
    with zipfile.ZipFile(where / f"{version}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in _files(folder):
            content = path.read_bytes() if path.name != "go.mod" else mod.encode()
            name = f"{PREFIX}/{module}@{version}/{path.relative_to(folder)}"
            archive.writestr(zipfile.ZipInfo(name, _TIME), content)
        licence = f"{PREFIX}/{module}@{version}/LICENSE"
        archive.writestr(zipfile.ZipInfo(licence, _TIME), (ROOT / "LICENSE").read_bytes())


def _files(folder: Path) -> list[Path]:
    """What git has of a module, but for modules inside it."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "."], cwd=folder, capture_output=True, check=True, text=True
    )
    paths = [folder / name for name in listed.stdout.split("\0") if name]
    inner = {path.parent for path in paths if path.name == "go.mod"} - {folder}
    return [path for path in paths if not inner.intersection(path.parents)]


def _mod(path: Path, version: str) -> str:
    """A go.mod that asks for the other modules by their version, wherever they are."""
    text = re.sub(
        r"^replace (\S+ => \.\S*|\(\n(\s+\S+ => \.\S*\n)+\))\n", "", path.read_text(), flags=re.M
    )
    return re.sub(rf"({PREFIX}/[a-z]+) v0\.0\.0\b", rf"\1 {version}", text).rstrip() + "\n"


def _version() -> str:
    text = (ROOT / "clients" / "python" / "placement" / "__init__.py").read_text()
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    assert found is not None
    return found[1]


if __name__ == "__main__":
    main()
