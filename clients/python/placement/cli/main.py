"""`placementctl`: files in, an answer out; problems on standard error.

Exit status 0: an answer was computed. 2: the input or the arguments are wrong.
3: the service, or the cluster, could not answer. 130: interrupted. Standard output holds the
answer alone. What a command does not need, it does not import.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from typing import IO, TYPE_CHECKING, Any

from placement.cli import arguments

if TYPE_CHECKING:
    from placement.v1 import ComputePlacementRequest, Placement

OK = 0
WRONG_INPUT = 2
NO_ANSWER = 3
INTERRUPTED = 130

#: Seconds that a service may take beyond the time limit, to queue, send and check.
PATIENCE = 30.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    options = arguments.parse(argv)
    try:
        status = _COMMANDS[options.command](options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever reads has enough, as `head` does. Python flushes once more when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    return status


def _plan(options: argparse.Namespace) -> int:
    from placement.cli.policy import read_policy
    from placement.kubernetes import InputError, Objects, Problem, load, translate

    # 1. A service to ask. Its own one warms up while the input is read.
    with _service(options) as address:
        # 2. The question, or everything that is wrong with it.
        if options.live:
            live = _live(options, scheduler_name=options.scheduler_name)
            if live is None:
                return NO_ANSWER
            objects = Objects.of(live, file="the cluster")
        else:
            objects = load(options.files, stdin=_stdin())
        problems: list[Problem] = []
        try:
            policy = read_policy(options.policy) if options.policy else None
        except InputError as error:
            problems += error.problems
        try:
            translation = translate(objects)
        except InputError as error:
            problems += error.problems
        if problems:
            _warn(objects.warnings)
            _complain(str(problem) for problem in problems)
            return WRONG_INPUT
        _warn(translation.warnings)
        request = translation.request
        request.time_limit.FromNanoseconds(round(options.time_limit * 1e9))
        if policy is not None:
            request.policy.CopyFrom(policy)
        # 3. The answer, written before the service is stopped.
        placement = _ask(request, address, options)
        if isinstance(placement, int):
            return placement
        _write(request, placement, options.output)
    return OK


def _expand(options: argparse.Namespace) -> int:
    from placement.cli.documents import yaml_documents
    from placement.kubernetes import InputError, expand, expand_all, load

    objects = load(options.files, stdin=_stdin())
    try:
        made = expand(objects)
    except InputError as error:
        _complain(str(problem) for problem in error.problems)
        return WRONG_INPUT
    _warn([*objects.warnings, *expand_all(objects).warnings])
    if not made:
        _warn(["there is no PodCliqueSet to expand"])
    sys.stdout.write(yaml_documents(made))
    return OK


def _status(options: argparse.Namespace) -> int:
    import json

    from placement.cli.status import as_json, as_table, statuses

    live = _live(options)
    if live is None:
        return NO_ANSWER
    gangs = statuses(live, namespace=options.namespace)
    if options.output == "json":
        sys.stdout.write(json.dumps(as_json(gangs), indent=2) + "\n")
    else:
        sys.stdout.write(as_table(gangs))
    return OK


#: Each command by its name.
_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "plan": _plan,
    "expand": _expand,
    "status": _status,
}


def _live(options: argparse.Namespace, *, scheduler_name: str = "") -> list[dict[str, Any]] | None:
    """The objects of the cluster, None when it could not be read, which is said."""
    from placement.cli.live import read
    from placement.cluster import ApiError

    try:
        return read(
            kubeconfig=options.kubeconfig, context=options.context, scheduler_name=scheduler_name
        )
    except ApiError as error:
        _complain([f"the cluster could not be read: {error}"])
        return None


@contextmanager
def _service(options: argparse.Namespace) -> Iterator[Callable[[], str]]:
    """The address of the service to ask, to be called when it is needed."""
    if options.server:
        yield lambda: options.server
        return
    from placement.cli.embedded import serving

    with serving(time_limit=options.time_limit) as address:
        yield address


def _ask(
    request: ComputePlacementRequest, address: Callable[[], str], options: argparse.Namespace
) -> Placement | int:
    """The placement, or the exit status when there is none."""
    from rich.console import Console

    from placement.cli.embedded import StartError
    from placement.cli.progress import ProgressLine
    from placement.client import PlacementClient, tls
    from placement.errors import InvalidRequestError, PlacementError
    from placement.v1 import Placement

    credentials = None
    if options.tls_ca:
        try:
            credentials = tls(
                options.tls_ca, certificate=options.tls_certificate, key=options.tls_key
            )
        except OSError as error:
            _complain([f"{error.filename}: cannot be read: {error.strerror}"])
            return WRONG_INPUT
    try:
        with (
            ProgressLine(Console(stderr=True), gangs=len(request.gangs)) as progress,
            PlacementClient(address(), credentials=credentials) as client,
            client.stream(request, timeout=options.time_limit + PATIENCE) as events,
        ):
            for event in events:
                if isinstance(event, Placement):
                    return event
                progress.show(event)
    except InvalidRequestError as error:
        lines = [f"request: {v.field}: {v.description}" for v in error.violations]
        unlisted = error.violation_count - len(error.violations)
        _complain([*(lines or [error.message]), *([f"and {unlisted} more"] if unlisted else [])])
        return WRONG_INPUT
    except StartError as error:
        _complain([f"the service could not start: {error}"])
        return NO_ANSWER
    except PlacementError as error:
        name = error.code.name.replace("_", " ").lower()
        where = f" at {options.server}" if options.server else ""
        _complain([f"the service{where} could not answer: {name}: {error.message}"])
        return NO_ANSWER
    _complain(["the service ended the stream without an answer"])
    return NO_ANSWER


def _stdin() -> IO[bytes] | None:
    """Standard input, None for a process that was started without one."""
    return sys.stdin.buffer if sys.stdin else None


def _write(request: ComputePlacementRequest, placement: Placement, output: str) -> None:
    """Print the answer in the form that was asked for."""
    if output == "json":
        import json

        from placement.cli.answer import answer

        text = json.dumps(answer(placement), indent=2) + "\n"
    elif output == "yaml":
        from placement.cli.answer import answer
        from placement.cli.documents import yaml_documents

        text = yaml_documents([answer(placement)], explicit_start=False)
    elif output == "html":
        from placement.cli.html import page

        text = page(request, placement)
    else:
        from placement.cli.screen import screen

        text = screen(request, placement)
    if isinstance(sys.stdout, TextIOWrapper):
        # A terminal shows what it can; programs read UTF-8 whatever the locale.
        if output == "table":
            sys.stdout.reconfigure(errors="replace")
        else:
            sys.stdout.reconfigure(encoding="utf-8")
    sys.stdout.write(text)
    sys.stdout.flush()


def _warn(warnings: Iterable[object]) -> None:
    _complain(f"warning: {warning}" for warning in warnings)


def _complain(problems: Iterable[str]) -> None:
    from placement.cli.words import printable

    for problem in problems:
        print(f"placementctl: {printable(problem)}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
