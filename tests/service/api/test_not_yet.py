"""What the engine does not honour yet is refused by name, never ignored."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from placement.v1 import ComputePlacementRequest
from placement_service.api import not_yet
from placement_service.api.wire.requests import parse_request
from placement_service.entities.errors import InvalidRequest
from tests.service.questions import message

Change = Callable[[ComputePlacementRequest], object]

#: By the rule of the list: a request that uses it, and the path that is refused.
USES: dict[str, tuple[Change, str]] = {
    "network_devices": (
        lambda m: setattr(m.gangs[0].groups[0].pod_sets[0].template, "same_pcie_nics", 1),
        "gangs[0].groups[0].pod_sets[0].template.same_pcie_nics",
    ),
    "starvation": (
        lambda m: m.policy.starvation_after.FromSeconds(1),
        "policy.starvation_after",
    ),
    "tolerances": (lambda m: m.policy.tolerances.update(admitted=0.1), "policy.tolerances"),
    "extras_with_priority": (lambda m: setattr(m.policy, "extras", 2), "policy.extras"),
    "eviction": (lambda m: setattr(m.policy, "eviction", 2), "policy.eviction"),
    "devices": (
        lambda m: m.snapshot.nodes[0].devices.add(index=0),
        "snapshot.nodes[0].devices",
    ),
    "compute_domains": (
        lambda m: setattr(m.gangs[0].groups[0].pod_sets[0].template, "compute_domain", "a"),
        "gangs[0].groups[0].pod_sets[0].template.compute_domain",
    ),
}


@pytest.mark.parametrize("rule", [rule.__name__ for rule in not_yet.RULES])
def test_what_is_not_honoured_is_refused(rule: str) -> None:
    use, path = USES[rule]
    there = message()
    parse_request(there)
    use(there)
    with pytest.raises(InvalidRequest) as caught:
        parse_request(there)
    assert (path, not_yet.WORDS) in [(v.field, v.description) for v in caught.value.violations]
