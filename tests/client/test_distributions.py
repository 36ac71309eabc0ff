"""What is installed: the whole at the root, and a client without solver and Kubernetes.

Both wheels are built as they are released, with the tools that are here already. The
environment of the client holds what its wheel asks for and nothing else: links to the
installed files of exactly those distributions.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from email.message import Message
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import placement

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients" / "python"


def build(project: Path, where: Path) -> zipfile.ZipFile:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(where)]
    subprocess.run([*command, str(project)], check=True, capture_output=True, timeout=120)
    (wheel,) = where.glob("*.whl")
    return zipfile.ZipFile(wheel)


@pytest.fixture(scope="module")
def client_wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return build(CLIENT, tmp_path_factory.mktemp("client"))


@pytest.fixture(scope="module")
def whole_wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return build(ROOT, tmp_path_factory.mktemp("whole"))


def roots(wheel: zipfile.ZipFile) -> set[str]:
    return {name.split("/")[0] for name in wheel.namelist() if ".dist-info" not in name}


def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = (n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def test_the_client_holds_the_library_and_nothing_of_the_service(
    client_wheel: zipfile.ZipFile,
) -> None:
    assert roots(client_wheel) == {"placement"}
    names = set(client_wheel.namelist())
    assert {"placement/client.py", "placement/py.typed", "placement/v1/cluster_pb2.pyi"} <= names


def test_the_whole_holds_service_controller_and_client(
    whole_wheel: zipfile.ZipFile, client_wheel: zipfile.ZipFile
) -> None:
    assert roots(whole_wheel) == {"controller", "placement", "placement_service"}

    def library(wheel: zipfile.ZipFile) -> set[str]:
        return {n for n in wheel.namelist() if n.startswith("placement/")}

    assert library(whole_wheel) == library(client_wheel)


@pytest.mark.skipif(shutil.which("go") is None, reason="there is no Go here")
def test_the_go_modules_can_be_had_without_being_replaced(tmp_path: Path) -> None:
    """Go itself checks that they are whole, and that they say who they are."""
    proxy = tmp_path / "proxy"
    command = [sys.executable, str(ROOT / "clients" / "go" / "publish.py"), str(proxy)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    own = [f"placement.example/clients/go/{name}" for name in ("stubs", "client", "kubescheduler")]
    version = f"v{placement.__version__}"
    done = subprocess.run(
        ["go", "mod", "download", "-json", *(f"{module}@{version}" for module in own)],
        cwd=tmp_path,
        env={
            **os.environ,
            "GOPROXY": f"file://{proxy}",
            "GONOSUMDB": "placement.example",
            "GOFLAGS": "-mod=mod -modcacherw",
            "GOMODCACHE": str(tmp_path / "cache"),
        },
        capture_output=True,
        check=True,
        timeout=120,
        text=True,
    )
    assert done.stdout.count('"Zip"') == len(own)
    for module in own:
        unpacked = tmp_path / "cache" / f"{module}@{version}"
        assert (unpacked / "LICENSE").exists()
        asked = (unpacked / "go.mod").read_text()
        assert "=>" not in asked
        assert "placement.example/clients/go/stubs v0.0.0" not in asked
    assert not (tmp_path / "cache" / f"{own[2]}@{version}" / "example").exists()


def test_both_are_of_one_version(
    whole_wheel: zipfile.ZipFile, client_wheel: zipfile.ZipFile
) -> None:
    assert metadata(whole_wheel)["Version"] == metadata(client_wheel)["Version"]


def test_the_whole_asks_for_what_the_client_asks_for() -> None:
    def project(folder: Path) -> dict[str, object]:
        content = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        return dict(content)

    client, whole = project(CLIENT), project(ROOT)
    extras, more = client["optional-dependencies"], whole["optional-dependencies"]
    assert isinstance(extras, dict)
    assert isinstance(more, dict)
    assert isinstance(client["dependencies"], list)
    assert isinstance(whole["dependencies"], list)
    assert set(client["dependencies"]) <= set(whole["dependencies"])
    for name, several in extras.items():
        # An extra of the client is part of the whole, or an extra of that name there.
        others = {r for r in several if not r.startswith("placement-client")}
        assert others <= {*whole["dependencies"], *more.get(name, ())}


@pytest.fixture(scope="module")
def bare(client_wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the client, without any extra."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    client_wheel.extractall(site)
    waiting = [Requirement(r) for r in metadata(client_wheel).get_all("Requires-Dist") or []]
    seen: set[str] = set()
    while waiting:
        requirement = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        if requirement.name in seen:
            continue
        seen.add(requirement.name)
        found = distribution(requirement.name)
        waiting += map(Requirement, found.requires or ())
        for file in found.files or ():
            if file.parts[0] == ".." or file.suffix == ".pyc":
                continue
            (site / file).parent.mkdir(parents=True, exist_ok=True)
            (site / file).symlink_to(Path(str(found.locate_file(file))))
    return folder / "bin" / "python"


def run(python: Path, program: str) -> subprocess.CompletedProcess[str]:
    # What gRPC itself logs, say of a connection that ends, is not looked at here.
    return subprocess.run(
        [str(python), "-I", "-c", program],
        env={**os.environ, "GRPC_VERBOSITY": "NONE"},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_client_alone_asks_a_scripted_server(bare: Path) -> None:
    program = """
from importlib.util import find_spec
from placement import v1
from placement.client import PlacementClient
from placement.errors import BusyError
from placement.testing import scripted_server

for absent in ("ortools", "kubernetes", "numpy", "yaml", "rich", "click", "placement_service"):
    assert find_spec(absent) is None, absent
with scripted_server([v1.Placement(revision="7"), BusyError(retry_after=2.0)]) as server:
    with PlacementClient(server.address) as client:
        print(client.compute(v1.ComputePlacementRequest()).revision)
        try:
            client.compute(v1.ComputePlacementRequest())
        except BusyError as error:
            print(error.retry_after)
"""
    ended = run(bare, program)
    assert (ended.stdout, ended.stderr) == ("7\n2.0\n", "")


def test_the_client_alone_says_what_its_command_needs(bare: Path) -> None:
    ended = run(bare, "import sys; from placement.cli.__main__ import run; sys.exit(run())")
    assert ended.returncode == 3
    assert "placement-client[cli]" in ended.stderr
    # Nobody has published it, so it is of no use to ask for it by name, and not safe.
    assert "pip install './clients/python[cli]'" in ended.stderr
    assert "Traceback" not in ended.stderr
