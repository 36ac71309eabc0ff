"""The server around the service: ports, TLS, health, reflection, and a quiet end."""

from __future__ import annotations

import logging
import threading
import time
from concurrent import futures
from importlib import metadata
from importlib.util import find_spec

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from placement.v1 import placement_service_pb2, placement_service_pb2_grpc
from placement_service.api.admission import Admission
from placement_service.api.certificates import server_credentials
from placement_service.api.dumps import Dumps
from placement_service.api.service import PlacementServicer
from placement_service.api.settings import Settings
from placement_service.explain.gang_reasons import explain
from placement_service.formulation.formulate import formulate
from placement_service.heuristic.first_answer import first_answer
from placement_service.judge.score import score
from placement_service.judge.verify import verify
from placement_service.pipeline import Stages
from placement_service.solver_process.pool import SolverPool

logger = logging.getLogger(__name__)

SERVICE_NAME = placement_service_pb2.DESCRIPTOR.services_by_name["PlacementService"].full_name

#: Threads beyond those of admitted calls: for refusals, health and reflection.
_SPARE_THREADS = 8


class Server:
    """A placement server with its solver processes.

    The processes start with the object, so that they are warm by the first call.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.pool = SolverPool(
            settings.max_concurrent, engine=settings.engine, memory_bytes=settings.solver_memory
        )
        self._admission = Admission(
            max_concurrent=settings.max_concurrent,
            max_pending=settings.max_pending,
            retry_after_seconds=settings.retry_after,
        )
        self._health = health.HealthServicer()
        threads = settings.max_concurrent + settings.max_pending + _SPARE_THREADS
        self._grpc = grpc.server(
            futures.ThreadPoolExecutor(threads, thread_name_prefix="call"),
            options=[
                ("grpc.max_receive_message_length", settings.max_message_bytes),
                ("grpc.max_send_message_length", settings.max_message_bytes),
                # A second server on the same port is a mistake, not a helper.
                ("grpc.so_reuseport", 0),
            ],
        )
        servicer = PlacementServicer(
            settings,
            stages=Stages(
                formulate=formulate,
                first_answer=first_answer,
                search=self.pool.search,
                verify=verify,
                score=score,
                explain=explain,
                engine=_engine_version(settings.engine),
            ),
            admission=self._admission,
            dumps=Dumps(settings.dump_dir, settings.max_dumps),
        )
        placement_service_pb2_grpc.add_PlacementServiceServicer_to_server(servicer, self._grpc)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._grpc)
        self._names = (SERVICE_NAME, *self._add_kubernetes(servicer))
        reflection.enable_server_reflection(
            (*self._names, health.SERVICE_NAME, reflection.SERVICE_NAME), self._grpc
        )
        self._set_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        self._stopped = threading.Event()

    def start(self) -> int:
        """Listens and serves; returns the port. Raises RuntimeError when it is taken."""
        address = f"{self.settings.host}:{self.settings.port}"
        credentials = server_credentials(self.settings)
        try:
            if credentials is None:
                port = self._grpc.add_insecure_port(address)
            else:
                port = self._grpc.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise RuntimeError(f"cannot listen on {address} (PLACEMENT_PORT)") from error
        self._grpc.start()
        self._set_health(health_pb2.HealthCheckResponse.SERVING)
        logger.info("serving on %s:%d", self.settings.host, port)
        return port

    def drain(self) -> None:
        """Refuses new calls as draining; those that run go on."""
        self._set_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        self._admission.drain()

    def stop(self, grace: float) -> None:
        """Drains for at most `grace` seconds, then cancels what still runs. Idempotent."""
        end = time.monotonic() + grace
        self.drain()
        # While the last ones run, newcomers are told to go elsewhere. gRPC's own
        # stop would refuse them without a reason.
        self._admission.wait_until_empty(grace)
        self._grpc.stop(max(0.0, end - time.monotonic())).wait()
        self.pool.close()
        self._stopped.set()

    def wait(self) -> None:
        """Returns once `stop` is done."""
        self._stopped.wait()

    def _add_kubernetes(self, servicer: PlacementServicer) -> tuple[str, ...]:
        """Serves Kubernetes objects too, and returns the names of what does.

        The library that translates them is optional: without it nothing is added.
        """
        if find_spec("yaml") is None:
            logger.info("PyYAML is not installed: Kubernetes objects are not served")
            return ()
        from placement.kubernetes.v1 import kubernetes_placement_service_pb2_grpc
        from placement_service.api import kubernetes

        kubernetes_placement_service_pb2_grpc.add_KubernetesPlacementServiceServicer_to_server(
            kubernetes.KubernetesPlacementServicer(servicer, self._admission), self._grpc
        )
        return (kubernetes.SERVICE_NAME,)

    def _set_health(self, status: health_pb2.HealthCheckResponse.ServingStatus) -> None:
        for name in ("", *self._names):
            self._health.set(name, status)


def make_server(settings: Settings | None = None) -> Server:
    """A server that is not listening yet; settings come from the environment."""
    return Server(Settings() if settings is None else settings)


def _engine_version(engine: str) -> str:
    """Name and versions, found without loading the solver into this process."""
    versions = [f"{name} {metadata.version(name)}" for name in ("placement-service", "ortools")]
    return f"{engine} ({', '.join(versions)})"
