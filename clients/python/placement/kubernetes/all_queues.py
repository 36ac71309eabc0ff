"""The queues of all schedulers, in one tree."""

from __future__ import annotations

from placement.kubernetes.kai.queues import read_kai_queues
from placement.kubernetes.koordinator.elastic_quotas import read_elastic_quotas
from placement.kubernetes.kueue.kueue import Kueue
from placement.kubernetes.objects import Objects
from placement.kubernetes.problems import Diagnostics
from placement.kubernetes.queue_shares import warn_of_shares
from placement.kubernetes.queues import Queues, tree
from placement.kubernetes.schema import kinds
from placement.kubernetes.volcano.queues import VolcanoQueues


def read_queues(
    objects: Objects,
    kueue: Kueue,
    volcano: VolcanoQueues,
    diagnostics: Diagnostics,
) -> Queues:
    """All queues; `kueue` and `volcano` hold what was read of them before."""
    warn_of_shares(objects, diagnostics.warnings)
    return tree(
        [
            *read_kai_queues(objects.of_kind(kinds.KAI_QUEUES), diagnostics.problems),
            *read_elastic_quotas(objects.of_kind(kinds.ELASTIC_QUOTAS), diagnostics),
            *volcano.queues,
            *kueue.queues.queues,
        ],
        kueue.local_queues,
        diagnostics,
    )
