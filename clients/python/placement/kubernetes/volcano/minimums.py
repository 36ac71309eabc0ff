"""How many pods of each task have to run, where a gang says it for its tasks and for all together.

Volcano wants both. A gang here has minimums of its groups alone, so what lacks of the sum is made
up by the tasks that have further pods, where only one has or all of these are needed.
"""

from __future__ import annotations

from collections.abc import Sequence


def raised(minimums: Sequence[int], counts: Sequence[int], whole: int) -> list[int] | None:
    """Minimums of tasks with so many pods each, of which at least `whole` run; None where one task
    or another could make up what lacks.
    """
    result = [*minimums]
    lacking = max(0, whole - sum(minimums))
    spare = [max(0, count - least) for count, least in zip(counts, minimums, strict=True)]
    if 0 < lacking < sum(spare) and sum(map(bool, spare)) > 1:
        return None
    for index, more in enumerate(spare):
        result[index] += min(more, lacking)
        lacking -= min(more, lacking)
    if result:
        # It waits for pods that are not there yet.
        result[0] += lacking
    return result
