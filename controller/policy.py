"""The policy that every request carries, as the settings have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from placement import v1

EvictionSetting = Literal["none", "preempt", "reclaim", "repack"]
ExtrasSetting = Literal["after-minimums", "with-priority"]

_EVICTION: Final[Mapping[EvictionSetting, v1.EvictionPolicy]] = {
    "none": v1.EvictionPolicy.EVICTION_POLICY_NONE,
    "preempt": v1.EvictionPolicy.EVICTION_POLICY_PREEMPT,
    "reclaim": v1.EvictionPolicy.EVICTION_POLICY_RECLAIM,
    "repack": v1.EvictionPolicy.EVICTION_POLICY_REPACK,
}
_EXTRAS: Final[Mapping[ExtrasSetting, v1.ExtrasPolicy]] = {
    "after-minimums": v1.ExtrasPolicy.EXTRAS_POLICY_AFTER_MINIMUMS,
    "with-priority": v1.ExtrasPolicy.EXTRAS_POLICY_WITH_PRIORITY,
}
#: Tiers that a tolerance may be given for.
TIERS: Final = frozenset({"admitted", "waiting", "extra", "disruption", "topology"})


def policy(
    *,
    deterministic: bool = False,
    eviction: EvictionSetting = "none",
    starvation_after: float = 0.0,
    tolerances: Mapping[str, float] | None = None,
    extras: ExtrasSetting = "after-minimums",
) -> v1.Policy:
    """The message. `starvation_after` is in seconds; 0 means never."""
    result = v1.Policy(
        deterministic=deterministic,
        eviction=_EVICTION[eviction],
        tolerances=dict(tolerances or {}),
        extras=_EXTRAS[extras],
    )
    if starvation_after:
        result.starvation_after.FromNanoseconds(round(starvation_after * 1e9))
    return result
