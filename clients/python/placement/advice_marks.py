"""Names that advice to other schedulers leaves on objects: the controller writes them, and
`placementctl release` looks for them."""

from __future__ import annotations

from typing import Final

#: Scheduling gate of pods that wait for advice.
GATE: Final = "placement-service/advice"
#: Annotation of a pod that got advice: where to, and until when (JSON).
ADVICE: Final = "placement-service/advice"
#: Label of every object that advice makes; its value is the advice's id.
MADE_FOR: Final = "placement-service/advice"
#: Condition of a pod: what became of its advice.
CONDITION: Final = "placement-service/Advised"

#: Annotations that make plain pods a gang.
GANG: Final = "placement-service/gang"
GANG_MINIMUM: Final = "placement-service/gang-minimum"
REQUIRED_LEVEL: Final = "placement-service/required-level"
PREFERRED_LEVEL: Final = "placement-service/preferred-level"
PLAIN_GANG: Final = (GANG, GANG_MINIMUM, REQUIRED_LEVEL, PREFERRED_LEVEL)

#: KAI's label for the shard of a PodGroup, and its value for those that wait for advice.
KAI_NODE_POOL: Final = "kai.scheduler/node-pool"
KAI_HOLD: Final = "placement-service-hold"
