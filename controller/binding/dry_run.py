"""What a controller that binds nothing would have done, in its log."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from controller.binding.apply import Binding, GangPlan
from controller.cluster.gang_state import Key

logger = logging.getLogger(__name__)


class DryRun:
    """Logs the plan of each gang once, and again when the plan is another one."""

    def __init__(self) -> None:
        self._logged: dict[Key, tuple[Binding, ...]] = {}

    def log(
        self, asked: Iterable[Key], plans: Iterable[GangPlan], *, waiting: Mapping[Key, object]
    ) -> None:
        """Logs what the answer about the gangs in `asked` would do.

        Plans of gangs that are not `waiting` any more are forgotten.
        """
        wanted = {plan.gang: plan.bindings for plan in plans}
        for key in asked:
            bindings = wanted.get(key, ())
            if self._logged.get(key, ()) == bindings:
                continue
            extra = {"gang": "/".join(key)}
            if bindings:
                logger.info("would bind %s", ", ".join(map(str, bindings)), extra=extra)
            else:
                logger.info("no longer has a place", extra=extra)
            self._logged[key] = bindings
        for key in self._logged.keys() - waiting.keys():
            del self._logged[key]
