"""Eviction plans that were begun, stored where another controller finds them. Before its first pod
is evicted a plan is written to a ConfigMap of our own namespace. After a crash the next leader
continues with the same pods instead of choosing others. Plans are not kept on the gangs themselves:
a user who may write a gang must not be able to evict the pods of others.
"""

from __future__ import annotations

import logging

from controller.cluster.gang_state import Key
from controller.eviction.plan import EvictionPlan
from placement.cluster import MERGE_PATCH, ApiError, Cluster
from placement.resources import CONFIG_MAPS

logger = logging.getLogger(__name__)


class Journal:
    """The plans under way, by gang. Every method raises `ApiError`."""

    def __init__(self, cluster: Cluster, *, namespace: str, name: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._name = name

    def read(self) -> tuple[EvictionPlan, ...]:
        """All plans. One that cannot be read is left out."""
        try:
            found = self._cluster.request("GET", CONFIG_MAPS.path_of(self._name, self._namespace))
        except ApiError as error:
            if error.status == 404:
                return ()
            raise
        plans = []
        for name, text in (found.get("data") or {}).items():
            try:
                plans.append(EvictionPlan.of_text(text))
            except ValueError as error:
                logger.error("%s: %s", name, error)
        return tuple(plans)

    def write(self, plan: EvictionPlan) -> None:
        """Adds a plan, or replaces that of its gang."""
        data = {_entry(plan.gang): plan.to_text()}
        try:
            self._patch(data)
        except ApiError as error:
            if error.status != 404:
                raise
            self._create(data)

    def erase(self, gang: Key) -> None:
        """Deletes the plan of a gang, if it has one."""
        try:
            self._patch({_entry(gang): None})
        except ApiError as error:
            if error.status != 404:
                raise

    def _patch(self, data: dict[str, str] | dict[str, None]) -> None:
        path = CONFIG_MAPS.path_of(self._name, self._namespace)
        self._cluster.request("PATCH", path, body={"data": data}, content_type=MERGE_PATCH)

    def _create(self, data: dict[str, str]) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "data": data,
        }
        self._cluster.request("POST", CONFIG_MAPS.path_in(self._namespace), body=body)


def _entry(gang: Key) -> str:
    # No name in Kubernetes contains an underscore.
    return "_".join(gang)
