"""Random questions: tiny ones for the oracle, and those that are a little larger."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.planned import Taste, questions
from tests.strategies import (
    EVERYTHING,
    PACKING_ONLY,
    SMALL,
    TINY,
    snapshots,
)

tiny = st.one_of(
    snapshots(TINY, EVERYTHING),
    snapshots(TINY, PACKING_ONLY),
    # These have gangs that are alike, several sets of them, and a third resource.
    questions(Taste(nodes=4, pods=5)),
    questions(Taste(nodes=4, pods=5, sets=1, scopes=0.2, rules=0.05)),
)

small = st.one_of(snapshots(SMALL, EVERYTHING), snapshots(SMALL, PACKING_ONLY))
