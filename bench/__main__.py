"""`python -m bench`: the command line of the benchmarks."""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from rich.console import Console

from bench import (
    compare,
    cores,
    export,
    growth,
    instances,
    lines,
    stages,
    standard,
    tables,
    warm,
)
from bench.engine import engine_line
from bench.families import traces
from bench.instances import Instance
from bench.measurement import Line
from bench.server import NoAnswer, running
from placement.errors import PlacementError

#: Exit statuses: all as expected, not as expected, wrong arguments, no answer.
OK, NOT_AS_EXPECTED, WRONG_ARGUMENTS, NO_ANSWER = 0, 1, 2, 3

Measure = Callable[[Instance], Line]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(arguments)
    if getattr(options, "data", ""):
        os.environ[traces.DATA_VARIABLE] = str(options.data)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        status = command(options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # The reader has enough, as `head` does. Python flushes once more when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except (ValueError, traces.MissingData) as error:
        print(f"bench: {error}", file=sys.stderr)
        return WRONG_ARGUMENTS
    except (NoAnswer, PlacementError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return NO_ANSWER


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Without a command: measures the standard set."
    )
    measuring = argparse.ArgumentParser(add_help=False)
    measuring.add_argument("--time-limit", type=float, default=5.0, help="seconds an instance")
    measuring.add_argument("--grpc", action="store_true", help="ask a real server")
    measuring.add_argument("--out", type=Path, help="append JSON lines to this file")
    data = argparse.ArgumentParser(add_help=False)
    data.add_argument("--data", type=Path, help=f"folder of traces; else {traces.DATA_VARIABLE}")
    choosing = argparse.ArgumentParser(add_help=False)
    choosing.add_argument("--family", required=True, choices=list(instances.FAMILIES))
    _choosing(choosing)
    parser.set_defaults(command=_standard, time_limit=5.0, grpc=False, out=None)
    commands = parser.add_subparsers(title="commands", metavar="")

    one = commands.add_parser("standard", parents=[measuring, data], help="the standard set")
    one.set_defaults(command=_standard)
    one = commands.add_parser("run", parents=[measuring, data, choosing], help="one family")
    one.add_argument("--seeds", default="1", help="for example 1-10 or 1,4,7")
    one.set_defaults(command=_run)
    one = commands.add_parser(
        "compare", parents=[data], help="the service beside other ways to place"
    )
    one.add_argument("--family", choices=list(instances.FAMILIES), help="without: the standard set")
    _choosing(one)
    one.add_argument("--seeds", default="1", help="for example 1-10 or 1,4,7")
    one.add_argument("--time-limit", type=float, default=10.0, help="seconds for each")
    one.set_defaults(command=_compare)
    one = commands.add_parser(
        "cores", parents=[data], help="the service on one processor and on two"
    )
    one.add_argument("--family", choices=list(instances.FAMILIES), help="without: the standard set")
    _choosing(one)
    one.add_argument("--cores", default="1,2", help="for example 1,2,4")
    one.add_argument("--seeds", default="1", help="for example 1-10 or 1,4,7")
    one.add_argument("--time-limit", type=float, default=5.0, help="seconds an instance")
    one.set_defaults(command=_cores)
    one = commands.add_parser("table", help="lines as a table")
    one.add_argument("files", nargs="+", type=Path)
    one.add_argument("--summary", action="store_true", help="all seeds in one row")
    one.set_defaults(command=_table)
    one = commands.add_parser(
        "export", parents=[data, choosing], help="an instance as Kubernetes objects"
    )
    one.add_argument("--seed", type=int, default=1)
    one.set_defaults(command=_export)
    one = commands.add_parser(
        "stages", parents=[data, choosing], help="CPU time of each stage of one instance"
    )
    one.add_argument("--seed", type=int, default=1)
    one.add_argument("--runs", type=int, default=3, help="the best of so many counts")
    one.set_defaults(command=_stages)
    one = commands.add_parser("growth", help="time and memory by nodes, as a plot")
    one.add_argument("--nodes", default="", help="sizes, for example 500,5000,100000")
    one.add_argument("--time-limit", type=float, default=30.0, help="seconds a size")
    one.add_argument("--lines", type=Path, help="write what was measured to this file")
    one.add_argument("--draw", type=Path, help="draw this file of lines; measure nothing")
    one.add_argument("--svg", type=Path, default=Path("growth.svg"), help="the plot")
    one.set_defaults(command=_growth)
    one = commands.add_parser("warm", help="one gang after another, in a session")
    one.add_argument("--requests", type=int, default=1000)
    one.add_argument("--blocks", type=int, default=14, help="368 nodes each")
    one.add_argument("--changes", type=int, default=10, help="nodes that change with a request")
    one.add_argument("--rate", type=float, default=0.0, help="requests a second; 0: one by one")
    one.add_argument("--seed", type=int, default=1)
    one.set_defaults(command=_warm)
    one = commands.add_parser("families", help="what there is, with parameters and defaults")
    one.set_defaults(command=_families)
    return parser


def _choosing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--load", help="the same as --set load=...")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter"
    )


def _standard(options: argparse.Namespace) -> int:
    expected = {str(e.instance): e for e in standard.STANDARD}
    measured = list(_measure([e.instance for e in standard.STANDARD], options))
    _show(tables.table(measured))
    complaints = [c for m in measured for c in standard.complaints(expected[str(m)], m)]
    for complaint in complaints:
        print(f"not as expected: {complaint}")
    return NOT_AS_EXPECTED if complaints else OK


