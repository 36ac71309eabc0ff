"""The Kubernetes API as tests speak it: plain dictionaries over one connection pool.

Not the client of the product, and on purpose none of its code: what a test sets up
and looks at must not pass through what it tests. Nothing is retried here and every
refusal is an `ApiError`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import urllib3

from tests.waiting import wait_until

Body = dict[str, Any]

_CONNECTIONS: Final = 32
_JSON: Final = "application/json"
_MERGE: Final = "application/merge-patch+json"
_STRATEGIC: Final = "application/strategic-merge-patch+json"
_APPLY: Final = "application/apply-patch+yaml"


class ApiError(Exception):
    """The API server refused."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of objects, as its address names it."""

    api_version: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """The address of one object, or of all in a namespace, or of all."""
        root = "api" if self.api_version == "v1" else "apis"
        inside = ["namespaces", namespace] if self.namespaced and namespace else []
        parts = [root, self.api_version, *inside, self.plural, name, subresource]
        return "/" + "/".join(part for part in parts if part)


NAMESPACES: Final = Resource("v1", "namespaces", namespaced=False)
NODES: Final = Resource("v1", "nodes", namespaced=False)
PODS: Final = Resource("v1", "pods")
CONFIG_MAPS: Final = Resource("v1", "configmaps")
CORE_EVENTS: Final = Resource("v1", "events")
EVENTS: Final = Resource("events.k8s.io/v1", "events")
LEASES: Final = Resource("coordination.k8s.io/v1", "leases")
PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io/v1", "priorityclasses", namespaced=False)
POD_GANGS: Final = Resource("scheduler.grove.io/v1alpha1", "podgangs")
TOPOLOGY_BINDINGS: Final = Resource("grove.io/v1alpha1", "clustertopologybindings", False)
CRDS: Final = Resource("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
SERVICE_ACCOUNTS: Final = Resource("v1", "serviceaccounts")


class Api:
    """One API server as one user. Safe to use from many threads."""

    def __init__(self, url: str, token: str, ca_file: str | None = None) -> None:
        self.url = url
        self._headers = {"Authorization": f"Bearer {token}", "Accept": _JSON}
        self._pool = urllib3.PoolManager(
            maxsize=_CONNECTIONS, retries=False, ca_certs=ca_file, timeout=30.0
        )
        self._resources: dict[tuple[str, str], Resource] = {}
        #: The newest version that this client has written, by the name in the address.
        self._written: dict[str, int] = {}

    def close(self) -> None:
        self._pool.clear()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        parameters: Mapping[str, str] | None = None,
        content_type: str = _JSON,
    ) -> Body:
        """What the server answers. Raises `ApiError`, or urllib3's errors without an answer."""
        answer = self._pool.request(
            method,
            self.url + path + _query(parameters),
            body=None if body is None else json.dumps(body).encode(),
            headers={**self._headers, "Content-Type": content_type},
        )
        if answer.status >= 400:
            raise _error(answer.status, answer.data)
        text: str = answer.data.decode()
        found: Body = json.loads(text) if text.startswith("{") else {"text": text}
        if method != "GET":
            self._note(path, found)
        return found

    def _note(self, path: str, written: Body) -> None:
        version = int(written.get("metadata", {}).get("resourceVersion") or 0)
        for plural in {PODS.plural, POD_GANGS.plural} & set(path.split("/")):
            self._written[plural] = max(version, self._written.get(plural, 0))

    def items(
        self, resource: Resource, namespace: str | None = None, **parameters: str
    ) -> list[Body]:
        """All objects, of one namespace or of all."""
        found: list[Body] = self.listing(resource, namespace, **parameters)["items"]
        return found

    def items_once_there(self, resource: Resource) -> list[Body]:
        """All objects of a kind that is new: its watch cache may start anew once more, and
        the server says 429 until it is there."""
        found: list[Body] = []

        def is_there() -> bool:
            try:
                found[:] = self.items(resource)
            except ApiError as error:
                if error.status != 429:
                    raise
                return False
            return True

        wait_until(is_there, f"{resource.plural} are served")
        return found

    def listing(self, resource: Resource, namespace: str | None = None, **parameters: str) -> Body:
        """`items` with what stands around it, above all its revision."""
        answer = self.request("GET", resource.path(namespace), parameters=parameters)
        answer["items"] = answer["items"] or []
        return answer

    def latest(self, resource: Resource, **parameters: str) -> list[Body]:
        """All objects of all namespaces as the API server's cache has them, this client's own
        changes included; what others did, and deletions, may be missing for a moment.

        `items` misses nothing. The server answers it as soon as it is sure, which takes up
        to 100 ms when objects of other kinds were written last.
        """
        version = str(self._written.get(resource.plural, 0))
        try:
            return self.items(resource, resourceVersion=version, **parameters)
        except ApiError as error:
            if error.status != 504:
                raise
            # The cache is further behind than the server waits for.
            return self.items(resource, **parameters)

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Body:
        return self.request("GET", resource.path(namespace, name))

    def find(self, resource: Resource, name: str, namespace: str | None = None) -> Body | None:
        """`get`, or None where there is none."""
        try:
            return self.get(resource, name, namespace)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def create(self, resource: Resource, body: Body) -> Body:
        return self.request("POST", resource.path(_namespace(body)), body)

    def create_all(self, resource: Resource, bodies: Iterable[Body]) -> list[Body]:
        """`create` for many at a time, in any order; the answers are in theirs."""
        return self.each(lambda body: self.create(resource, body), bodies)

    def each(self, act: Callable[[Body], Body], bodies: Iterable[Body]) -> list[Body]:
        """Acts on many at a time. The first error is raised when all are through."""
        with ThreadPoolExecutor(_CONNECTIONS // 2) as pool:
            return list(pool.map(act, bodies))

    def replace(self, resource: Resource, body: Body, subresource: str = "") -> Body:
        path = resource.path(_namespace(body), body["metadata"]["name"], subresource)
        return self.request("PUT", path, body)

    def merge(
        self,
        resource: Resource,
        name: str,
        patch: Body,
        namespace: str | None = None,
        subresource: str = "",
    ) -> Body:
        """A JSON merge patch: lists are replaced whole."""
        path = resource.path(namespace, name, subresource)
        return self.request("PATCH", path, patch, content_type=_MERGE)

    def merge_strategically(
        self,
        resource: Resource,
        name: str,
        patch: Body,
        namespace: str | None = None,
        subresource: str = "",
    ) -> Body:
        """A strategic merge patch, of built-in kinds only: conditions are merged by type."""
        path = resource.path(namespace, name, subresource)
        return self.request("PATCH", path, patch, content_type=_STRATEGIC)

    def apply(self, body: Body, *, namespace: str | None = None) -> Body:
        """Server-side apply of an object of any kind, as `kubectl apply` would do.

        `namespace` is for objects that name none.
        """
        resource = self.resource(body["apiVersion"], body["kind"])
        path = resource.path(_namespace(body) or namespace, body["metadata"]["name"])
        parameters = {"fieldManager": "tests", "force": "true"}
        return self.request("PATCH", path, body, parameters=parameters, content_type=_APPLY)

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        grace: int | None = None,
        uid: str = "",
        revision: str = "",
    ) -> Body:
        """Delete one object, if `uid` and `revision` are still its own where they are given.
        `grace` in seconds; pods without it get their own."""
        options: Body = {}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        preconditions = {"uid": uid, "resourceVersion": revision}
        if asked := {name: value for name, value in preconditions.items() if value}:
            options["preconditions"] = asked
        return self.request("DELETE", resource.path(namespace, name), options)

    def delete_all(self, resource: Resource, namespace: str | None = None) -> None:
        """Delete all at once; of namespaced kinds those of one namespace."""
        self.request("DELETE", resource.path(namespace), {"gracePeriodSeconds": 0})

    def bind(self, pod: Body, node: str) -> None:
        """Bind as a scheduler does, provided that it is still this very pod."""
        metadata = pod["metadata"]
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata["name"], "uid": metadata["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = PODS.path(metadata["namespace"], metadata["name"], "binding")
        self.request("POST", path, body)

    def watch(
        self,
        resource: Resource,
        revision: str,
        namespace: str | None = None,
        *,
        seconds: int = 300,
        opened: Callable[[Callable[[], None]], None] = lambda _: None,
        **parameters: str,
    ) -> Iterator[Body]:
        """Events since a revision, until the server ends it. Raises `ApiError` on 410 as well.

        `opened` is given a function that breaks the watch off, from any thread.
        """
        query = {
            "watch": "true",
            "resourceVersion": revision,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
            **parameters,
        }
        answer = self._pool.request(
            "GET",
            self.url + resource.path(namespace) + _query(query),
            headers=self._headers,
            preload_content=False,
            timeout=urllib3.Timeout(connect=5.0, read=float(seconds)),
        )
        broken_off = threading.Event()

        def break_off() -> None:
            broken_off.set()
            answer.shutdown()

        with closing(answer):
            opened(break_off)
            if answer.status >= 400:
                raise _error(answer.status, answer.read())
            for line in _lines(answer):
                if broken_off.is_set():
                    # A socket of TLS that is shut down gives out what is still encrypted.
                    return
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise _error(event["object"]["code"], json.dumps(event["object"]).encode())
                yield event

    def resource(self, api_version: str, kind: str) -> Resource:
        """The address of a kind, as the server itself tells it. Raises LookupError."""
        key = api_version, kind
        if key not in self._resources:
            root = "api" if api_version == "v1" else "apis"
            for one in self.request("GET", f"/{root}/{api_version}")["resources"]:
                if "/" not in one["name"]:
                    found = Resource(api_version, one["name"], one["namespaced"])
                    self._resources[api_version, one["kind"]] = found
        return self._resources[key]


def _namespace(body: Body) -> str | None:
    namespace: str | None = body["metadata"].get("namespace")
    return namespace


def _query(parameters: Mapping[str, str] | None) -> str:
    return f"?{urlencode(parameters)}" if parameters else ""


def _error(status: int, data: bytes) -> ApiError:
    try:
        said = json.loads(data)
        return ApiError(status, said.get("reason", ""), said.get("message", ""))
    except ValueError:
        return ApiError(status, "", data.decode(errors="replace").strip())


def _lines(answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    rest = b""
    for chunk in answer.read_chunked():
        *whole, rest = (rest + chunk).split(b"\n")
        yield from filter(None, whole)
