"""The server around the service: its event loop, ports, TLS, health, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import TypeVar

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from placement import __version__
from placement_service.api.admission import Admission
from placement_service.api.certificates import Certificates, read_certificates
from placement_service.api.compute.pool import ComputePool
from placement_service.api.dumps import Dumps
from placement_service.api.health import Health
from placement_service.api.metrics import Metrics
from placement_service.api.service import PlacementCalls
from placement_service.api.settings import UNIX, Settings
from placement_service.api.snapshots.store import SnapshotStore
from placement_service.api.tracing import open_tracing

logger = logging.getLogger(__name__)

#: Seconds between two looks at the files of certificates.
RENEWAL_SECONDS = 1.0

#: Seconds: for the handshake of a connection, for an answer to a ping, until it is closed as idle,
#: and its greatest age.
HANDSHAKE, PING_EVERY, PING_ANSWER, IDLE, OLD = 10, 30, 15, 15 * 60, 60 * 60

#: Seconds before the end of the grace when what still runs answers with the best it has.
_LAST = 1.0

_T = TypeVar("_T")


class Server:
    """A placement server with its compute processes.

    The processes start with the object, so that they are warm by the first call. It works in
    a thread of its own; these methods may be called from any other.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="edge", daemon=True)
        self._thread.start()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._edge = self._call(_made(settings))

    def start(self) -> int:
        """Listens and serves; returns the port.

        Raises RuntimeError when it is taken, and OSError when certificates cannot be used.
        """
        return self._call(self._edge.start())

    def drain(self) -> None:
        """Refuses new calls as draining; those that run go on."""
        self._loop.call_soon_threadsafe(self._edge.drain)

    def stop(self, grace: float) -> None:
        """Drains for at most `grace` seconds, then cancels what still runs. Idempotent."""
        with self._lock:
            if self._stopped.is_set():
                return
            self._call(self._edge.stop(grace))
            self._call(self._loop.shutdown_default_executor())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._stopped.set()

    def wait(self) -> None:
        """Returns once `stop` is done."""
        self._stopped.wait()

    def wait_until_ready(self, timeout: float) -> bool:
        """Whether some process could answer, after so many seconds at most."""

        async def ready() -> bool:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    return await self._edge.pool.ready.wait()
            return False

        return self._call(ready())

    def wait_until_warm(self, timeout: float) -> bool:
        """Whether some process could search at once, after so many seconds at most."""

        async def warm() -> bool:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    while not self._edge.pool.warm_count():
                        await asyncio.sleep(0.02)
                    return True
            return False

        return self._call(warm())

    def process_ids(self) -> tuple[int, ...]:
        """The compute processes that run, busy ones included."""
        return self._edge.pool.process_ids()

    def _call(self, work: Coroutine[None, None, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def make_server(settings: Settings | None = None) -> Server:
    """A server that is not listening yet; settings come from the environment."""
    return Server(Settings() if settings is None else settings)


async def _made(settings: Settings) -> _Edge:
    return _Edge(settings)


class _Edge:
    """What runs on the event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._metrics = Metrics()
        self._snapshots = SnapshotStore(settings.snapshot_bytes)
        self._tracing = open_tracing(settings.tracing)
        self.pool = ComputePool(
            settings.max_concurrent,
            [
                *("--engine", settings.engine),
                *("--solver-memory", str(settings.solver_memory)),
                *("--largest-answer", str(settings.max_message_bytes)),
                *("--snapshots", str(settings.snapshot_bytes)),
            ],
            on_end=self._metrics.deaths.inc,
            on_whole=self._snapshots.keep,
        )
        self.pool.open()
        self._admission = Admission(
            places=settings.max_concurrent + settings.max_pending,
            pending=settings.max_pending,
            held_bytes=settings.max_pending_bytes,
            arriving=_arriving(settings),
            retry_after_seconds=settings.retry_after,
            arrival_seconds=settings.arrival_timeout,
        )
        self._calls = PlacementCalls(
            settings,
            pool=self.pool,
            admission=self._admission,
            snapshots=self._snapshots,
            dumps=Dumps(
                None if settings.dumps == "never" else settings.dump_dir,
                settings.max_dumps,
                settings.max_dump_bytes,
            ),
            metrics=self._metrics,
            tracing=self._tracing,
        )
        self._watch()
        self._health = Health(("", *self._calls.service_names))
        self._listeners: set[grpc.aio.Server] = set()
        self._background: set[asyncio.Task[None]] = set()

    def _watch(self) -> None:
        """Lets the metrics read values that change by themselves."""
        metrics, pool = self._metrics, self.pool
        metrics.present.set_function(lambda: self._admission.present)
        metrics.held.set_function(lambda: self._admission.held_bytes)
        metrics.kept.set_function(lambda: len(self._snapshots))
        metrics.kept_bytes.set_function(lambda: self._snapshots.bytes)
        metrics.processes.labels("idle").set_function(pool.idle_count)
        metrics.processes.labels("busy").set_function(
            lambda: len(pool.process_ids()) - pool.idle_count()
        )

    async def start(self) -> int:
        certificates = read_certificates(self._settings)
        if self._settings.is_unix:
            _demand_unused(self._settings.host)
        elif certificates is not None:
            # The next listener of this server may share its port; that of another program is a
            # mistake.
            _demand_free(self._settings.host, self._settings.port)
        if self._settings.is_open:
            logger.warning(
                "serving other machines without TLS: anyone who reaches the port may read and ask"
            )
        if self._settings.metrics_port:
            self._metrics.serve(self._settings.metrics_host, self._settings.metrics_port)
        port = await self._listen(self._settings.port, certificates)
        if certificates is not None:
            self._show(certificates)
            self._in_background(self._renew(port, certificates))
        self._in_background(self._serve_when_ready())
        logger.info("version %s, serving on %s", __version__, self._settings.address(port))
        return port

    async def _serve_when_ready(self) -> None:
        """Reports healthy once a process is ready; until then calls go to another replica."""
        await self.pool.ready.wait()
        if not self._admission.draining:
            self._health.set(health_pb2.HealthCheckResponse.SERVING)

    def drain(self) -> None:
        self._health.set(health_pb2.HealthCheckResponse.NOT_SERVING)
        self._admission.drain()

    async def stop(self, grace: float) -> None:
        end = self._loop_time() + grace
        self.drain()
        # While the last calls run, new ones are told to go elsewhere. gRPC's own stop would refuse
        # them without a reason.
        await self._admission.wait_until_empty(grace - min(_LAST, grace / 2))
        self._calls.hurry()
        await self._admission.wait_until_empty(max(0.0, end - self._loop_time()))
        for task in tuple(self._background):
            task.cancel()
        left = max(0.0, end - self._loop_time())
        await asyncio.gather(*(listener.stop(left) for listener in tuple(self._listeners)))
        await asyncio.gather(*self._background, return_exceptions=True)
        await self.pool.close()
        await asyncio.to_thread(self._metrics.close)
        await asyncio.to_thread(self._tracing.close)

    async def _listen(self, port: int, certificates: Certificates | None) -> int:
        """Serves on a port; returns it. Raises RuntimeError when it is taken."""
        settings = self._settings
        most_calls = settings.max_connections * settings.max_calls_per_connection
        listener = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", settings.max_message_bytes),
                # Answers are smaller; what is around them takes a few bytes.
                ("grpc.max_send_message_length", min(settings.max_message_bytes + 64, 2**31 - 1)),
                # A second server on the same port is a mistake, not a helper; but with TLS
                # the next listener takes over while the last one ends.
                ("grpc.so_reuseport", int(certificates is not None)),
                ("grpc.max_allowed_incoming_connections", settings.max_connections),
                ("grpc.max_concurrent_streams", settings.max_calls_per_connection),
                # gRPC would cancel some of 1,000 calls that begin at once, of any caller, and
                # probes of health among them. Here every call is heard, and refused with a reason.
                ("grpc.server.max_pending_requests", most_calls),
                ("grpc.server.max_pending_requests_hard_limit", most_calls),
                ("grpc.server_handshake_timeout_ms", HANDSHAKE * 1000),
                ("grpc.keepalive_time_ms", PING_EVERY * 1000),
                ("grpc.keepalive_timeout_ms", PING_ANSWER * 1000),
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
                # Data that nobody reads yet must not arrive: without this gRPC buffers more and
                # more of it.
                ("grpc.http2.bdp_probe", 0),
                ("grpc.max_connection_idle_ms", IDLE * 1000),
                ("grpc.max_connection_age_ms", OLD * 1000),
                (
                    "grpc.max_connection_age_grace_ms",
                    int((settings.max_time_limit + settings.arrival_timeout) * 1000),
                ),
            ]
        )
        listener.add_generic_rpc_handlers(self._calls.handlers())
        health_pb2_grpc.add_HealthServicer_to_server(self._health, listener)
        if settings.reflection:
            reflection.enable_server_reflection(
                (*self._calls.service_names, health.SERVICE_NAME, reflection.SERVICE_NAME), listener
            )
        address = settings.address(port)
        try:
            if certificates is None:
                bound: int = listener.add_insecure_port(address)
            else:
                bound = listener.add_secure_port(address, certificates.credentials())
        except RuntimeError as error:
            variable = "PLACEMENT_HOST" if settings.is_unix else "PLACEMENT_PORT"
            raise RuntimeError(f"cannot listen on {address} ({variable})") from error
        await listener.start()
        self._listeners.add(listener)
        return bound

    async def _renew(self, port: int, certificates: Certificates) -> None:
        """Puts a new listener in place of the last one when the files have changed.

        gRPC can also ask for certificates with each connection, but then it changes what other
        connections are using: servers crashed.
        """
        complaint = refused = ""
        while True:
            last_refused, refused = refused, certificates.why_refused(datetime.now(UTC))
            if refused and refused != last_refused:
                logger.warning("%s", refused)
            await asyncio.sleep(RENEWAL_SECONDS)
            try:
                found = await asyncio.to_thread(read_certificates, self._settings)
                if found is None or found == certificates:
                    continue
                last = tuple(self._listeners)
                await self._listen(port, found)
            except (OSError, RuntimeError) as error:
                if str(error) != complaint:
                    self._metrics.renewals.labels("refused").inc()
                    logger.warning("certificates not renewed: %s", error)
                complaint = str(error)
                continue
            complaint = ""
            certificates = found
            self._metrics.renewals.labels("renewed").inc()
            logger.info("certificates renewed")
            self._show(found)
            for listener in last:
                self._in_background(self._retire(listener))

    def _show(self, certificates: Certificates) -> None:
        """Tells how long a certificate is good that callers see from now on."""
        end = certificates.dates().end
        self._metrics.expiry.set(end.timestamp())
        logger.info("certificate valid until %s", end.isoformat())

    async def _retire(self, listener: grpc.aio.Server) -> None:
        """Ends a listener: its callers connect anew, and calls that run go on."""
        await listener.stop(self._settings.max_time_limit + self._settings.arrival_timeout)
        self._listeners.discard(listener)

    def _in_background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _loop_time(self) -> float:
        return asyncio.get_running_loop().time()


def _arriving(settings: Settings) -> int:
    """Requests that may arrive at once: as many as the bytes that may wait, if all are large."""
    return max(2, min(8, settings.max_pending_bytes // settings.max_message_bytes))


def _demand_free(host: str, port: int) -> None:
    """Raises RuntimeError when somebody listens on the port."""
    if not port:
        return
    try:
        for family, kind, *_, address in socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            with socket.socket(family, kind) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
    except OSError as error:
        raise RuntimeError(f"cannot listen on {host}:{port} (PLACEMENT_PORT)") from error


def _demand_unused(host: str) -> None:
    """Raises RuntimeError when somebody listens on the socket: gRPC would take it away from them.
    A file that a killed server left is replaced.
    """
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(host.removeprefix(UNIX).removeprefix("//"))
        except OSError:
            return
    raise RuntimeError(f"cannot listen on {host} (PLACEMENT_HOST): another server does")
