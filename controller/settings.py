"""How the controller runs: read once from the environment and a file, then fixed.

Every setting is an environment variable with ``PLACEMENT_CONTROLLER_`` in front, for
example ``PLACEMENT_CONTROLLER_SERVICE=placement:50051``, or a key of the YAML file that
``--config`` names; the environment wins. Times are in seconds.
"""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, FilePath, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from controller.advice.composition import AdapterName
from controller.policy import TIERS, EvictionSetting, ExtrasSetting
from placement.kubernetes.files.yaml_text import Repeated, documents
from placement.near_names import did_you_mean

_PREFIX: Final = "PLACEMENT_CONTROLLER_"
#: What Kubernetes puts into the environment for a Service named placement-controller.
_SERVICE_LINK: Final = re.compile(r"(SERVICE_(HOST|PORT)|PORT)(_.*)?")


def _unknown_variables() -> list[str]:
    """A line for each variable that looks like a setting and is not one: a misspelled one must not
    be overlooked."""
    lines = []
    for variable in sorted(os.environ):
        name = variable.removeprefix(_PREFIX)
        is_known = name.lower() in Settings.model_fields or _SERVICE_LINK.fullmatch(name)
        if variable.startswith(_PREFIX) and not is_known:
            known = map(str.upper, Settings.model_fields)
            hint = did_you_mean(name, known, prefix=_PREFIX)
            lines.append(f"{variable}: no such setting{hint}")
    return lines


def _not_json() -> list[str]:
    """A line for each variable that should be a list or a mapping and cannot be read."""
    lines = []
    for name, field in Settings.model_fields.items():
        variable = f"{_PREFIX}{name.upper()}"
        if field.examples and (text := os.environ.get(variable)):
            try:
                json.loads(text)
            except ValueError:
                lines.append(f"{variable}: is not JSON, such as {field.examples[0]}")
    return lines


def faults(error: ValidationError) -> str:
    """A line for each wrong setting."""
    lines = []
    for one in error.errors():
        is_no_file = one["type"] == "path_not_file"
        said = f"there is no file {one['input']}" if is_no_file else one["msg"]
        lines.append(": ".join([*map(str, one["loc"]), said.removeprefix("Value error, ")]))
    return "\n".join(lines)


def _identity() -> str:
    """Unique among replicas, also when one is restarted under the same host name."""
    return f"{socket.gethostname()}_{os.urandom(4).hex()}"