def _run(options: argparse.Namespace) -> int:
    measured = list(_measure(_chosen(options), options))
    _show(tables.table(measured))
    if len(measured) > 1:
        _show(tables.summary(measured))
    return NOT_AS_EXPECTED if any(m.faults for m in measured) else OK


def _compare(options: argparse.Namespace) -> int:
    rows: list[compare.Row] = []
    with running() as server:
        for one in _chosen(options):
            try:
                rows += compare.compare(one, server, time_limit=options.time_limit)
            except traces.MissingData as error:
                print(f"skipped {one}: {error}", file=sys.stderr)
    _show(compare.table(rows))
    return OK


def _cores(options: argparse.Namespace) -> int:
    counts = _seeds(options.cores)
    chosen = [one for one in _chosen(options) if _is_there(one)]
    rows = list(cores.measure(chosen, counts, time_limit=options.time_limit))
    _show(cores.table(rows))
    return NOT_AS_EXPECTED if any(row.line.faults for row in rows) else OK


def _table(options: argparse.Namespace) -> int:
    found = lines.read(options.files)
    _show(tables.summary(found) if options.summary else tables.table(found))
    return OK


def _export(options: argparse.Namespace) -> int:
    chosen = instances.instance(options.family, _words(options), options.seed)
    json.dump(export.kubernetes_list(chosen.snapshot()), sys.stdout, indent=1)
    print()
    return OK


def _stages(options: argparse.Namespace) -> int:
    one = instances.instance(options.family, _words(options), options.seed)
    for stage in stages.stages(one, runs=options.runs):
        print(f"{stage.name:20} {stage.milliseconds:9.1f} ms")
    return OK


def _growth(options: argparse.Namespace) -> int:
    sizes = [int(text) for text in options.nodes.split(",")] if options.nodes else growth.SIZES
    if options.draw is not None:
        found = growth.read(options.draw)
    else:
        found = []
        for nodes in sizes:
            found.append(growth.measure(nodes, time_limit=options.time_limit))
            print(tables.size(found[-1]), flush=True)
            if options.lines is not None:
                growth.write(found, options.lines)
    options.svg.write_text(growth.draw(found))
    return OK


def _warm(options: argparse.Namespace) -> int:
    found = warm.measure(
        seed=options.seed,
        requests=options.requests,
        blocks=options.blocks,
        changes=options.changes,
        rate=options.rate,
    )
    print(warm.report(found))
    return OK if found.proven == found.requests else NOT_AS_EXPECTED


def _families(options: argparse.Namespace) -> int:
    del options
    for name, family in instances.FAMILIES.items():
        params = " ".join(f"{p}={value}" for p, value in instances.parameters(name).items())
        print(f"{name} {params}\n    {(family.__doc__ or '').strip()}\n")
    return OK


def _measure(chosen: Iterable[Instance], options: argparse.Namespace) -> Iterator[Line]:
    """Measures instance by instance; those whose files are missing are named and skipped."""
    progress = Console(stderr=True)
    with contextlib.ExitStack() as stack:
        measure = _server(stack, options) if options.grpc else _engine(stack, options)
        for one in chosen:
            with progress.status(str(one)):
                try:
                    line = measure(one)
                except traces.MissingData as error:
                    progress.print(f"skipped {one}: {error}", highlight=False, soft_wrap=True)
                    continue
            if options.out is not None:
                with options.out.open("a") as out:
                    out.write(lines.to_json(line) + "\n")
            yield line


def _engine(stack: contextlib.ExitStack, options: argparse.Namespace) -> Measure:
    # A fresh process for each instance: its memory is nobody else's.
    workers = stack.enter_context(
        ProcessPoolExecutor(
            max_workers=1,
            max_tasks_per_child=1,
            mp_context=multiprocessing.get_context("spawn"),
        )
    )
    return lambda one: workers.submit(engine_line, one, time_limit=options.time_limit).result()


def _server(stack: contextlib.ExitStack, options: argparse.Namespace) -> Measure:
    server = stack.enter_context(running())
    return lambda one: server.line(one, time_limit=options.time_limit)


def _chosen(options: argparse.Namespace) -> list[Instance]:
    """The instances of a family, or the standard set without one."""
    if options.family is None:
        return [expected.instance for expected in standard.STANDARD]
    words = _words(options)
    return [instances.instance(options.family, words, seed) for seed in _seeds(options.seeds)]


def _is_there(one: Instance) -> bool:
    """Whether an instance has the files that it is made of; names it if not."""
    try:
        one.snapshot()
    except traces.MissingData as error:
        print(f"skipped {one}: {error}", file=sys.stderr)
        return False
    return True


def _words(options: argparse.Namespace) -> dict[str, str]:
    words = {} if options.load is None else {"load": options.load}
    for pair in options.set:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"--set takes NAME=VALUE, not {pair!r}")
        words[name] = value
    return words


def _seeds(text: str) -> list[int]:
    """``1-3,7`` is 1, 2, 3 and 7."""
    result: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        result += range(int(first), int(last if dash else first) + 1)
    return result


def _show(what: object) -> None:
    # As wide as it is: a line that is cut says nothing, and a file has no width.
    console = Console(width=None if sys.stdout.isatty() else 240)
    console.print(what)


if __name__ == "__main__":
    sys.exit(main())
