"""List and watch of one resource in a thread of its own, for what plays a part in a test.

Restarts of the API server, broken streams and lost history are lived through by
listing again. An error of the handler ends the informer and is raised by `stop`:
a test whose fake parts failed must not pass.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import urllib3

from tests.cluster.api import Api, ApiError, Body, Resource

#: Acts on an object as it is now, or as it was last when `is_gone`.
Handler = Callable[[Body, bool], None]

_PAUSE_SECONDS: Final = 0.2
#: How long one stream lasts at most.
_STREAM_SECONDS: Final = 60


class Informer:
    """Calls a handler for every object there is and for every change, one at a time.

    `parameters` narrow the list, such as ``fieldSelector``. Objects that a relist
    finds missing are handed on as gone.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource,
        handler: Handler,
        *,
        namespace: str | None = None,
        **parameters: str,
    ) -> None:
        self._api = api
        self._resource = resource
        self._handler = handler
        self._namespace = namespace
        self._parameters = parameters
        self._known: dict[str, Body] = {}
        self._stopping = threading.Event()
        self._synced = threading.Event()
        self._error: Exception | None = None
        self._break_off: Callable[[], None] = lambda: None
        self._thread = threading.Thread(
            target=self._run, name=f"informer-{resource.plural}", daemon=True
        )

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def start(self) -> None:
        """Start, and return when everything listed has been handled."""
        self._thread.start()
        self._synced.wait()

    def stop(self) -> None:
        """End it. Raises what the handler raised."""
        self._stopping.set()
        self._break_off()
        if self._thread.ident is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    self._list_and_watch()
                except (ApiError, urllib3.exceptions.HTTPError, OSError) as error:
                    if isinstance(error, ApiError) and error.status in (401, 403):
                        raise
                    self._stopping.wait(_PAUSE_SECONDS)
        except Exception as error:  # told by `stop`, in the thread of the test
            self._error = error
        finally:
            self._synced.set()

    def _list_and_watch(self) -> None:
        listing = self._api.listing(self._resource, self._namespace, **self._parameters)
        revision: str = listing["metadata"]["resourceVersion"]
        now = {one["metadata"]["uid"]: one for one in listing["items"]}
        for uid in self._known.keys() - now.keys():
            # It is not known when it went, only that it is gone.
            last = self._known[uid]
            metadata = {**last["metadata"], "resourceVersion": revision}
            self._handler({**last, "metadata": metadata}, True)
            del self._known[uid]
        for one in now.values():
            self._see(one)
        self._synced.set()
        while not self._stopping.is_set():
            for event in self._api.watch(
                self._resource,
                revision,
                self._namespace,
                seconds=_STREAM_SECONDS,
                opened=self._opened,
                **self._parameters,
            ):
                one = event["object"]
                revision = one["metadata"]["resourceVersion"]
                if event["type"] == "DELETED":
                    self._handler(one, True)
                    self._known.pop(one["metadata"]["uid"], None)
                elif event["type"] != "BOOKMARK":
                    self._see(one)
                if self._stopping.is_set():
                    return

    def _opened(self, break_off: Callable[[], None]) -> None:
        self._break_off = break_off
        if self._stopping.is_set():
            break_off()

    def _see(self, one: Body) -> None:
        uid = one["metadata"]["uid"]
        known = self._known.get(uid)
        version = one["metadata"]["resourceVersion"]
        if known is None or known["metadata"]["resourceVersion"] != version:
            self._handler(one, False)
            # Only now: what an unreachable server kept the handler from doing is due again.
            self._known[uid] = one
