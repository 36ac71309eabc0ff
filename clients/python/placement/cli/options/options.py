"""Options that several commands share. Those that belong together are declared together, and a
command gets them as one value: `Source` says where the objects come from, `Service` which service
answers, `WhatIf` what should differ from the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from functools import wraps
from typing import Any, Final, TypeVar

import click

from placement.cli.options.every_mistake import checked
from placement.cli.options.option_values import (
    Addition,
    GangName,
    Setting,
    addition,
    address,
    duration,
    freeing,
    gang_name,
    moment,
    other_limit,
    other_priority,
)

DEFAULT_TIME_LIMIT: Final = 10.0

Callback = Callable[..., Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Source:
    """Where the objects come from, and how strictly they are read."""

    files: tuple[str, ...]
    live: bool
    kubeconfig: str | None
    context: str | None
    scheduler_name: str
    strict: bool
    as_of: datetime | None
    plain_gangs: bool


@dataclass(frozen=True, slots=True)
class Service:
    """Which service answers, by when and by which policy. Without `server` the command starts its
    own.
    """

    server: str | None
    tls_ca: str | None
    tls_certificate: str | None
    tls_key: str | None
    time_limit: float
    policy: str | None


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What should differ from the input."""

    cordon: tuple[str, ...]
    drain: tuple[str, ...]
    without: tuple[GangName, ...]
    evict: str | None
    priority: tuple[Setting, ...] = ()
    gpu_limit: tuple[Setting, ...] = ()
    add: tuple[Addition, ...] = ()


class _Type(click.ParamType[object]):
    """A type that is a function, which raises ValueError with what is wrong."""

    def __init__(self, name: str, read: Callable[[str], object]) -> None:
        self.name = name
        self._read = read

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _bundle(
    kind: type[T], name: str, check: Callable[[T], Iterator[str]], *options: Any
) -> Callable[[Callback], Callback]:
    """A decorator that adds the options, and hands their values over as one `kind`. The check says
    which of them do not go together.
    """
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]

    def bundle(values: Mapping[str, Any]) -> T:
        return kind(**{n: values[n] for n in names if n in values})

    def decorate(command: Callback) -> Callback:
        @wraps(command)
        def call(**values: Any) -> Any:
            others = {n: value for n, value in values.items() if n not in names}
            return command(**others, **{name: bundle(values)})

        decorated: Callback = checked(lambda values: check(bundle(values)))(call)
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


def _check_service(service: Service) -> Iterator[str]:
    if not service.server and any((service.tls_ca, service.tls_certificate, service.tls_key)):
        yield "--tls-ca, --tls-certificate and --tls-key go with --server"
    if bool(service.tls_certificate) != bool(service.tls_key):
        yield "--tls-certificate and --tls-key belong together"
    if service.tls_key and not service.tls_ca:
        yield "--tls-certificate and --tls-key need --tls-ca"


def _check_source(source: Source) -> Iterator[str]:
    if source.live and source.files:
        yield "--live and files exclude each other"
    if not source.live and not source.files:
        yield "name files with -f, or the current cluster with --live"
    if not source.live and (source.kubeconfig or source.context or source.scheduler_name):
        yield "--kubeconfig, --context and --scheduler-name go with --live"


def _check_files(values: Mapping[str, Any]) -> Iterator[str]:
    if values["more_files"] and not values["files"]:
        yield f"unexpected argument {values['more_files'][0]!r}; files follow -f"


def files(command: Callback) -> Callback:
    """``-f FILE...``: one or several after each ``-f``."""

    @checked(_check_files)
    @wraps(command)
    def call(files: tuple[str, ...], more_files: tuple[str, ...], **values: Any) -> Any:
        return command(files=files + more_files, **values)

    path = click.Path(allow_dash=True)
    decorated = click.argument("more_files", metavar="", nargs=-1, type=path)(call)
    return click.option(
        "-f",
        "--filename",
        "files",
        metavar="FILE...",
        multiple=True,
        type=path,
        help="Files or folders of Kubernetes objects in YAML or JSON, also compressed, KAI's"
        " snapshot archives, or - for standard input. May be repeated.",
    )(decorated)


cluster = (
    click.option(
        "--kubeconfig",
        metavar="FILE",
        type=click.Path(),
        help="How to reach the cluster, as for kubectl.",
    ),
    click.option("--context", metavar="NAME", help="The context of the kubeconfig."),
)

strict = click.option(
    "--strict", is_flag=True, help="Unknown fields and kinds are errors, not warnings."
)

