"""The table of capacity, with copies that are told."""

from __future__ import annotations

import time

import pytest

from placement_service.entities.planning import Bounded
from placement_service.entities.request import Policy
from placement_service.planning import capacity
from placement_service.planning.capacity import Cluster, Domains, frontier
from tests.service.planning.test_explain import Idle
from tests.service.questions import gang, snapshot


def test_more_domains_never_show_fewer_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    told = iter([Bounded(2, 4), Bounded(1, 5), Bounded(0, 6)])
    monkeypatch.setattr(capacity, "copies", lambda *_, **__: next(told))
    # No search follows.
    monkeypatch.setattr(capacity, "_SHORTEST", float("inf"))
    here = snapshot(1)
    cluster = Cluster.after(here, Policy(), (), (), Idle(), time.monotonic() + 60)
    rows = frontier(
        cluster, Domains(here, "kubernetes.io/hostname"), [gang("a", pods=1, gpus=8)], 2
    )
    assert [row.copies for row in rows] == [[Bounded(2, 4)], [Bounded(2, 5)], [Bounded(2, 6)]]
