"""The committed stubs, of Python and of Go, are what `make proto` generates."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STUBS = ROOT / "clients/python"
GO_STUBS = "clients/go/stubs"
BUF = Path(sys.executable).parent / "buf"
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


@pytest.mark.skipif(shutil.which("go") is None, reason="there is no Go")
@pytest.mark.skipif(not BUF.exists(), reason="buf is not installed beside this Python")
def test_go_stubs_are_fresh(tmp_path: Path) -> None:
    command = [
        str(BUF),
        "generate",
        "proto",
        "--template",
        "proto/buf.gen.yaml",
        "-o",
        str(tmp_path),
    ]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    fresh = _texts(tmp_path / GO_STUBS, ".go")
    assert len([path for path in fresh if not path.endswith("_grpc.pb.go")]) == len(PROTOS)
    assert fresh == {p: t for p, t in _texts(ROOT / GO_STUBS, ".go").items() if ".pb." in p}


def _texts(folder: Path, *suffixes: str) -> dict[str, str]:
    files = [p for p in folder.rglob("*") if p.suffix in (suffixes or (".py", ".pyi"))]
    return {str(p.relative_to(folder)): p.read_text() for p in files}
