"""Talks to a Kubernetes API server in plain JSON: list, watch and single requests.

The official client finds the cluster, authenticates and keeps the connections, but its models are
not used: they take a hundred times longer to make than the JSON itself, and they drop fields that
they do not know. So answers are dictionaries as the server wrote them. Nothing is retried here: the
caller knows what a repetition means.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlencode

import kubernetes
import urllib3

from placement.kubeconfig import NotConfiguredError, Renewal, api_client
from placement.resources import Resource

Body = dict[str, Any]

MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"

#: Objects in one page of a list: small enough that neither side holds much at once. Where they are
#: so many bytes, pages are a quarter as long, down to the least.
_PAGE: Final = 500
_LEAST_PAGE: Final = 25
_PAGE_BYTES: Final = 2**26
#: Seconds until a connection is made, and until an answer comes.
_CONNECT: Final = 5.0
_READ: Final = 30.0
#: Seconds until a whole list must have arrived, and its most pages: a million objects.
_LIST: Final = 600.0
_MOST_PAGES: Final = 2_000
#: Seconds; what asks for a longer wait than this may be gone by then.
_LONGEST_WAIT: Final = 60.0
#: Bytes of one answer, and of one event of a watch; etcd keeps no object beyond some MB.
_MOST_BYTES: Final = 2**29
_MOST_EVENT_BYTES: Final = 2**25


class ApiError(Exception):
    """The server refused, or was not reached.

    `status` is the HTTP status, 0 when no answer came: then it is not known whether the
    request was carried out. `reason` is the machine-readable word of the answer, such as
    "AlreadyExists". `retry_after` is the wait that the server advises, in seconds, at most a
    minute.
    """

    def __init__(
        self, status: int, message: str, *, reason: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(f"{status} {message}" if status else message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after

    @property
    def is_gone(self) -> bool:
        """Whether the object is gone or has changed, or another one has its name: the API server
        calls a patch with the uid of an earlier object invalid.
        """
        is_another = self.status == 422 and "metadata.uid" in self.message
        return self.status in (404, 409) or is_another


class _TooLarge(ApiError):
    """The answer is larger than the caller takes."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request as observers see it; `status` is 0 when no answer came."""

    method: str
    path: str
    status: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list. `revision` is where a watch of the whole list begins."""

    items: tuple[Body, ...]
    revision: str


class Cluster:
    """An API server. May be used by several threads; a context manager that disconnects."""

    def __init__(
        self,
        client: kubernetes.client.ApiClient,
        *,
        observe: Callable[[Call], None] = lambda call: None,
        before: Callable[[str], None] = lambda method: None,
        renewal: Renewal | None = None,
    ) -> None:
        self._client = client
        self._observe = observe
        self._before = before
        self._renewal = renewal

    @classmethod
    def connect(
        cls,
        *,
        kubeconfig: str | None = None,
        context: str | None = None,
        connections: int = 32,
        observe: Callable[[Call], None] = lambda call: None,
    ) -> Cluster:
        """The cluster of a kubeconfig, of `KUBECONFIG`, of ~/.kube/config, or the one we run in.

        The first that exists counts. Credentials that the server does not accept any more are read
        anew from there. Raises `ApiError` when none is configured.
        """
        files = kubeconfig or os.environ.get("KUBECONFIG")

        def client() -> kubernetes.client.ApiClient:
            return api_client(files, context, connections)

        try:
            connected = client()
        except NotConfiguredError as error:
            raise ApiError(0, f"no cluster is configured: {error}") from error
        return cls(connected, observe=observe, renewal=Renewal(connected, client))

    def guarded(self, before: Callable[[str], None]) -> Cluster:
        """The same cluster over the same connections. `before` is told the method of each request
        before it is sent, and may raise `ApiError` instead."""
        return Cluster(self._client, observe=self._observe, before=before, renewal=self._renewal)

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        timeout: float = _READ,
        most_bytes: int | None = None,
    ) -> Body:
        """The answer to one request. Raises `ApiError`, also when it is larger than that."""
        end = time.monotonic() + timeout
        response = self._send(method, path, query, body, content_type, timeout)
        try:
            answer = _parsed(_whole(response, end, most_bytes or _MOST_BYTES))
        except BaseException:
            # The rest of it would be taken for the next answer.
            response.close()
            raise
        response.release_conn()
        return answer

    def pages(self, resource: Resource, *, fields: str = "") -> Iterator[Page]:
        """All objects page by page, as they were at one moment.

        Raises `ApiError`; 410 when the pages took too long, and all have to be read anew.
        """
        limit, query = _PAGE, dict[str, str]()
        if fields:
            query["fieldSelector"] = fields
        # Elements of a typed list do not name their kind.
        told = {"kind": resource.kind, "apiVersion": resource.api_version}
        end = time.monotonic() + _LIST
        for _ in range(_MOST_PAGES):
            query["limit"] = str(limit)
            most = _PAGE_BYTES if limit > _LEAST_PAGE else None
            try:
                answer = self.request("GET", resource.path, query=query, most_bytes=most)
            except _TooLarge:
                if limit <= _LEAST_PAGE:
                    raise
                limit = max(limit // 4, _LEAST_PAGE)
                continue
            metadata, items = answer.get("metadata") or {}, answer.get("items") or []
            if not (
                isinstance(metadata, dict)
                and isinstance(items, list)
                and all(isinstance(item, dict) for item in items)
            ):
                raise ApiError(0, f"the answer is not a list of {resource.plural}")
            revision, following = metadata.get("resourceVersion"), metadata.get("continue")
            yield Page(tuple({**told, **item} for item in items), str(revision or ""))
            if not following:
                return
            if str(following) == query.get("continue") or time.monotonic() > end:
                break
            query["continue"] = str(following)
        raise ApiError(0, f"the list of {resource.plural} does not end")

    def watch(
        self,
        resource: Resource,
        revision: str,
        *,
        fields: str = "",
        seconds: int = 300,
        silence: float = 90.0,
    ) -> WatchStream:
        """What changes after a revision, bookmarks included, for about so many seconds.

        A stream on which nothing comes for `silence` seconds ends: it may be broken, for bookmarks
        come every minute, unless nothing has changed since the server started. Raises `ApiError`,
        also while iterating.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": revision,
            "timeoutSeconds": str(seconds),
        }
        if fields:
            query["fieldSelector"] = fields
        return WatchStream(
            self._send("GET", resource.path, query, None, "application/json", silence)
        )

    def close(self) -> None:
        """Drop the connections that are kept."""
        self._client.rest_client.pool_manager.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Any,
        content_type: str,
        timeout: float,
    ) -> Any:
        """The answer's headers have come; its body is to be read. Raises `ApiError`."""
        self._before(method)
        attempt = 0 if self._renewal is None else self._renewal.count
        response = self._sent(method, path, query, body, content_type, timeout)
        if response.status == 401 and self._renewal is not None and self._renewal.since(attempt):
            # Who is not known changes nothing, so the request may be repeated.
            response.close()
            self._before(method)
            response = self._sent(method, path, query, body, content_type, timeout)
        if response.status >= 400:
            raise _refusal(response)
        return response

    def _sent(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Any,
        content_type: str,
        timeout: float,
    ) -> Any:
        headers = {**self._client.default_headers, "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            # Renews a token that has expired, from a file or by a program.
            self._client.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        except (kubernetes.config.ConfigException, OSError) as error:
            raise ApiError(0, f"no credentials for the API server: {error}") from error
        url = self._client.configuration.host + path
        if query:
            url += "?" + urlencode(query)
        started = time.monotonic()
        status = 0
        try:
            response = self._client.rest_client.pool_manager.request(
                method,
                url,
                body=None if body is None else json.dumps(body).encode(),
                headers=headers,
                # The total covers both, or an answer could take the time twice.
                timeout=urllib3.Timeout(
                    connect=min(_CONNECT, timeout), read=timeout, total=timeout
                ),
                preload_content=False,
            )
            status = response.status
        except urllib3.exceptions.ReadTimeoutError as error:
            # Its own words name the time that was left, which is another one each time.
            raise ApiError(0, f"no answer from the API server within {timeout:.3g} s") from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ApiError(0, f"no answer from the API server: {error}") from error
        finally:
            self._observe(Call(method, path, status, time.monotonic() - started))
        return response


class WatchStream(Iterator[Body]):
    """The events of one watch; ends when the server ends it.

    `close` may be called from any thread, and ends the iteration.
    """

    def __init__(self, response: Any) -> None:
        self._response = response
        self._lines = self._split()
        self._closed = False

    def __next__(self) -> Body:
        try:
            line = next(self._lines)
        except urllib3.exceptions.ReadTimeoutError:
            raise StopIteration from None
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            if self._closed:
                raise StopIteration from None
            raise ApiError(0, f"the watch broke off: {error}") from error
        if self._closed:
            # A socket of TLS that is shut down gives out what came and is still encrypted.
            raise StopIteration
        return _parsed(line)

    def close(self) -> None:
        """End the iteration, also one that waits in another thread."""
        self._closed = True
        try:
            self._response.shutdown()
        except (RuntimeError, ValueError, OSError):
            # It has ended already.
            return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # The rest of the stream is of no use, and neither is its connection.
        self._response.close()

    def _split(self) -> Iterator[bytes]:
        rest = b""
        for chunk in self._response.stream(decode_content=True):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from filter(None, lines)
            if len(rest) > _MOST_EVENT_BYTES:
                raise ValueError(f"an event is larger than {_MOST_EVENT_BYTES} bytes")


def _whole(response: Any, end: float, most: int) -> bytes:
    """The whole answer, if it arrives by `end` and is not too large. Raises `ApiError`."""
    parts: list[bytes] = []
    size = 0
    try:
        # Not `stream`, which waits until a whole part is there.
        while chunk := response.read1(2**16, decode_content=True):
            parts.append(chunk)
            size += len(chunk)
            if size > most:
                raise _TooLarge(0, f"the answer is larger than {most} bytes")
            if time.monotonic() > end:
                raise ApiError(0, "the answer takes too long")
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise ApiError(0, f"the answer broke off: {error}") from error
    return b"".join(parts)


def _parsed(data: bytes) -> Body:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ApiError(0, "the answer is not JSON") from error
    if not isinstance(body, dict):
        raise ApiError(0, "the answer is not a JSON object")
    return body


def _refusal(response: Any) -> ApiError:
    message, reason = response.reason or "", ""
    try:
        body = _parsed(_whole(response, time.monotonic() + _CONNECT, _MOST_BYTES))
        message, reason = str(body.get("message", message)), str(body.get("reason", ""))
    except (ApiError, urllib3.exceptions.HTTPError, OSError):
        # A proxy in front of the server wrote something else; the status still tells.
        response.close()
    else:
        response.release_conn()
    wait = response.headers.get("Retry-After", "")
    return ApiError(
        response.status,
        message,
        reason=reason,
        retry_after=min(float(wait), _LONGEST_WAIT) if wait.isdecimal() else None,
    )
