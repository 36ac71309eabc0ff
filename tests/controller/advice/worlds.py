"""One gang that waits for advice, for each way to give it, and who binds it.

KAI, Volcano and koord-scheduler are stand-ins; pods of kube-scheduler are bound by one that
keeps pins, so that these tests need no further program.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest

from placement import cluster as product
from placement.advice_marks import ADVICE, GANG, GATE, KAI_HOLD, KAI_NODE_POOL
from placement.cli.releasing import releases
from tests.cluster.api import PODS, Api, Body
from tests.cluster.build import node, pod_spec
from tests.cluster.fixtures import Cluster
from tests.cluster.koord_scheduler import KoordScheduler
from tests.cluster.schedulers import (
    KAI_POD_GROUPS,
    VOLCANO_POD_GROUPS,
    GangScheduler,
    KaiBinder,
    KaiScheduler,
    StandIn,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.api import Resource

_POOL: Final = "ours"


@dataclass(frozen=True)
class Way:
    """One way to give advice. `group` is the annotation by which a pod names its gang."""

    name: str
    advise: str
    scheduler: str
    group: str
    stand_ins: tuple[Callable[[Api], StandIn], ...]
    pod_groups: Resource | None = None
    gated: bool = True
    pool: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "mode": "advise",
            "advise": (self.advise,),
            "advise_pool": _POOL if self.advise == "kai-pool" else "",
            "advise_kai_settle": 0.5,
            "advice_timeout": 0.0,
        }

    def add_nodes(self, cluster: Cluster, *names: str, gpus: int = 2) -> None:
        labels = {KAI_NODE_POOL: _POOL} if self.pool == _POOL else {}
        cluster.add_nodes(*(node(name, gpus=gpus, labels=labels) for name in names))

    def add_gang(self, cluster: Cluster, name: str, pods: int) -> None:
        """A gang of pods of one GPU each."""
        if self.pod_groups is not None:
            cluster.api.create(
                self.pod_groups,
                {
                    "apiVersion": self.pod_groups.api_version,
                    "kind": "PodGroup",
                    "metadata": {
                        "name": name,
                        "namespace": cluster.namespace,
                        "labels": {KAI_NODE_POOL: self.pool} if self.pool else {},
                    },
                    "spec": {"minMember": pods},
                },
            )
        cluster.api.create_all(PODS, [self.pod(cluster, name, index) for index in range(pods)])

    def pod(self, cluster: Cluster, gang: str, index: int) -> Body:
        return {
            "metadata": {
                "name": f"{gang}-{index}",
                "namespace": cluster.namespace,
                "annotations": {self.group: gang},
            },
            "spec": {
                **pod_spec(gpus=1),
                "schedulerName": self.scheduler,
                "schedulingGates": [{"name": GATE}] if self.gated else [],
            },
        }

    @contextmanager
    def scheduled(self, cluster: Cluster) -> Iterator[None]:
        """The scheduler runs while the block runs."""
        with ExitStack() as stack:
            for stand_in in self.stand_ins:
                stack.enter_context(stand_in(cluster.api))
            yield


def _gangs_of(scheduler: str, group: str) -> Callable[[Api], StandIn]:
    return lambda api: GangScheduler(api, scheduler=scheduler, group=group)


_KAI: Final[dict[str, Any]] = {
    "scheduler": "kai-scheduler",
    "group": "pod-group-name",
    "pod_groups": KAI_POD_GROUPS,
}
_BOTH: Final = (KaiBinder, KaiScheduler)
_GROUP: Final = "scheduling.k8s.io/group-name"

WAYS: Final = (
    Way("kai by gate", "kai", stand_ins=_BOTH, **_KAI),
    Way(
        "kai by label",
        "kai",
        stand_ins=(KaiBinder, KaiScheduler),
        gated=False,
        pool=KAI_HOLD,
        **_KAI,
    ),
    Way("kai-pool", "kai-pool", stand_ins=(KaiBinder,), gated=False, pool=_POOL, **_KAI),
    Way("kai-pins", "kai-pins", stand_ins=(_gangs_of("kai-scheduler", "pod-group-name"),), **_KAI),
    Way(
        "volcano",
        "volcano",
        "volcano",
        _GROUP,
        (_gangs_of("volcano", _GROUP),),
        VOLCANO_POD_GROUPS,
    ),
    Way("koordinator", "koordinator", "koord-scheduler", GANG, (KoordScheduler,)),
    Way("koordinator-hints", "koordinator-hints", "koord-scheduler", GANG, (KoordScheduler,)),
    Way("kube-scheduler", "kube-scheduler", "default", GANG, (_gangs_of("default", GANG),)),
    Way(
        "kube-scheduler-nominate",
        "kube-scheduler-nominate",
        "default",
        GANG,
        (_gangs_of("default", GANG),),
    ),
)

every_way = pytest.mark.parametrize("way", [pytest.param(way, id=way.name) for way in WAYS])


def some_ways(*names: str) -> pytest.MarkDecorator:
    found = [pytest.param(way, id=way.name) for way in WAYS if way.name in names]
    assert len(found) == len(names)
    return pytest.mark.parametrize("way", found)


def is_over(cluster: Cluster) -> bool:
    """Whether no advice is under way."""
    return not any(ADVICE in (pod["metadata"].get("annotations") or {}) for pod in cluster.pods())


def left_over(cluster: Cluster) -> list[str]:
    """What holds pods or room, and is yet to be taken away."""
    with connected(cluster) as one:
        return [str(release) for release in releases(one)]


@contextmanager
def connected(cluster: Cluster) -> Iterator[product.Cluster]:
    """The cluster as the product speaks to it."""
    with product.Cluster.connect(kubeconfig=str(cluster.kubeconfig())) as one:
        yield one
