"""One answer per cycle: faulty parts of a request are left out, and after failures it waits.

If a gang cannot be asked about, its history gets the reason. A service that fails is asked again at
growing intervals; when it fails for long, waiting gangs are reported with that reason.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from controller.asking.request import Query, without
from controller.asking.service_client import Service
from controller.batch import Backoff
from controller.cluster.gang_state import Key
from controller.gang_history import GangHistory
from controller.reports import notices
from controller.runtime.authority import Authority, Heartbeat
from controller.runtime.metrics import Metrics
from placement import v1
from placement.errors import BusyError, InvalidRequestError, PlacementError

logger = logging.getLogger(__name__)

#: Requests of one cycle, each without the faulty parts of the one before.
_MOST_REQUESTS: Final = 4
#: Seconds within which a service that works again is noticed.
_LONGEST_WAIT: Final = 10.0
#: The same where it says itself when it is to be asked again.
_LONGEST_ADVICE: Final = 60.0


class Reply(NamedTuple):
    """The answer, None when there is none, and the query that was really sent."""

    placement: v1.Placement | None
    query: Query


class Inquiry:
    """Asks the service. `timeout` is for one call, and `notice_after` how long the service
    may fail before gangs are told; both in seconds."""

    def __init__(
        self,
        service: Service,
        *,
        timeout: float,
        backoff: Backoff,
        notice_after: float,
        authority: Authority,
        heartbeat: Heartbeat,
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        self._service = service
        self._timeout = timeout
        self._backoff = backoff
        self._notice_after = notice_after
        self._authority = authority
        self._heartbeat = heartbeat
        self._metrics = metrics
        self._clock = clock
        self._left_out: Mapping[str, str] = {}
        self.reset()

    def reset(self) -> None:
        """Forgets all failures."""
        self._failures = 0
        self._failing_since = math.inf
        self.not_before = -math.inf

    def put_off(self, seconds: float) -> None:
        """The service is not asked for so many seconds."""
        self.not_before = self._clock() + seconds

    def ask(self, query: Query, history: GangHistory) -> Reply:
        """Asks, and leaves out what the service refuses. Does not raise."""
        reply = self._ask(query, history)
        self._tell_left_out(reply.query.left_out)
        return reply

    def _ask(self, query: Query, history: GangHistory) -> Reply:
        for left in reversed(range(_MOST_REQUESTS)):
            self._refuse(query.refused, history)
            self._heartbeat.beat()
            if not query.request.gangs:
                break
            started = self._clock()
            try:
                placement = self._service.ask(query.request, timeout=self._timeout)
            except InvalidRequestError as error:
                smaller = without(query, error) if left else None
                if smaller is None:
                    self._fail(query, error, started, history)
                    break
                query = smaller
            except PlacementError as error:
                self._fail(query, error, started, history)
                break
            else:
                self.reset()
                self._metrics.cycles.labels("answered").inc()
                _tell(placement)
                return Reply(placement, query)
        return Reply(None, query)

    def cancel(self) -> None:
        """Ends a call that is under way, from another thread."""
        self._service.cancel()

    def _refuse(self, refused: Mapping[Key, str], history: GangHistory) -> None:
        for key, fault in refused.items():
            if history.answered(key, notices.of_refusal(fault)):
                logger.warning("refused: %s", fault, extra={"gang": "/".join(key)})

    def _tell_left_out(self, left_out: Mapping[str, str]) -> None:
        """Tells once what is planned without."""
        for name, fault in left_out.items():
            if self._left_out.get(name) != fault:
                logger.warning("left out: %s", fault, extra={"object": name})
        self._left_out = left_out

    def _fail(
        self, query: Query, error: PlacementError, started: float, history: GangHistory
    ) -> None:
        if self._authority.is_stopped:
            return
        self._failures += 1
        self._failing_since = min(self._failing_since, started)
        self._metrics.cycles.labels(error.code.name.lower()).inc()
        logger.warning(
            "no answer: %s: %s", error.code.name, error, extra={"gangs": len(query.asked)}
        )
        wait = min(self._backoff.after(self._failures), _LONGEST_WAIT)
        if isinstance(error, BusyError) and error.retry_after is not None:
            wait = max(wait, min(error.retry_after, _LONGEST_ADVICE))
        self.put_off(wait)
        if self._clock() - self._failing_since >= self._notice_after:
            notice = notices.of_failure(f"{error.code.name}: {error}")
            history.not_answered(query.asked, notice)


def _tell(placement: v1.Placement) -> None:
    """Logs an answer, with the digest by which the service's log and its dumps name the request."""
    logger.info(
        "answered: %d bindings for %d gangs",
        len(placement.bindings),
        len(placement.gangs),
        extra={
            "revision": placement.revision,
            "request": placement.request_digest,
            "termination": v1.TerminationReason.Name(placement.termination.reason),
            "seconds": round(placement.stats.elapsed.ToTimedelta().total_seconds(), 3),
        },
    )
