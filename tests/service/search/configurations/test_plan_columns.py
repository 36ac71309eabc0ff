"""Columns of a plan: what its domains hold fits there, and a master with them reaches the plan."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from bench.instances import Instance
from placement_service.cp_sat.configurations.master import ConfigurationMaster
from placement_service.entities.request import Policy, Snapshot
from placement_service.search.configurations.plan_columns import plan_columns
from placement_service.search.configurations.stage import settle_configurations
from placement_service.search.master_stage import count
from tests.service.search.block_questions import begun, question

POLICY = Policy(deterministic=True)


@given(st.integers(0, 10_000).map(question))
def test_what_domains_hold_fits_there_and_reaches_what_the_plan_admits(snapshot: Snapshot) -> None:
    state = begun(snapshot, POLICY, seconds=600)
    found = state.configurations
    assume(found is not None)
    assert found is not None
    columns = list(plan_columns(found, state.plan).values())

    used = Counter(column.signature for column in columns)
    assert all(n <= len(found.signatures[g].domains) for g, n in used.items())
    prices = np.ones(len(found.kinds), dtype=np.int64)
    for column in columns:
        parts = np.zeros(len(found.kinds), dtype=np.int64)
        for k, times in column.parts:
            parts[k] = times
        assert (found.trim(found.signatures[column.signature], parts, prices) == parts).all()

    master = ConfigurationMaster(found, columns=columns)
    terms = state.goals[0].terms(master)
    assume(terms)
    assert terms
    # No more columns are looked for than those of the first prices.
    bound = master.columns.bound(terms, maximize=True, deadline=time.monotonic())
    most = master.columns.fill(terms, bound, maximize=True, seconds=60, slack=None, nodes=10_000)
    assert most is not None
    assert state.worth.values[0] <= most <= bound


def test_fillings_begin_with_what_the_plan_has() -> None:
    snapshot = Instance("cpu_shapes", {"load": 1.5, "blocks": 1, "gangs": 16}).snapshot()
    state = begun(snapshot, POLICY, seconds=600)
    assert state.configurations is not None
    columns = set(plan_columns(state.configurations, state.plan).values())
    count(state)
    settle_configurations(state)
    with state.ground.configuration_master() as master:
        assert columns <= set(master.columns.lp.columns)
