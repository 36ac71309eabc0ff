"""Required levels that no room could satisfy: that no node has, or that running pods broke."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from placement_service.entities.placement import Reason, ReasonCode
from placement_service.entities.request import PodGang, Snapshot
from placement_service.explain import wording as words
from placement_service.formulation.problem import Problem


class LevelReasons:
    """The reasons of one snapshot that required levels give whatever room there is."""

    def __init__(self, snapshot: Snapshot, problem: Problem) -> None:
        self._nodes = snapshot.columns
        #: Labels that some node has.
        self._known = {level.key for level in problem.levels if level.count}

    def of(self, gang: PodGang) -> Iterator[Reason]:
        """Why a gang cannot have what it requires."""
        group = {g.name: g for g in gang.groups}
        for scope in gang.packing_scopes:
            key = scope.required_level
            if not key:
                continue
            missing = sum(group[name].missing for name in scope.groups)
            about = words.groups(scope.groups)
            if missing and key not in self._known:
                yield Reason(
                    ReasonCode.NO_SUCH_LEVEL,
                    f"no node has the label {key}, of which {about} must share one value.",
                    level=key,
                    asked=missing,
                )
                continue
            inside, outside = Counter[str](), Counter[str]()
            for pod in (p for name in scope.groups for p in group[name].running_pods):
                row = self._nodes.row_of.get(pod.node)
                home = None if row is None else self._nodes[row]
                if home is None:
                    outside[f"{pod.node.removeprefix('nodes/')}, which is gone"] += 1
                elif key not in home.labels:
                    outside[f"{home.short_name} without the label"] += 1
                else:
                    inside[f"{words.level_word(key)} {home.labels[key]}"] += 1
            if len(inside) > 1 or outside:
                everywhere = words.listed([*sorted(inside), *sorted(outside)])
                yield Reason(
                    ReasonCode.REQUIRED_DOMAIN_BROKEN,
                    f"running pods of {about} are in {everywhere}, "
                    f"where one {words.level_word(key)} is required (level {key}).",
                    level=key,
                    asked=inside.total() + outside.total(),
                    found=max(inside.values(), default=0),
                )
