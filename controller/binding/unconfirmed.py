"""Bindings of which it is not known whether they were made.

Until then such a pod counts as bound, so that nothing is put in its place. Most often a watch tells
first; otherwise the pod itself is read.
"""

from __future__ import annotations

import logging
import math
from typing import Final, Protocol

from controller.binding.apply import BindAttempt, Binding, Result
from controller.cluster.cache import ClusterCache
from controller.cluster.gang_state import Key
from placement.cluster import ApiError

logger = logging.getLogger(__name__)

#: Seconds between two reads of a pod, and until a read is given up.
_EVERY: Final = 2.0


class BindingLookup(Protocol):
    """Reads the result of a binding (see `apply.KubernetesBinder`)."""

    def look(self, binding: Binding, *, timeout: float) -> BindAttempt: ...


class UnconfirmedBindings:
    """The bindings whose result is unknown."""

    def __init__(self, cache: ClusterCache, lookup: BindingLookup) -> None:
        self._cache = cache
        self._lookup = lookup
        self._unknown: dict[Key, tuple[Binding, Key]] = {}
        self._again_at = -math.inf

    @property
    def gangs(self) -> frozenset[Key]:
        """The gangs of these pods."""
        return frozenset(gang for _, gang in self._unknown.values())

    def add(self, binding: Binding, gang: Key) -> None:
        self._unknown[binding.pod] = binding, gang

    def settle(self, now: float) -> None:
        """Reads each pod, when it is time for it. Ends with the first that cannot be read."""
        if not self._unknown or now < self._again_at:
            return
        self._again_at = now + _EVERY
        assumed = self._cache.assumed
        for key, (binding, _) in tuple(self._unknown.items()):
            if key in assumed:
                try:
                    found = self._lookup.look(binding, timeout=_EVERY)
                except ApiError as error:
                    logger.warning("%s: %s", binding, error, extra={"pod": "/".join(key)})
                    return
                if found.result is not Result.BOUND:
                    self._cache.forget(key, binding.uid)
            del self._unknown[key]
