"""Which pods Grove replaces next when the template of a PodCliqueSet has changed.

One replica of the set at a time: of each scaling group a whole replica, and of each clique
that stands alone one pod; and the next when those are Ready again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.cluster.api import Body

HASH: Final = "grove.io/pod-template-hash"
_SCALING_GROUP: Final = "grove.io/podcliquescalinggroup"
_SCALING_REPLICA: Final = "grove.io/podcliquescalinggroup-replica-index"


@dataclass(frozen=True, slots=True, eq=False)
class Clique:
    """The pods that a clique should have, and those that it has and that stay."""

    templates: Sequence[Body]
    alive: Sequence[Body]

    @property
    def labels(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self.templates[0]["metadata"]["labels"]
        return found

    @property
    def old(self) -> list[Body]:
        """Pods of another template than the present one."""
        hashes = {template["metadata"]["labels"][HASH] for template in self.templates}
        return [pod for pod in self.alive if pod["metadata"]["labels"][HASH] not in hashes]

    @property
    def is_ready(self) -> bool:
        return len(self.alive) >= len(self.templates) and all(
            is_true(pod, "Ready") for pod in self.alive
        )


def is_current(cliques: Iterable[Clique]) -> bool:
    """Whether a replica of a set is updated, and whole again."""
    return all(not one.old and one.is_ready for one in cliques)


def next_old(cliques: Iterable[Clique]) -> list[Body]:
    """The pods of one replica of a set that are replaced next."""
    due: list[Body] = []
    groups: defaultdict[str, defaultdict[int, list[Clique]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for one in cliques:
        if group := one.labels.get(_SCALING_GROUP):
            groups[group][int(one.labels[_SCALING_REPLICA])].append(one)
        elif one.is_ready:
            due += sorted(one.old, key=_name)[:1]
    for by_replica in groups.values():
        for _, several in sorted(by_replica.items()):
            if not is_current(several):
                due += [pod for one in several for pod in one.old]
                break
    return due


def is_true(one: Body, condition: str) -> bool:
    conditions = one.get("status", {}).get("conditions", ())
    return any(c["type"] == condition and c["status"] == "True" for c in conditions)


def _name(pod: Body) -> str:
    return str(pod["metadata"]["name"])
