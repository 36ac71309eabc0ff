"""Whose turn it is among calls that wait."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from placement_service.api.compute import turns as module
from placement_service.api.compute.turns import Turns


class Call(NamedTuple):
    peer: str
    name: str


def in_turn(*calls: Call) -> list[str]:
    """The names in the order of their turns, with one process."""
    turns, waiting, names = Turns(), list(calls), []
    while waiting:
        one = turns.next(waiting, ())
        turns.given(one.peer)
        waiting.remove(one)
        names.append(one.name)
    return names


def test_many_connections_of_one_address_come_after_the_first_of_another() -> None:
    many = [Call(f"ipv4:10.0.0.1:{port}", f"many{port}") for port in range(4)]
    one = [Call("ipv4:10.0.0.2:1", f"one{n}") for n in range(2)]
    assert in_turn(*many, *one) == ["many0", "one0", "many1", "one1", "many2", "many3"]


def test_who_has_less_computed_comes_first() -> None:
    turns = Turns()
    waiting = [Call("ipv4:a:1", "a1"), Call("ipv4:a:2", "a2"), Call("ipv4:b:1", "b1")]
    assert turns.next(waiting, ["ipv4:a:1", "ipv4:b:1"]).name == "a2"
    assert turns.next(waiting, ["ipv4:a:1", "ipv4:b:1", "ipv4:b:2"]).name == "a2"
    assert turns.next(waiting, ["ipv4:a:2"]).name == "b1"


def test_an_address_with_less_computed_comes_before_a_new_connection() -> None:
    waiting = [Call("ipv4:a:2", "a2"), Call("ipv4:b:1", "b1")]
    assert Turns().next(waiting, ["ipv4:a:1", "ipv4:a:3", "ipv4:b:1"]).name == "b1"


def test_only_the_latest_turns_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address whose turn is forgotten comes as if it never had one."""
    monkeypatch.setattr(module, "_MOST_KNOWN", 2)
    turns = Turns()
    for address in ("b", "a", "b", "c"):
        turns.given(f"ipv4:{address}:1")
    calls = [Call(f"ipv4:{address}:1", address) for address in "cbad"]
    assert turns.next(calls, ()).name == "a"
    assert turns.next(calls[:2], ()).name == "b"


def test_of_one_address_the_first_comes_first() -> None:
    assert in_turn(Call("ipv4:a:1", "x"), Call("ipv4:a:2", "y"), Call("ipv4:a:1", "z")) == list(
        "xyz"
    )
