"""Reads the input of the command and makes one question for the service. The input is files,
folders, standard input, a live cluster, or a saved request. Warnings about it go into the answer;
problems end the command.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from placement.cli.failures import Failure, Status, warn, wrong_input
from placement.cli.input.policy import EVICTIONS, read_policy
from placement.cli.input.saved import saved_alone
from placement.cli.options.option_values import GangName
from placement.cli.options.options import Source, WhatIf
from placement.kubernetes import (
    InputError,
    Objects,
    Parts,
    Problem,
    load,
    translate,
    whole_of,
)
from placement.kubernetes.annotated_gangs import with_annotated_gangs
from placement.kubernetes.files.bounded_files import read_stream
from placement.kubernetes.files.loading import files_in
from placement.kubernetes.level_names import asked_domain, asked_level
from placement.kubernetes.schema import kinds
from placement.kubernetes.values.reading import At
from placement.planning import changes
from placement.planning.levels import levels_of
from placement.planning.selectors import parse_selector
from placement.v1 import ComputePlacementRequest, Policy

if TYPE_CHECKING:
    from placement.cli.input.live import Found

#: When files together are larger than this, progress is shown while reading.
_LARGE: Final = 4_000_000

_Change = Callable[[ComputePlacementRequest], ComputePlacementRequest]

#: Kinds that list topology levels, and the field of a level that holds the node label.
_TOPOLOGIES: Final = {
    kinds.TOPOLOGY_BINDINGS: "key",
    kinds.KAI_TOPOLOGIES: "nodeLabel",
    kinds.KUEUE_TOPOLOGIES: "nodeLabel",
}


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What to ask. `origin` says in a few words where it comes from; `levels` are the
    topology levels that the input names, coarse ones first; `own_levels` the labels of those whose
    domains are paths, by the label that stands for them."""

    request: ComputePlacementRequest
    warnings: tuple[Problem, ...]
    origin: str
    levels: tuple[str, ...]
    parts: Parts = field(default_factory=dict)
    own_levels: Mapping[str, str] = field(default_factory=dict)

    def domains(self, level: str, like: str = "") -> tuple[str, str]:
        """A level, and a domain of it, that a person names, as the request has them.

        Raises ValueError when several domains could be meant.
        """
        asked = asked_level(self.request, level, self.own_levels)
        return asked, asked_domain(self.request, asked, like, self.own_levels)


def read_question(
    source: Source,
    *,
    policy: str | None = None,
    what_if: WhatIf | None = None,
    stdin: IO[bytes] | None = None,
) -> Question:
    """The question, changed as asked. Raises `Failure` with everything that is wrong."""
    # 1. Everything is read, and all problems are reported at once.
    problems: list[Problem] = []
    chosen = Policy()
    try:
        chosen = read_policy(policy) if policy else chosen
    except InputError as error:
        problems += error.problems
    if tuple(source.files) == ("-",) and stdin is not None:
        stdin = _rewindable(stdin)
    saved = None if source.live else saved_alone(source.files, stdin)
    question: Question | None
    if saved is not None:
        request, origin = saved
        question = Question(request, (), origin, levels_of(request, ()))
    else:
        question = _objects(source, problems, stdin)
    if problems:
        raise wrong_input(*problems)
    assert question is not None
    request = question.request
    # 2. The question about it.
    if policy:
        gpu_resources = tuple(request.policy.gpu_resources)
        request.policy.CopyFrom(chosen)
        if not chosen.gpu_resources:
            # The resources that count as GPUs in this input.
            request.policy.gpu_resources.extend(gpu_resources)
    if source.as_of is not None:
        request.snapshot.as_of.FromDatetime(source.as_of.astimezone(UTC))
    if what_if is None:
        return question
    if what_if.evict is not None:
        request.policy.eviction = EVICTIONS[what_if.evict.upper()]
    return Question(
        changed(question, what_if),
        question.warnings,
        question.origin,
        question.levels,
        question.parts,
        question.own_levels,
    )


def changed(question: Question, what_if: WhatIf) -> ComputePlacementRequest:
    """The request with the changes of the what-if options. Raises `Failure`."""
    request = question.request
    problems: list[str] = []
    for option, change in _changes(question, what_if):
        try:
            request = change(request)
        except ValueError as error:
            problems.append(f"{option}: {error}")
    if problems:
        raise wrong_input(*problems)
    return request


def _changes(question: Question, what_if: WhatIf) -> Iterator[tuple[str, _Change]]:
    """Each change in its order, and the option that asks for it."""
    parts = question.parts
    # Parts of one gang leave together.
    for gang in dict.fromkeys(whole_of(parts, g.resource_name) for g in what_if.without):
        yield "--without", partial(_without, gang=gang)
    for name, number in what_if.priority:
        gang = whole_of(parts, name)
        yield "--priority", partial(changes.with_priority, name=gang, priority=number)
    for name, number in what_if.gpu_limit:
        yield "--gpu-limit", partial(changes.with_gpu_limit, name=name, gpus=number)
    for text in what_if.cordon:
        yield "--cordon", partial(_closed, how=changes.cordoned, text=text)
    for text in what_if.drain:
        yield "--drain", partial(_closed, how=changes.drained, text=text)
    for count, level, like in what_if.add:
        if level:
            yield "--add", partial(_more, question=question, level=level, like=like, count=count)
        else:
            yield "--add", partial(changes.with_nodes, counts={f"nodes/{like}": count})


