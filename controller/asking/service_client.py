"""Asks the placement service: one request, one answer, or the reason that there is none.

Only what has changed in the cluster since the last cycle is sent (see `placement.client.Session`).
Certificates are read from files that may be replaced while we run; then the connection is made
again. A busy or absent service is not asked again here: the next cycle may have a better request.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Protocol

import grpc

from placement import v1
from placement.client import PlacementClient, tls
from placement.errors import DrainingError, InvalidRequestError, UnavailableError
from placement.handshake import tls_fault
from placement.local_snapshot import LocalSnapshot
from placement.tls_files import in_words

logger = logging.getLogger(__name__)


class Service(Protocol):
    """Answers one request, or raises `placement.errors.PlacementError`."""

    def ask(self, request: v1.ComputePlacementRequest, *, timeout: float) -> v1.Placement:
        """The answer, within `timeout` seconds."""

    def cancel(self) -> None:
        """Ends a call that is under way, from another thread; later ones fail at once."""


class ServiceClient:
    """Asks a service at an address, over TLS when `ca` is given."""

    def __init__(
        self,
        address: str,
        *,
        ca: Path | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> None:
        self._address = address
        self._ca = ca
        self._files = tuple(file for file in (ca, certificate, key) if file is not None)
        self._certificate = certificate
        self._key = key
        self._lock = threading.Lock()
        self._cluster = LocalSnapshot()
        self._client: PlacementClient | None = None
        self._stamp: tuple[int, ...] = ()
        self._complaint = ""
        self._cancelled = False

    def ask(self, request: v1.ComputePlacementRequest, *, timeout: float) -> v1.Placement:
        """The answer, within `timeout` seconds."""
        try:
            client = self._connected()
        except OSError as error:
            raise UnavailableError(f"the certificates cannot be read: {in_words(error)}") from error
        snapshot = request.snapshot
        self._cluster.replace(snapshot.nodes, snapshot.pods)
        rest = v1.ComputePlacementRequest()
        rest.CopyFrom(request)
        del rest.snapshot.nodes[:]
        del rest.snapshot.pods[:]
        end = time.monotonic() + timeout
        try:
            try:
                return client.session(self._cluster).compute(rest, timeout=timeout)
            except InvalidRequestError:
                # Its faults are to be told by their places in the request.
                return client.compute(request, timeout=max(0.0, end - time.monotonic()))
        except grpc.FutureCancelledError as error:
            raise UnavailableError("the call was cancelled") from error
        except DrainingError:
            raise
        except UnavailableError as error:
            if fault := self._tls_fault():
                raise UnavailableError(f"{error.message}; {fault}") from error
            raise

    def explain(self, request: v1.ExplainGangRequest, seconds: float) -> v1.ExplainGangResponse:
        """What would let a gang in, within about so many seconds."""
        try:
            # As much time again to send and receive: the snapshot is part of it.
            return self._connected().explain(request, timeout=2 * seconds + 1)
        except OSError as error:
            raise UnavailableError(f"the certificates cannot be read: {in_words(error)}") from error
        except (grpc.FutureCancelledError, ValueError) as error:
            raise UnavailableError("the call was cancelled") from error

    def cancel(self) -> None:
        """Ends a call that is under way, from another thread; later ones fail at once."""
        with self._lock:
            self._cancelled = True
            if self._client is not None:
                self._client.close()

    def _connected(self) -> PlacementClient:
        with self._lock:
            if self._cancelled:
                raise UnavailableError("the controller is shutting down")
            try:
                self._renew()
                self._complaint = ""
            except OSError as error:
                # Half a renewal changes nothing, as in the service.
                if self._client is None:
                    raise
                if (complaint := in_words(error)) != self._complaint:
                    logger.warning("certificates not renewed: %s", complaint)
                self._complaint = complaint
            assert self._client is not None
            return self._client

    def _renew(self) -> None:
        """Connects, and anew when the files have changed. Raises OSError when they are wrong."""
        stamp = tuple(file.stat().st_mtime_ns for file in self._files)
        if self._client is None or stamp != self._stamp:
            last = self._client
            self._client = PlacementClient(self._address, credentials=self._credentials())
            self._stamp = stamp
            if last is not None:
                last.close()

    def _tls_fault(self) -> str:
        """What is wrong with the certificates where no server was reached; gRPC hardly says."""
        if self._ca is None:
            return ""
        return tls_fault(self._address, ca=self._ca, certificate=self._certificate, key=self._key)

    def _credentials(self) -> grpc.ChannelCredentials | None:
        if self._ca is None:
            return None
        return tls(self._ca, certificate=self._certificate, key=self._key)