class Settings(BaseSettings):
    """The controller's settings."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, frozen=True, extra="forbid")

    scheduler_name: str = Field(default="placement-service", min_length=1)
    """Pods with this `spec.schedulerName` are ours; no others are ever bound."""
    mode: Literal["bind", "dry-run", "advise"] = "bind"
    """What is done with a plan: bound, only logged, or given as advice to the schedulers of
    `advise`, which bind. A dry run writes nothing."""
    advise: tuple[AdapterName, ...] = Field(default=(), examples=['["kai"]'])
    """Who gets advice, with `mode: advise`."""
    advise_pool: str = ""
    """The node pool that `kai-pool` owns: the value of its label."""
    advise_kai_settle: float = Field(default=5.0, ge=0)
    """How long `kai` waits, between its BindRequests of gated pods and letting the pods go, for
    what KAI had decided before it saw them: longer than a cycle of KAI's scheduler takes."""
    advice_ttl: float = Field(default=60.0, gt=0)
    """Advice that was not followed for so long is taken back."""
    advice_timeout: float = Field(default=120.0, ge=0)
    """A gang that got no advice for so long is left to its scheduler. 0 means never."""
    kubeconfig: Path | None = None
    """Where the cluster is; by default KUBECONFIG, else the cluster that we run in."""

    service: str = ""
    """Address of the placement service, HOST:PORT or unix:/PATH; empty starts one in this
    process."""
    service_ca: FilePath | None = None
    """PEM file with the authorities of the service; turns on TLS."""
    service_certificate: FilePath | None = None
    """PEM file with our certificate chain, for mutual TLS; belongs to `service_key`."""
    service_key: FilePath | None = None
    """PEM file with our private key."""
    time_limit: float = Field(default=5.0, gt=0, le=3600)
    """How long the service may search for one answer."""
    service_patience: float = Field(default=10.0, gt=0)
    """How long beyond it a call may take, to queue, send and check."""
    remedy_time_limit: float = Field(default=2.0, ge=0, le=60)
    """How long the service may look for what would let a waiting gang in, beside all else; it
    is told with the reasons. 0 means that it is not asked."""
    deterministic: bool = False
    """Ask for answers that are the same for the same question."""

    starvation_after: float = Field(default=1800.0, ge=0)
    """Of one priority, gangs that wait longer come first. 0 means never."""
    tolerances: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field(
        default_factory=dict, examples=['{"admitted": 0.03}']
    )
    """How much of the best value of a tier, relatively, the tiers behind it may spend, by its
    name: `{"admitted": 0.03}`."""
    extras: ExtrasSetting = "after-minimums"
    """Whether pods beyond the minimum come after the minimums of all gangs, or of those of
    their priority."""
    eviction: EvictionSetting = "none"
    """Which running pods may give way: none, those of lower priority, also those of queues
    above what is guaranteed to them, or any that can be placed again."""
    eviction_timeout: float = Field(default=300.0, gt=0)
    """How long a gang waits for the room of evicted pods before it is planned anew."""
    eviction_journal: str = "placement-controller-evictions"
    """Name of the ConfigMap, in the namespace of the lease, in which evictions under way are
    written down."""

    idle_window: float = Field(default=0.3, ge=0)
    """A batch is closed when no gang has joined it for so long ..."""
    longest_window: float = Field(default=3.0, ge=0)
    """... or when its first gang has waited so long ..."""
    most_gangs: int = Field(default=1000, ge=2, le=10_000)
    """... or when it holds so many gangs."""
    shortest_backoff: float = Field(default=1.0, gt=0)
    """A gang that got no place waits so long before it is asked about again ..."""
    longest_backoff: float = Field(default=60.0, gt=0)
    """... twice as long each time, up to this. Once there is room that was not there before,
    ten times the shortest wait is the longest."""

    parallel_calls: int = Field(default=16, ge=1, le=256)
    """Requests to the API server that are under way at once while binding and reporting."""
    bind_timeout: float = Field(default=4.0, gt=0)
    """How long binding one pod is tried before its gang is planned anew."""
    half_bound_limit: float = Field(default=60.0, ge=0)
    """After so long a gang with some but too few pods bound is reported as such."""
    waiting_notice: float = Field(default=30.0, ge=0)
    """After so long a gang whose pods are missing or gated is reported as waiting."""
    failure_notice: float = Field(default=10.0, ge=0)
    """After so long without an answer from the service the gangs that wait are told so."""
    keep_gated: float = Field(default=30.0, ge=0)
    """How long room is kept for scaled gangs that Grove still holds back though their base
    runs; others of their priority or a lower one do not get it. 0 keeps none."""
    event_repeat: float = Field(default=300.0, ge=0)
    """An event with the same reason for the same object comes, or is counted up, at most this
    often."""

    leader_election: bool = True
    """Whether replicas elect one that acts."""
    lease_namespace: str = "placement-system"
    """Namespace of the lease."""
    lease_name: str = "placement-controller"
    """Name of the lease."""
    identity: str = Field(default_factory=_identity)
    """Who holds the lease; unique among replicas."""
    lease_duration: float = Field(default=15.0, gt=0)
    """A lease that was not renewed for so long may be taken over."""
    renew_deadline: float = Field(default=10.0, gt=0)
    """A leader that could not renew for so long stops acting."""
    renew_period: float = Field(default=2.0, gt=0)
    """How often the lease is renewed, or looked at."""

    crd_poll: float = Field(default=10.0, gt=0)
    """How often a kind that the cluster does not have yet is looked for."""
    watch_silence: float = Field(default=90.0, gt=0)
    """A watch on which nothing comes for so long is opened anew; bookmarks come every
    minute."""
    stuck_after: float = Field(default=300.0, gt=0)
    """A cycle that does not move for so long fails the liveness probe."""

    http_host: str = "0.0.0.0"
    """Address of /healthz, /readyz and /metrics."""
    http_port: int = Field(default=8080, ge=0, le=65535)
    """Port of them; 0 takes a free one."""
    log_format: Literal["text", "json"] = "text"
    """Log lines for people, or one JSON object per line."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """Least severe level that is logged."""

    @property
    def binds(self) -> bool:
        """Whether plans are carried out."""
        return self.mode == "bind"

    @property
    def writes(self) -> bool:
        """Whether anything is written to the cluster."""
        return self.mode != "dry-run"

    @field_validator("service")
    @classmethod
    def _service_is_an_address(cls, service: str) -> str:
        # A name alone would be asked at the port of HTTPS.
        if service and not service.partition(":")[2]:
            raise ValueError(f"{service!r} is not an address HOST:PORT or unix:/PATH")
        return service

    @model_validator(mode="after")
    def _advice_is_for_somebody(self) -> Settings:
        if (self.mode == "advise") != bool(self.advise):
            raise ValueError("mode advise and the setting advise belong together")
        if ("kai-pool" in self.advise) != bool(self.advise_pool):
            raise ValueError("advise_pool and the adapter kai-pool belong together")
        if "kai" in self.advise and self.advise_kai_settle >= self.advice_ttl:
            raise ValueError("advise_kai_settle must be less than advice_ttl")
        return self

    @model_validator(mode="after")
    def _tls_is_whole(self) -> Settings:
        if (self.service_certificate is None) != (self.service_key is None):
            raise ValueError("service_certificate and service_key belong together")
        if self.service_certificate is not None and self.service_ca is None:
            raise ValueError("service_certificate and service_key need service_ca")
        if self.service_ca is not None and not self.service:
            raise ValueError("service_ca is for a service elsewhere: set service")
        return self

    @model_validator(mode="after")
    def _tolerances_are_of_tiers(self) -> Settings:
        if unknown := sorted(self.tolerances.keys() - TIERS):
            raise ValueError(f"tolerances: there is no tier {unknown[0]}; one of {sorted(TIERS)}")
        return self

    @model_validator(mode="after")
    def _backoff_grows(self) -> Settings:
        if self.longest_backoff < self.shortest_backoff:
            raise ValueError("longest_backoff must not be less than shortest_backoff")
        return self

    @model_validator(mode="after")
    def _asking_is_not_being_stuck(self) -> Settings:
        if self.time_limit + self.service_patience >= self.stuck_after:
            raise ValueError("time_limit + service_patience must be less than stuck_after")
        return self

    @model_validator(mode="after")
    def _lease_outlives_its_leader(self) -> Settings:
        if not self.renew_period < self.renew_deadline < self.lease_duration:
            raise ValueError("renew_period < renew_deadline < lease_duration must hold")
        if self.renew_deadline + self.bind_timeout >= self.lease_duration:
            # What a leader sent last has ended before the next one begins.
            raise ValueError("renew_deadline + bind_timeout must be less than lease_duration")
        return self

    @classmethod
    def load(cls, file: Path | None) -> Settings:
        """The settings of the environment and of a file, if one is named.

        Raises ValueError, of which pydantic's ValidationError is one, and OSError or
        yaml.YAMLError for the file.
        """
        problems = [*_unknown_variables(), *_not_json()]
        content: dict[str, Any] = {}
        if file is not None:
            content, repeated = _read(file)
            problems += [f"{one.key}: is there twice, again in line {one.line}" for one in repeated]

        class FromFile(Settings):
            @classmethod
            def settings_customise_sources(
                cls,
                settings_cls: type[BaseSettings],
                init_settings: PydanticBaseSettingsSource,
                env_settings: PydanticBaseSettingsSource,
                dotenv_settings: PydanticBaseSettingsSource,
                file_secret_settings: PydanticBaseSettingsSource,
            ) -> tuple[PydanticBaseSettingsSource, ...]:
                return (env_settings, InitSettingsSource(settings_cls, content))

        try:
            settings = FromFile()
        except SettingsError as error:
            raise ValueError("\n".join(problems) or str(error)) from error
        except ValidationError as error:
            if not problems:
                raise
            raise ValueError("\n".join([*problems, faults(error)])) from error
        if problems:
            raise ValueError("\n".join(problems))
        return settings


def _read(file: Path) -> tuple[dict[str, Any], list[Repeated]]:
    """The keys of a file, and those that are there twice. Raises as `Settings.load` does."""
    repeated: list[Repeated] = []
    try:
        found = list(documents(file.read_text("utf-8-sig"), repeated))
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: is not text in UTF-8") from error
    except RecursionError as error:
        raise ValueError(f"{file}: is nested too deeply") from error
    content = found[0] if found and found[0] is not None else {}
    if len(found) > 1 or not isinstance(content, dict):
        raise ValueError(f"{file}: must be one mapping of settings")
    return {str(key): value for key, value in content.items()}, repeated
