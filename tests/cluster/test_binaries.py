"""Which kube-apiserver is taken. Programs are stood in for by empty files; nothing is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import binaries


def _programs(directory: Path, *names: str) -> Path:
    directory.mkdir(parents=True)
    for name in names:
        (directory / name).touch(mode=0o755)
    return directory


def test_kubebuilder_assets_come_first(tmp_path: Path) -> None:
    assets = _programs(tmp_path / "assets", "etcd", "kube-apiserver")
    environ = {"KUBEBUILDER_ASSETS": str(assets), "XDG_CACHE_HOME": str(tmp_path)}
    _programs(binaries.cache(environ), "etcd", "kube-apiserver")
    assert binaries.find(environ) == binaries.Binaries(assets / "etcd", assets / "kube-apiserver")


def test_kubebuilder_assets_without_a_program_are_no_reason_to_take_others(tmp_path: Path) -> None:
    assets = _programs(tmp_path / "assets", "etcd")
    environ = {"KUBEBUILDER_ASSETS": str(assets), "XDG_CACHE_HOME": str(tmp_path)}
    _programs(binaries.cache(environ), "etcd", "kube-apiserver")
    with pytest.raises(binaries.Unavailable, match="KUBEBUILDER_ASSETS"):
        binaries.find(environ)


def test_an_earlier_build_is_found_again(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    assert binaries.find(environ) is None
    directory = _programs(binaries.cache(environ), "etcd", "kube-apiserver")
    found = binaries.ensure(environ)
    assert found.kube_apiserver == directory / "kube-apiserver"


def test_the_cache_is_in_the_home_directory_unless_xdg_says_otherwise(tmp_path: Path) -> None:
    assert binaries.cache({"HOME": str(tmp_path)}).is_relative_to(tmp_path / ".cache")


def test_without_go_it_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(binaries.Unavailable, match="there is no go"):
        binaries.ensure({"XDG_CACHE_HOME": str(tmp_path)})


def test_a_failed_build_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "nice").write_text("#!/bin/sh\necho no such module >&2\nexit 1\n")
    _programs(tmp_path / "bin", "go")
    (tools / "nice").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{tmp_path / 'bin'}")
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    with pytest.raises(binaries.Unavailable, match="no such module"):
        binaries.ensure(environ)
    assert binaries.find(environ) is None
