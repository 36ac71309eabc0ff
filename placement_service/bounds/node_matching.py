"""Nodes of their own for units of which no node holds two."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placement_service.formulation.arrays import Bools, Ints


def give_nodes(
    units: Ints, nodes: Sequence[int], accepts: Bools
) -> dict[tuple[int, int], int] | None:
    """A node for each unit: {(shape, type): nodes}, None where there is no way.

    `units[S]` by shape, `nodes[T]` by type, `accepts[T, S]`. Augmenting paths.
    """
    given: dict[tuple[int, int], int] = {}
    left = list(nodes)
    # Nodes that accept the fewest shapes first, so that the others stay for units that need them.
    order = sorted(range(len(left)), key=lambda t: int(accepts[t].sum()))

    def place(shape: int, tried: set[int]) -> bool:
        able = [t for t in order if accepts[t, shape] and t not in tried]
        for t in able:
            if left[t]:
                left[t] -= 1
                given[shape, t] = given.get((shape, t), 0) + 1
                return True
        for t in able:
            tried.add(t)
            for other in [s for (s, at), n in given.items() if at == t and n and s != shape]:
                if place(other, tried):
                    given[other, t] -= 1
                    given[shape, t] = given.get((shape, t), 0) + 1
                    return True
        return False

    for shape in np.flatnonzero(units).tolist():
        for _ in range(int(units[shape])):
            if not place(shape, set()):
                return None
    return {key: n for key, n in given.items() if n}