source = _bundle(
    Source,
    "source",
    _check_source,
    files,
    click.option("--live", is_flag=True, help="Read the current cluster instead; nothing changes."),
    *cluster,
    click.option(
        "--scheduler-name",
        metavar="NAME",
        default="",
        help="With --live: only pods of this scheduler.",
    ),
    strict,
    click.option(
        "--as-of",
        metavar="TIME",
        type=_Type("time", moment),
        help="What waiting and run times count to (default: the newest time in the input).",
    ),
    click.option(
        "--plain-gangs",
        is_flag=True,
        help="Jobs, Deployments and StatefulSets without pods in the input are gangs, too.",
    ),
)

service = _bundle(
    Service,
    "service",
    _check_service,
    click.option(
        "--server",
        metavar="HOST:PORT",
        type=_Type("address", address),
        help="Ask this service, also at unix:/PATH; without it the command starts one inside"
        " itself.",
    ),
    click.option(
        "--tls-ca",
        metavar="FILE",
        type=click.Path(),
        help="PEM file with the service's authorities; turns on TLS.",
    ),
    click.option(
        "--tls-certificate", metavar="FILE", type=click.Path(), help="PEM file for mutual TLS."
    ),
    click.option(
        "--tls-key", metavar="FILE", type=click.Path(), help="PEM file with the certificate's key."
    ),
    click.option(
        "--time-limit",
        metavar="DURATION",
        type=_Type("duration", duration),
        default=DEFAULT_TIME_LIMIT,
        show_default="10s",
        help="Answer within this time, such as 500ms, 10s or 1m30s.",
    ),
    click.option(
        "--policy",
        metavar="FILE",
        type=click.Path(),
        help="YAML or JSON with fields of the API's policy, such as 'deterministic: true'.",
    ),
)

_changes = (
    click.option(
        "--cordon", metavar="SELECTOR", multiple=True, help="Close these nodes for new pods."
    ),
    click.option(
        "--drain",
        metavar="SELECTOR",
        multiple=True,
        help="Close these nodes; what runs there waits again.",
    ),
    click.option(
        "--without",
        metavar="GANG",
        multiple=True,
        type=_Type("gang", gang_name),
        help="Leave out this NAMESPACE/NAME and its pods.",
    ),
    click.option(
        "--evict",
        type=click.Choice(["none", "preempt", "reclaim", "repack"]),
        help="What may give way to what waits.",
    ),
    click.option(
        "--priority",
        metavar="GANG=NUMBER",
        multiple=True,
        type=_Type("priority", other_priority),
        help="Give this NAMESPACE/NAME another priority.",
    ),
    click.option(
        "--gpu-limit",
        metavar="QUEUE=GPUS",
        multiple=True,
        type=_Type("limit", other_limit),
        help="Let this queue run so many GPUs.",
    ),
)

what_if = _bundle(
    WhatIf,
    "what_if",
    lambda _: iter(()),
    *_changes,
    click.option(
        "--add",
        metavar="COUNT=NODE",
        multiple=True,
        type=_Type("addition", addition),
        help="Add empty nodes like NODE, or domains like LEVEL:VALUE.",
    ),
)

#: The same where `--add` means something else.
what_if_changes = _bundle(WhatIf, "what_if", lambda _: iter(()), *_changes)


_AS_ALL_TAKE: Final = {
    "--server": _Type("address", address),
    "--time-limit": _Type("duration", duration),
    "--policy": click.Path(),
    "--as-of": _Type("time", moment),
    "--strict": None,
}


def without_effect(*names: str) -> Callable[[Callback], Callback]:
    """Options that all commands take, where they have nothing to do: a script gives them alike."""

    def decorate(command: Callback) -> Callback:
        for name in names:
            kind = _AS_ALL_TAKE[name]
            command = click.option(
                name, type=kind, is_flag=kind is None, hidden=True, expose_value=False
            )(command)
        return command

    return decorate


def gang(*, required: bool) -> Callable[[Callback], Callback]:
    """``--gang``: the gang that is asked about."""
    return click.option(
        "--gang",
        metavar="NAMESPACE/NAME",
        required=required,
        type=_Type("gang", gang_name),
        help="The gang that is asked about.",
    )


gangs = click.option(
    "--gang",
    metavar="NAMESPACE/NAME",
    multiple=True,
    type=_Type("gang", gang_name),
    help="The gang that is copied; several, with --add, make a table.",
)

free = click.option(
    "--free",
    metavar="LEVEL=COUNT",
    required=True,
    type=_Type("domains", freeing),
    help="So many domains of this level must hold no GPU pod.",
)


def output(*forms: str) -> Callable[[Callback], Callback]:
    """``-o``: the first form is the default."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(forms),
        default=forms[0],
        show_default=True,
        help="The form of the answer.",
    )
