"""How the server runs: read once from the environment, then fixed.

Every setting is an environment variable with ``PLACEMENT_`` in front, for
example ``PLACEMENT_PORT=50051``. Times are in seconds, sizes in bytes.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, FilePath, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from placement.near_names import did_you_mean
from placement_service.api.machine import concurrent_requests

_MIB = 1024 * 1024

PREFIX = "PLACEMENT_"

#: What a socket in the file system begins with, as gRPC names it.
UNIX = "unix:"

#: Variables of programs that share the prefix, and often the container.
_OTHERS = "PLACEMENT_CONTROLLER_"


class Settings(BaseSettings):
    """The server's settings."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    host: str = "127.0.0.1"
    """Address to listen on; `0.0.0.0` or `[::]` for all of this machine, `unix:/PATH` for a
    socket in the file system."""
    port: int = Field(default=50051, ge=0, le=65535)
    """Port to listen on; 0 takes a free one. A socket in the file system has none."""
    tls_certificate: FilePath | None = None
    """PEM file with the server's certificate chain; with `tls_key` turns TLS on."""
    tls_key: FilePath | None = None
    """PEM file with the server's private key."""
    tls_client_ca: FilePath | None = None
    """PEM file with the authorities of clients; turns on mutual TLS."""
    allow_plaintext: bool = False
    """Serves other machines without TLS: anyone who reaches the port may read and ask."""
    reflection: bool = True
    """Tells callers what the API looks like, for tools such as grpcurl."""
    max_message_bytes: int = Field(default=64 * _MIB, ge=1024)
    """Largest request and largest answer."""

    max_concurrent: int = Field(default_factory=concurrent_requests, ge=1)
    """Requests computed at once; each has a compute process with a solver of its own."""
    max_pending: int = Field(default=16, ge=0)
    """Requests that may wait for their turn; more are refused as busy."""
    max_pending_bytes: int = Field(default=256 * _MIB, ge=1024)
    """Bytes of the requests that wait or are computed; more are refused as busy."""
    snapshot_bytes: int = Field(default=256 * _MIB, ge=0)
    """Bytes of the snapshots kept for requests that say only what has changed: on the edge, and
    as much again, decoded, in each compute process; 0 keeps none."""
    max_connections: int = Field(default=256, ge=1)
    """Connections at once; more are closed."""
    max_calls_per_connection: int = Field(default=64, ge=1)
    """Calls at once on one connection; more wait in the client."""
    arrival_timeout: float = Field(default=30.0, gt=0)
    """How long a call may take to bring its request."""
    send_timeout: float = Field(default=30.0, gt=0)
    """How long a caller may take to read its answer."""
    retry_after: float = Field(default=1.0, ge=0)
    """What a refused caller is told to wait."""
    drain_grace: float = Field(default=30.0, ge=0)
    """How long running requests may go on after SIGTERM."""

    default_time_limit: float = Field(default=10.0, gt=0)
    """Time limit of requests that name none."""
    max_time_limit: float = Field(default=600.0, gt=0)
    """Longer time limits are cut to this."""
    deadline_margin: float = Field(default=0.2, ge=0)
    """How long before a call's deadline its answer leaves, at most; of short
    deadlines a tenth is kept."""

    engine: str = "placement_service.search.engine:search"
    """Function that the solver process calls, as ``module:function``; an engine
    of your own has the same signature (see `placement_service.solver_process.worker`)."""
    solver_memory: int = Field(default=0, ge=0)
    """Limit of the solver process's address space; 0 means none. It counts
    virtual memory, several times what is resident: a solver with many threads
    needs at least a few GiB."""

    dump_dir: Path | None = None
    """Folder that gets requests for replay, with their answers beside them."""
    dumps: Literal["failure", "always", "never"] = "failure"
    """Which requests are saved there: those on which the service failed, all, or none."""
    max_dump_bytes: int = Field(default=1024 * _MIB, ge=1024)
    """Bytes of all dumps; the oldest are deleted."""
    max_dumps: int = Field(default=20, ge=1)
    """Dumps kept; the oldest are deleted."""

    metrics_port: int = Field(default=0, ge=0, le=65535)
    """Port of /metrics for Prometheus, over plain HTTP; 0 serves none."""
    metrics_host: str = "127.0.0.1"
    """Address of /metrics."""

    tracing: bool = False
    """Sends traces by OpenTelemetry; its OTEL_... variables say where."""

    log_format: Literal["text", "json"] = "text"
    """Log lines for people, or one JSON object per line."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """Least severe level that is logged."""

    @field_validator("engine")
    @classmethod
    def _engine_is_there(cls, engine: str) -> str:
        module, _, function = engine.partition(":")
        # The module itself is for the solver process alone to load.
        if not (function.isidentifier() and _is_there(module)):
            raise ValueError(f"{engine!r} is no function of a module, as in module:function")
        return engine

    @field_validator("tracing")
    @classmethod
    def _tracing_is_installed(cls, tracing: bool) -> bool:
        if tracing and not _is_there("opentelemetry.exporter.otlp.proto.http"):
            raise ValueError("OpenTelemetry is missing: install placement-service[tracing]")
        return tracing

    @model_validator(mode="after")
    def _tls_is_whole(self) -> Settings:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key belong together")
        if self.tls_client_ca is not None and self.tls_certificate is None:
            raise ValueError("tls_client_ca needs tls_certificate and tls_key")
        return self

    @model_validator(mode="after")
    def _socket_is_whole(self) -> Settings:
        if self.is_unix and not self.host.removeprefix(UNIX).strip("/"):
            raise ValueError(f"host {self.host!r} names no file, as unix:/run/placement.sock does")
        if self.is_unix and self.tls_certificate is not None:
            raise ValueError("a socket in the file system needs no TLS: only this machine is there")
        return self

    @model_validator(mode="after")
    def _plaintext_for_others_is_wanted(self) -> Settings:
        if self.is_open and not self.allow_plaintext:
            raise ValueError(
                f"others can reach host {self.host!r}: set tls_certificate and tls_key, or"
                " allow_plaintext if this network is yours alone"
            )
        return self

    @property
    def is_unix(self) -> bool:
        """Whether it listens on a socket in the file system."""
        return self.host.startswith(UNIX)

    def address(self, port: int) -> str:
        """What it listens on, if that is the port."""
        return self.host if self.is_unix else f"{self.host}:{port}"

    @property
    def is_open(self) -> bool:
        """Whether other machines are served, and without TLS."""
        return self.tls_certificate is None and not _is_loopback(self.host)


def inside_another_process(*, time_limit: float, **other: Any) -> Settings:
    """Settings of a service for the process that starts it, with `other` ones. Variables of a
    deployed service may be set there, too; those of its door are not meant for this one.

    Raises ValidationError as `Settings` does.
    """
    return Settings(
        host="127.0.0.1",
        port=0,
        max_concurrent=1,
        tls_certificate=None,
        tls_key=None,
        tls_client_ca=None,
        # Nothing leaves the machine, so its size does not matter.
        max_message_bytes=2**31 - 1,
        max_time_limit=max(time_limit, 1.0),
        **other,
    )


def unknown_variables(environment: Iterable[str]) -> Iterator[str]:
    """A line for each variable that looks like a setting and is not one."""
    known = {name.upper() for name in Settings.model_fields}
    for variable in sorted(environment):
        name = variable.removeprefix(PREFIX)
        if variable.startswith(PREFIX) and name not in known and not variable.startswith(_OTHERS):
            # Without what all of them begin with, which would make them all alike.
            yield f"{variable}: no such setting{did_you_mean(name, known, prefix=PREFIX)}"


def faults(error: ValidationError) -> str:
    """A line for each wrong setting, by the name of its variable."""
    lines = []
    for one in error.errors():
        is_no_file = one["type"] == "path_not_file"
        said = f"there is no file {one['input']}" if is_no_file else one["msg"]
        where = [f"{PREFIX}{str(part).upper()}" for part in one["loc"][:1]]
        lines.append(": ".join([*where, said.removeprefix("Value error, ")]))
    return "\n".join(lines)


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.startswith(UNIX):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False
