"""What would let waiting gangs in, asked outside the cycle and reported with the reasons. A thread
of its own asks the service about one gang at a time, with the plan that the service made: no
binding waits for it. The result is kept until the gang waits for other reasons.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from controller.cluster.gang_state import Key, key_of_resource
from controller.reports.notices import Notice
from placement import v1
from placement.errors import PlacementError

logger = logging.getLogger(__name__)

#: Remedies that cost people least come first.
_ORDER: Final = ("uncordon", "relax", "reduce", "evict", "add_nodes")

#: Reasons that no change of nodes or gangs can remove.
_BEYOND: Final = frozenset(
    {
        v1.ReasonCode.REASON_CODE_UNINITIALIZED,
        v1.ReasonCode.REASON_CODE_PODS_MISSING,
        v1.ReasonCode.REASON_CODE_UNSUPPORTED,
        v1.ReasonCode.REASON_CODE_BASE_NOT_PLACED,
        v1.ReasonCode.REASON_CODE_QUEUE_UNKNOWN,
    }
)

Explain = Callable[[v1.ExplainGangRequest, float], v1.ExplainGangResponse]


@dataclass(frozen=True, slots=True)
class _Known:
    """What was found for a gang that waited for these reasons; "" if nothing yet."""

    reasons: tuple[v1.ReasonCode, ...]
    text: str


class Remedies:
    """`explain` asks the service within so many seconds; `seconds` 0 asks nothing."""

    def __init__(self, explain: Explain, *, seconds: float, wake: Callable[[], None]) -> None:
        self._explain = explain
        self._seconds = seconds
        self._wake = wake
        self._lock = threading.Lock()
        self._known: dict[Key, _Known] = {}
        self._asking: threading.Thread | None = None

    def consider(self, request: v1.ComputePlacementRequest, placement: v1.Placement) -> None:
        """Asks about one gang that an answer leaves out for new reasons, if there is one."""
        waiting = {
            key_of_resource(result.name): (result.name, tuple(r.code for r in result.reasons))
            for result in placement.gangs
            if not result.placed and result.reasons[:1] and result.reasons[0].code not in _BEYOND
        }
        with self._lock:
            self._known = {key: k for key, k in self._known.items() if key in waiting}
            busy = self._asking is not None and self._asking.is_alive()
            new = [
                key
                for key, (_, reasons) in waiting.items()
                if key not in self._known or self._known[key].reasons != reasons
            ]
            if busy or not new or not self._seconds:
                return
            name, reasons = waiting[new[0]]
            # Whatever the result, the next gang is asked about after the next answer.
            self._known[new[0]] = _Known(reasons, "")
            asked = v1.ExplainGangRequest(question=request, gang=name, plan=placement)
            asked.time_limit.FromNanoseconds(round(self._seconds * 1e9))
            self._asking = threading.Thread(
                target=self._ask, args=(asked, new[0], reasons), name="explain", daemon=True
            )
            self._asking.start()

    def told(self, key: Key, notice: Notice | None) -> Notice | None:
        """The notice about a gang, together with what would let it in."""
        with self._lock:
            known = self._known.get(key)
        if notice is None or known is None or not (known.text and notice.reason):
            return notice
        reason = notice.message.removesuffix(".")
        return replace(notice, message=f"{reason}; what would let it in: {known.text}")

    def wait(self) -> None:
        """Returns once nothing is being asked."""
        asking = self._asking
        if asking is not None:
            asking.join()

    def _ask(
        self, asked: v1.ExplainGangRequest, key: Key, reasons: tuple[v1.ReasonCode, ...]
    ) -> None:
        try:
            found = self._explain(asked, self._seconds)
        except PlacementError as error:
            logger.info("no remedy is known: %s", error, extra={"gang": "/".join(key)})
            return
        best = min(
            found.remedies,
            key=lambda remedy: _ORDER.index(remedy.WhichOneof("kind") or _ORDER[-1]),
            default=None,
        )
        if best is not None:
            with self._lock:
                self._known[key] = _Known(reasons, best.message)
            self._wake()
