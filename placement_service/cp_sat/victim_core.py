"""A core of the victim model: some nodes, and some domains for each part, are open.

All other nodes stay as they are while nothing moves: what runs there stays, unless its gang leaves
the open nodes, too, and nothing comes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from placement_service.cp_sat.victim_model import VictimModel
from placement_service.formulation.arrays import Bools


@dataclass(frozen=True, slots=True, eq=False)
class Core:
    """Open nodes [N], and open domains of each part of the model."""

    nodes: Bools
    domains: Mapping[int, Collection[int]]


def fixed_outside(model: VictimModel, core: Core) -> dict[int, float]:
    """The variables that are not open, and their values."""
    is_open = [bool(core.nodes[c.nodes].any()) for c in model.classes]
    touched = {k.gang for k in model.kept if is_open[k.node_class]}
    fixed = {v: 0.0 for (_, j), v in model.load.items() if not is_open[j]}
    for gang in model.running:
        if gang.index not in touched:
            fixed[model.placed[gang.index]] = 1.0
    for units, stay in model.kept.items():
        if not is_open[units.node_class] and units.gang not in touched:
            fixed[stay.variable] = model.most(stay.variable)
    for (p, d), v in model.here.items():
        if d not in core.domains[p]:
            fixed[v] = 0.0
    return fixed
