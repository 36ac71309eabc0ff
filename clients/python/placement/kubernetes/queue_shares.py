"""What queues say about sharing that is not honoured, with a warning.

What is beyond guaranteed amounts goes to gangs by their priority and waiting time, whichever queue
they are in. So weights and priorities of queues have no effect. That matters only where a queue
says something else than another one below the same parent.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from placement.kubernetes.koordinator.elastic_quotas import PARENT_LABEL
from placement.kubernetes.objects import Object, Objects
from placement.kubernetes.problems import Problem
from placement.kubernetes.schema import kinds
from placement.kubernetes.schema.kinds import Kind
from placement.kubernetes.values.reading import At

_IGNORED: Final = (
    "is ignored: what is beyond guaranteed amounts goes to gangs by priority and waiting time"
)
_SHARED_WEIGHT: Final = "quota.scheduling.koordinator.sh/shared-weight"


class _Share(NamedTuple):
    """A field of a kind of queues, what counts where it is absent, and the names that queues give
    their parent.
    """

    kind: Kind
    path: tuple[str, ...]
    default: Any
    parents: tuple[str, ...]


_KAI: Final = ("parentQueue",)
_SHARES: Final = (
    _Share(kinds.KAI_QUEUES, ("spec", "priority"), 100, _KAI),
    *(
        _Share(kinds.KAI_QUEUES, ("spec", "resources", resource, "overQuotaWeight"), 1, _KAI)
        for resource in ("gpu", "cpu", "memory")
    ),
    _Share(kinds.ELASTIC_QUOTAS, ("metadata", "annotations", _SHARED_WEIGHT), None, ()),
    _Share(kinds.VOLCANO_QUEUES, ("spec", "weight"), 1, ("parent",)),
    _Share(kinds.VOLCANO_QUEUES, ("spec", "priority"), 0, ("parent",)),
    _Share(kinds.CLUSTER_QUEUES, ("spec", "fairSharing", "weight"), 1, ("cohortName", "cohort")),
    _Share(kinds.COHORTS, ("spec", "fairSharing", "weight"), 1, ("parentName", "parent")),
    _Share(kinds.LOCAL_QUEUES, ("spec", "fairSharing", "weight"), 1, ("clusterQueue",)),
)


def warn_of_shares(objects: Objects, warnings: list[Problem]) -> None:
    """One warning for siblings that are unlike. In Kueue, queues without a parent share nothing."""
    for share in _SHARES:
        siblings: dict[str, list[Object]] = {}
        for one in objects.of_kind(share.kind):
            parent = _parent(one, share)
            if parent or share.kind.group != kinds.KUEUE:
                siblings.setdefault(parent, []).append(one)
        for queues in siblings.values():
            said = [_value(one, share) for one in queues]
            unlike = next((i for i, value in enumerate(said) if str(value) != str(said[0])), 0)
            if unlike:
                where = ".".join(share.path)
                warnings.append(queues[unlike].problem(where, _IGNORED))


def _parent(one: Object, share: _Share) -> str:
    body = At(one.body, {})
    if not share.parents:
        return str(body.get("metadata").get("labels").get(PARENT_LABEL).value or "")
    spec = body.get("spec")
    return next((str(name) for p in share.parents if (name := spec.get(p).value)), "")


def _value(one: Object, share: _Share) -> Any:
    at = At(one.body, {})
    for key in share.path:
        at = at.get(key)
    return share.default if at.absent else at.value