def _more(
    request: ComputePlacementRequest, question: Question, level: str, like: str, count: int
) -> ComputePlacementRequest:
    level, like = question.domains(level, like)
    return changes.with_domains(request, level, like, count, levels=question.levels)


def _without(request: ComputePlacementRequest, gang: str) -> ComputePlacementRequest:
    return changes.without(request, gang)


def _closed(
    request: ComputePlacementRequest,
    how: Callable[[ComputePlacementRequest, frozenset[str]], ComputePlacementRequest],
    text: str,
) -> ComputePlacementRequest:
    return how(request, changes.matching(request, parse_selector(text)))


def find_gang(question: Question, gang: GangName) -> str:
    """What the request calls the gang of that name. Raises `Failure` with the nearest name."""
    try:
        name = whole_of(question.parts, gang.resource_name)
        return changes.find_gang(question.request, name).name
    except ValueError as error:
        raise wrong_input(error) from error


def read_objects(
    files: Sequence[str], *, stdin: IO[bytes] | None = None, strict: bool = False
) -> tuple[Objects, tuple[Problem, ...]]:
    """The objects of files, each file read once, and warnings about the files."""
    paths, warnings = distinct(files)
    with _busy(paths):
        return load(paths, stdin=stdin, strict=strict), warnings


def distinct(files: Iterable[str]) -> tuple[list[str], tuple[Problem, ...]]:
    """The paths without those that were given before, and warnings that say so.

    A folder that holds some of them becomes its other files.
    """
    seen: set[str] = set()
    paths: list[str] = []
    warnings: list[Problem] = []
    for path in files:
        inside = [path]
        if path != "-" and os.path.isdir(path):
            # The reader of the folder reports what cannot be listed.
            with suppress(OSError):
                inside = list(map(str, files_in(Path(path)))) or [path]
        real = {one: one if one == "-" else os.path.realpath(one) for one in inside}
        repeated = [one for one in inside if real[one] in seen]
        message = "is given more than once, and read once"
        warnings += [Problem(one, "", "", message) for one in repeated]
        paths += [one for one in inside if one not in repeated] if repeated else [path]
        seen.update(real.values())
    return paths, tuple(warnings)


def standard_input() -> IO[bytes] | None:
    """Standard input, None for a process that was started without one."""
    return sys.stdin.buffer if sys.stdin else None


def _objects(source: Source, problems: list[Problem], stdin: IO[bytes] | None) -> Question | None:
    warnings: tuple[Problem, ...] = ()
    as_of = source.as_of
    if source.live:
        as_of = as_of or datetime.now(UTC)
        found = _live(source)
        objects, warnings = Objects.of(found.bodies, file="the cluster"), found.warnings
        origin = f"cluster {source.context}" if source.context else "the current cluster"
    else:
        objects, warnings = read_objects(source.files, stdin=stdin, strict=source.strict)
        origin = ", ".join("standard input" if f == "-" else f for f in source.files)
    try:
        objects = with_annotated_gangs(objects)
        translation = translate(objects, as_of=as_of, plain_gangs=source.plain_gangs)
    except InputError as error:
        problems += error.problems
        warn((*warnings, *objects.warnings))
        return None
    warnings += translation.warnings
    warn(warnings)
    request = translation.request
    if source.live and not request.snapshot.HasField("as_of"):
        request.snapshot.as_of.FromDatetime(datetime.now(UTC))
    return Question(
        request,
        warnings,
        origin,
        levels_of(request, _named_levels(objects)),
        translation.parts,
        translation.own_levels,
    )


def _rewindable(stdin: IO[bytes]) -> IO[bytes]:
    """Standard input, as it may be read twice."""
    try:
        return BytesIO(read_stream(stdin))
    except ValueError as error:
        raise wrong_input(f"<stdin>: {error}") from error


def _named_levels(objects: Objects) -> list[str]:
    """Node label keys that topology objects list, coarse ones first."""
    found: dict[str, None] = {}
    for kind, label in _TOPOLOGIES.items():
        for one in objects.of_kind(kind):
            spec = one.body.get("spec")
            levels = spec.get("levels") if isinstance(spec, dict) else None
            for level in levels if isinstance(levels, list) else ():
                key = level.get(label) if isinstance(level, dict) else None
                if isinstance(key, str):
                    found[key] = None
    for one in objects.of_kind(kinds.NETWORK_TOPOLOGIES):
        layers = At(one.body, {}).get("spec").get("networkTopologySpec")
        found |= dict.fromkeys(k for layer in layers.items() for k in layer.get("labelKey").texts())
    return list(found)


def _live(source: Source) -> Found:
    from placement.cli.input.live import read
    from placement.cluster import ApiError

    try:
        return read(
            kubeconfig=source.kubeconfig,
            context=source.context,
            scheduler_name=source.scheduler_name,
        )
    except ApiError as error:
        raise Failure(Status.NO_ANSWER, [f"the cluster could not be read: {error}"]) from error


@contextmanager
def _busy(paths: Iterable[str]) -> Iterator[None]:
    """Shows on a terminal that large files are being read."""
    size = sum(os.path.getsize(path) for path in paths if os.path.isfile(path))
    if size < _LARGE or not sys.stderr.isatty():
        yield
        return
    from placement.cli.consoles import progress_console

    with progress_console().status(f"reading {size / 1e6:.0f} MB"):
        yield
