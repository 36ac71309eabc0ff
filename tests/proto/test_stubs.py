"""The committed stubs are what `make proto` generates."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STUBS = ROOT / "clients/python"
PROTOS = sorted((ROOT / "proto").rglob("*.proto"))


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stubs")
    # Not in this process: protoc and OR-tools bring the same symbols.
    subprocess.run(
        [
            *(sys.executable, "-m", "grpc_tools.protoc"),
            f"-I{ROOT / 'proto'}",
            f"--python_out={folder}",
            f"--pyi_out={folder}",
            f"--grpc_python_out={folder}",
            *map(str, PROTOS),
        ],
        check=True,
    )
    return folder


def test_stubs_are_fresh(generated: Path) -> None:
    """After a change of proto/ somebody has to run `make proto`."""
    fresh = _texts(generated)
    committed = {p: t for p, t in _texts(STUBS).items() if "_pb2" in p}
    assert len(fresh) == 3 * len(PROTOS)
    assert fresh == committed


def _texts(folder: Path) -> dict[str, str]:
    files = [p for p in folder.rglob("*") if p.suffix in (".py", ".pyi")]
    return {str(p.relative_to(folder)): p.read_text() for p in files}
