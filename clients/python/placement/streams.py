"""The events of calls that tell of progress, and of calls that may be told to finish."""

from __future__ import annotations

from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any, Generic, Self, TypeVar, cast

import grpc

from placement.failures import failure_on
from placement.v1 import Progress, SteerPlacementRequest, SteerPlanningRequest

_A_co = TypeVar("_A_co", covariant=True)

_Step = SteerPlacementRequest | SteerPlanningRequest


class EventStream(Iterator[Progress | _A_co], Generic[_A_co]):
    """The events of one call: any number of `Progress`, then one answer, the last.

    Closing it, from any thread, cancels the call and ends the iteration; it is a context
    manager that does so. Iterating raises a `placement.errors.PlacementError`.
    """

    def __init__(self, call: grpc.CallIterator[Any], channel: grpc.Channel) -> None:
        self._call = call
        self._channel = channel
        self._responses = iter(call)
        self._closed = False

    def __next__(self) -> Progress | _A_co:
        while True:
            try:
                response = next(self._responses)
            except grpc.RpcError as error:
                if self._closed:
                    raise StopIteration from None
                raise failure_on(self._channel, error) from error
            event = response.WhichOneof("event")
            if event is not None:
                return cast("Progress | _A_co", getattr(response, event))
            # An event that a newer server sends and this client does not know.

    def close(self) -> None:
        """Cancel the call, which stops the search; does nothing when it has ended."""
        self._closed = True
        self._call.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SteeredStream(EventStream[_A_co]):
    """A stream that ends earlier once `finish` is called, with the best answer so far."""

    def __init__(
        self,
        call: grpc.CallIterator[Any],
        channel: grpc.Channel,
        steps: SimpleQueue[Any],
        finish: _Step,
    ) -> None:
        super().__init__(call, channel)
        self._steps = steps
        self._finish = finish

    def finish(self) -> None:
        """Have the search end with the best answer so far; from any thread."""
        self._steps.put(self._finish)
        self._steps.put(None)

    def close(self) -> None:
        super().close()
        # The thread that sends may still wait for a next step.
        self._steps.put(None)
