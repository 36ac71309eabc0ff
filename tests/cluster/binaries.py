"""Where kube-apiserver and etcd come from.

First of these that has both: the directory in KUBEBUILDER_ASSETS, as every
project with envtest sets it; an earlier build in the cache; a build, once, of the
Go module in tests/apiserver. The cache stands in XDG_CACHE_HOME (or ~/.cache), is
shared by all checkouts, and its key is what the build is made of: a change of a
version builds anew.

    python -m tests.cluster.binaries        builds if it must, prints the directory

The build runs before the first test and not inside one, so that no test's time
limit falls due meanwhile (see `fixtures`).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MODULE: Final = Path(__file__).parents[1] / "apiserver"
_NAMES: Final = ("etcd", "kube-apiserver")
_SCHEDULER: Final = "kube-scheduler"
_LAST_LINES: Final = 15


class Unavailable(Exception):
    """There is no API server here, and none can be built; says why."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """The two programs."""

    etcd: Path
    kube_apiserver: Path


def find(environ: Mapping[str, str] = os.environ) -> Binaries | None:
    """The programs that are there already.

    Raises `Unavailable` when KUBEBUILDER_ASSETS is set and lacks one: a user who sets it wants
    those and no others.
    """
    if assets := environ.get("KUBEBUILDER_ASSETS"):
        if found := _in(Path(assets)):
            return found
        raise Unavailable(f"KUBEBUILDER_ASSETS={assets} has no {' and '.join(_NAMES)}")
    return _in(cache(environ))


def ensure(
    environ: Mapping[str, str] = os.environ, *, say: Callable[[str], None] = lambda _: None
) -> Binaries:
    """The programs, built if they must be. Raises `Unavailable`.

    Processes that ask at the same time wait for the one that builds, which says so.
    """
    if found := find(environ):
        return found
    target = cache(environ)
    _ensure_built(target, _NAMES, say)
    built = _in(target)
    assert built, f"the build left nothing in {target}"
    return built


def ensure_scheduler(
    environ: Mapping[str, str] = os.environ, *, say: Callable[[str], None] = lambda _: None
) -> Path:
    """kube-scheduler of the same version, built if it must be. Raises `Unavailable`."""
    target = cache(environ, (_SCHEDULER,))
    _ensure_built(target, (_SCHEDULER,), say)
    return target / _SCHEDULER


def _ensure_built(target: Path, names: Sequence[str], say: Callable[[str], None]) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _are_usable(target, names):
                _build(target, names, say)
    except OSError as error:
        raise Unavailable(f"cannot write {target}: {error}") from error


def cache(environ: Mapping[str, str] = os.environ, names: Sequence[str] = _NAMES) -> Path:
    """The directory of the build of these programs, whether it exists or not."""
    root = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".cache"
    key = hashlib.sha256(platform.machine().encode())
    sources = [file for name in names for file in (MODULE / name).glob("*.go")]
    for file in sorted([MODULE / "go.mod", MODULE / "go.sum", *sources]):
        key.update(file.read_bytes())
    kind = "apiserver" if names == _NAMES else names[0]
    return Path(root) / "placement-service" / f"{kind}-{key.hexdigest()[:16]}"


def version() -> str:
    """The release of Kubernetes that the module builds, such as v1.36.3."""
    found = re.search(r"^\tk8s\.io/kubernetes (v\S+)$", (MODULE / "go.mod").read_text(), re.M)
    assert found, "go.mod requires no k8s.io/kubernetes"
    return found[1]


def _in(directory: Path) -> Binaries | None:
    etcd, kube_apiserver = (directory / name for name in _NAMES)
    return Binaries(etcd, kube_apiserver) if _are_usable(directory, _NAMES) else None


def _are_usable(directory: Path, names: Sequence[str]) -> bool:
    return all(os.access(directory / name, os.X_OK) for name in names)


def _build(target: Path, names: Sequence[str], say: Callable[[str], None]) -> None:
    """Build into a directory beside, and rename: `target` is whole or not there."""
    go = shutil.which("go")
    if not go:
        raise Unavailable("KUBEBUILDER_ASSETS is not set, and there is no go to build them with")
    say(f"building {' and '.join(names)} {version()}, once: this takes some minutes")
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        command = [
            *("nice", "-n", "19", go, "build", "-trimpath", "-buildvcs=false"),
            # Without symbols, and with the version that `/version` reports and features go by.
            *("-ldflags", f"-s -w -X k8s.io/component-base/version.gitVersion={version()}"),
            *("-o", f"{scratch}/out/", *(f"./{name}" for name in names)),
        ]
        environ = {**os.environ, "CGO_ENABLED": "0"}
        done = subprocess.run(
            command, cwd=MODULE, env=environ, capture_output=True, text=True, check=False
        )
        if done.returncode:
            last = "\n".join(done.stderr.splitlines()[-_LAST_LINES:])
            raise Unavailable(f"go build of {MODULE.name} failed:\n{last}")
        os.rename(f"{scratch}/out", target)


if __name__ == "__main__":
    try:
        print(ensure(say=lambda line: print(line, file=sys.stderr)).etcd.parent)
    except Unavailable as error:
        sys.exit(f"{error}")
