"""What a request can say and the engine does not honour yet: refused by name.

A rule leaves this list when every stage knows it. Until then a request that
uses it gets no answer, because an answer would ignore it in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from placement_service.entities.errors import Violation
from placement_service.entities.request import PodTemplate, Request

WORDS = "not supported yet"


def network_devices(request: Request) -> Iterator[Violation]:
    for path, template in _templates(request):
        if template.same_pcie_nics:
            yield Violation(f"{path}.same_pcie_nics", WORDS)


RULES: tuple[Callable[[Request], Iterator[Violation]], ...] = (network_devices,)


def _templates(request: Request) -> Iterator[tuple[str, PodTemplate]]:
    for i, gang in enumerate(request.snapshot.gangs):
        for j, group in enumerate(gang.groups):
            for k, pod_set in enumerate(group.pod_sets):
                yield f"gangs[{i}].groups[{j}].pod_sets[{k}].template", pod_set.template
