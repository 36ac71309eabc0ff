"""``python -m placement_service.api.healthcheck``: is the service on this machine healthy?

For probes where the kubelet's own gRPC probe cannot be used, because it does not support TLS. It
takes address and certificates from the service's settings, and presents the service's own
certificate.
"""

from __future__ import annotations

import argparse
import sys

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from placement_service.api.settings import Settings

#: A proxy of the environment has another machine as its own.
_OPTIONS = (("grpc.enable_http_proxy", 0),)

#: Hosts that stand for all addresses of the machine, and those that are the same for everybody.
_ANY = frozenset({"0.0.0.0", "::", "[::]", "localhost", "127.0.0.1", "::1", "[::1]"})


def main() -> None:
    """Ends with status 0 when the service is healthy, else with 1 and the reason."""
    parser = argparse.ArgumentParser(prog="placement_service.api.healthcheck", description=__doc__)
    parser.add_argument(
        "--alive", action="store_true", help="any answer will do, also that it is draining"
    )
    parser.add_argument("--timeout", type=float, default=3.0, help="seconds (default 3)")
    options = parser.parse_args()
    why = why_unhealthy(Settings(), timeout=options.timeout, alive=options.alive)
    if why:
        sys.exit(why)


def why_unhealthy(settings: Settings, *, timeout: float, alive: bool = False) -> str:
    """Why the service is not healthy; empty when it is."""
    with _channel(settings) as channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(), timeout=timeout
            )
        except grpc.RpcError as error:
            return f"no answer: {error.code().name}: {error.details()}"
    if alive or answer.status == health_pb2.HealthCheckResponse.SERVING:
        return ""
    name: str = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    return name


def _channel(settings: Settings) -> grpc.Channel:
    # Who listens on all addresses, also does on this one.
    is_any = settings.host in _ANY
    address = f"localhost:{settings.port}" if is_any else settings.address(settings.port)
    if settings.tls_certificate is None or settings.tls_key is None:
        return grpc.insecure_channel(address, options=_OPTIONS)
    own = settings.tls_certificate.read_bytes()
    # Without an authority of clients only the certificate itself can be trusted.
    roots = own if settings.tls_client_ca is None else settings.tls_client_ca.read_bytes()
    return grpc.secure_channel(
        address,
        grpc.ssl_channel_credentials(
            root_certificates=roots,
            private_key=settings.tls_key.read_bytes(),
            certificate_chain=own,
        ),
        # By whatever address it is reached, the certificate is to name this one.
        options=(*_OPTIONS, ("grpc.ssl_target_name_override", "localhost")),
    )


if __name__ == "__main__":
    main()
