"""The PodGangs that should exist, each with its pods: what Grove would make of its sets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from placement.kubernetes import Objects, expand
from tests.cluster.api import Body
from tests.cluster.rollout import HASH

GATE: Final = "grove.io/podgang-pending-creation"
CLIQUE: Final = "grove.io/podclique"

#: Namespace and name.
Key = tuple[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class WantedGang:
    """A PodGang that should exist, with the pods of each clique by their index."""

    body: Body
    cliques: Mapping[str, Sequence[Body]]

    @property
    def key(self) -> Key:
        return self.body["metadata"]["namespace"], self.body["metadata"]["name"]


def wanted_gangs(bodies: Iterable[Body], scheduler: str) -> Iterable[WantedGang]:
    """The gangs of PodCliqueSets and ClusterTopologyBindings, with pods for a scheduler."""
    current: Body = {}
    cliques: dict[str, list[Body]] = {}
    for body in expand(Objects.of(bodies)):
        if body["kind"] == "Pod":
            name = body["metadata"]["labels"][CLIQUE]
            cliques.setdefault(name, []).append(_pod(body, scheduler))
            continue
        if body["kind"] != "PodGang":
            # ComputeDomains, which no API server here knows. Grove's pods name their claims.
            continue
        if current:
            yield WantedGang(current, cliques)
        current, cliques = _gang(body), {}
    if current:
        yield WantedGang(current, cliques)


def _gang(body: Body) -> Body:
    # Without its owner, the PodCliqueSet, which is in no API server here: a garbage collector
    # deletes what belongs to nobody.
    return {key: body[key] for key in ("apiVersion", "kind", "metadata", "spec")}


def _pod(body: Body, scheduler: str) -> Body:
    metadata = {key: one for key, one in body["metadata"].items() if key != "name"}
    metadata["generateName"] = f"{metadata['labels'][CLIQUE]}-"
    # The host's name tells pods of one template apart.
    template = {key: one for key, one in body["spec"].items() if key != "hostname"}
    digest = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()
    metadata["labels"] = {**metadata["labels"], HASH: digest[:10]}
    held = {"schedulerName": scheduler, "schedulingGates": [{"name": GATE}]}
    return {**body, "metadata": metadata, "spec": {**body["spec"], **held}}
