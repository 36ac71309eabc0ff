"""What a model decides: some gangs on some nodes, beside all that is fixed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from placement_service.formulation.arrays import Ints
from placement_service.formulation.plan import Plan
from placement_service.formulation.problem import Gang


class Subproblem(NamedTuple):
    """`nodes` are indices, `free[N, R]` is what is left on all nodes beside the gangs that stay as
    they are in `fixed`.
    """

    gangs: Sequence[Gang]
    nodes: Ints
    free: Ints
    fixed: Plan
