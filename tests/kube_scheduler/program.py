"""kube-scheduler with our plugin, as `clients/go/kubescheduler/example` builds it.

    python -m tests.kube_scheduler.program      builds it if it must, prints where it is

The build takes minutes, so tests that need it are skipped where nobody has built it. It stands
in the cache beside kube-apiserver (see `tests.cluster.binaries`); its key is what it is made of.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.cluster import binaries

GO: Final = Path(__file__).parents[2] / "clients/go"
MODULE: Final = GO / "kubescheduler/example"
_NAME: Final = "placement-scheduler"


def find() -> Path | None:
    """The program, if it has been built."""
    program = _directory() / _NAME
    return program if os.access(program, os.X_OK) else None


def build() -> Path:
    """The program, built if it must be. Raises `binaries.Unavailable`."""
    go = shutil.which("go")
    target = _directory()
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if found := find():
            return found
        if not go:
            raise binaries.Unavailable("there is no go to build a kube-scheduler with")
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            version = binaries.version()
            command = [
                *("nice", "-n", "19", go, "build", "-trimpath", "-buildvcs=false"),
                *("-ldflags", f"-s -w -X k8s.io/component-base/version.gitVersion={version}"),
                *("-o", f"{scratch}/out/{_NAME}", "."),
            ]
            done = subprocess.run(
                command,
                cwd=MODULE,
                env={**os.environ, "CGO_ENABLED": "0"},
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise binaries.Unavailable(f"go build failed:\n{done.stderr[-3000:]}")
            os.rename(f"{scratch}/out", target)
    return target / _NAME


def _directory() -> Path:
    key = hashlib.sha256(platform.machine().encode())
    sources = {"*.go", "go.mod", "go.sum"}
    for file in sorted(file for pattern in sources for file in GO.rglob(pattern)):
        if not file.name.endswith("_test.go"):
            key.update(file.read_bytes())
    return binaries.cache().parent / f"kube-scheduler-{key.hexdigest()[:16]}"


if __name__ == "__main__":
    try:
        print(build())
    except binaries.Unavailable as error:
        sys.exit(f"{error}")
